package loop

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop/eval"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/signal"
)

// Decide names the next action. It is a function of its arguments: the same journal, spec and time give the same answer.
func Decide(s *State, sp *Spec, now time.Time) Action {
	return withOverCap(decide(s, sp, now), s, sp)
}

func decide(s *State, sp *Spec, now time.Time) Action {
	switch {
	case s.End != nil:
		return done()
	case sp.Cancel:
		return finish(ExitCancelled, "", sp.CancelMessage())
	case s.Input == nil && promptBytes(sp) > maxPromptBytes:
		return finish(ExitError, CausePromptTooLarge, fmt.Sprintf("spec.prompt and spec.instructions take %d bytes as JSON, which writes control "+
			"characters with six, and at most %d fit into a journal. Take control characters out, or shorten them.", promptBytes(sp), maxPromptBytes))
	case s.crashed(sp) && s.WrapUp == "":
		return finish(ExitError, CauseTurnCrashed, fmt.Sprintf(
			"The operator stopped %d times while it ran this turn, so the turn is given up. Look at the operator's log, then create the task anew.", s.Attempts))
	case s.Question != nil:
		return awaitInput(s, sp, now)
	case sp.Held:
		return held(s, sp, now)
	case s.WrapUp != "":
		return wrapUp(s, sp, now)
	case s.turn == nil || s.turn.over:
		return nextTurn(s, sp, now)
	case !s.turn.returned:
		return pendingCalls(s, sp, now)
	default:
		return afterTurn(s, sp, now)
	}
}

// crashed tells that a turn is given up: it ended with the operator so many times, and the last time it was the only suspect.
func (s *State) crashed(sp *Spec) bool {
	most := sp.maxTurnAttempts()
	return s.Attempts >= most && (s.blamed || most == 1)
}

// awaitInput latches an answer, or waits for it until the deadline.
func awaitInput(s *State, sp *Spec, now time.Time) Action {
	q := s.Question
	if a, ok := answerTo(q, sp); ok {
		return emit(Event{Answered: a})
	}
	if hash, ok := noAnswer(q, sp); ok {
		return emit(Event{InputSeen: &InputSeen{InputHash: hash}})
	}
	if sp.InputTimeout <= 0 {
		return waitUntil(time.Time{})
	}
	if deadline := q.AskedAt.Add(sp.InputTimeout); now.Before(deadline) {
		return waitUntil(deadline)
	}
	return finish(ExitInputTimeout, "", fmt.Sprintf("Nobody answered within inputTimeout (%s). Create the task anew with a longer spec.inputTimeout, or answer sooner.", sp.InputTimeout))
}

// held waits, but not beyond the task's time.
func held(s *State, sp *Spec, now time.Time) Action {
	if sp.timeIsUp(s, now) {
		return finish(ExitTimeBudgetExceeded, "", limitMessage(ExitTimeBudgetExceeded, s, sp))
	}
	return waitUntil(s.timeLimit(sp, now))
}

// pendingCalls runs the tool calls of a reply, or says why they are not run.
func pendingCalls(s *State, sp *Spec, now time.Time) Action {
	t := s.turn
	if a, ok := refused(&t.reply); ok {
		return a
	}
	switch {
	case truncated(&t.reply):
		return returned(notRun(t.reply.ToolCalls, "Not run: the reply was cut off before it ended. Ask again, with fewer or shorter calls."))
	case len(t.shown) > 0 && !t.asked[QuestionApproval]:
		return emit(Event{Asked: approvalQuestion(s, sp)})
	case sp.timeIsUp(s, now):
		return emit(Event{ToolsReturned: tooLate(t, sp)})
	case t.lost && sp.Unresolved:
		return waitUntil(s.timeLimit(sp, now)) // which calls may be repeated shows once the tools are known
	case t.lost && !anyRepeatable(t.reply.ToolCalls, sp):
		return returned(lostResults(t, sp))
	}
	return runTools()
}

// afterTurn is the order in which a turn's outcome is judged: a signal, the limits, the cheap predicate, the judge, no
// progress, the nudge. (Cancel and approval came before.)
func afterTurn(s *State, sp *Spec, now time.Time) Action {
	t := s.turn
	if a, ok := refused(&t.reply); ok {
		return a
	}
	if t.signal.Kind == signal.NeedInput && !t.asked[QuestionInput] {
		return emit(Event{Asked: &Asked{
			ID: questionID(s, QuestionInput), Kind: QuestionInput, Question: t.signal.Payload, InputHash: HashInput(sp.ResumeInput),
		}})
	}
	claimed, stops := t.signal.Kind == signal.Complete, t.stops(sp)
	output, outputErr := t.result(sp)
	switch {
	// It is the user's to correct, whatever else the turn has reached.
	case errors.Is(outputErr, eval.ErrTooMuchWork) && (claimed || stops || sp.Strategy == StrategyJudge && len(t.reply.ToolCalls) == 0):
		return finish(ExitError, CauseInvalidOutputSchema, "spec.outputSchema cannot be used, since "+outputErr.Error()+". Create the task anew with a simpler one.")
	case claimed && sp.Strategy != StrategyJudge && sp.Strategy != StrategySignalThenJudge && outputErr == nil:
		return t.completed(output, "The agent signalled that it is done.")
	}
	if a, ok := limit(s, sp, now); ok {
		return a
	}
	if stops && outputErr == nil {
		return t.completed(output, "spec.completion.stopWhen is true.")
	}
	if outputErr == nil {
		if a, ok := judge(s, sp, now, claimed, output); ok {
			return a
		}
	}
	if sp.NoProgressTurns > 0 && s.Repeats >= sp.NoProgressTurns {
		return stopFor(s, sp, now, ExitNoProgress, limitMessage(ExitNoProgress, s, sp))
	}
	texts, warned := remarks(s, sp, now)
	aside := len(t.reply.ToolCalls) > 0 && !claimed
	switch {
	case !aside:
		texts = append([]string{nudgeText(s, sp, claimed, outputErr)}, texts...)
	case len(texts) == 0:
		return nextTurn(s, sp, now)
	}
	return emit(Event{Nudged: &Nudged{Text: strings.Join(texts, "\n\n"), Aside: aside, Warned: warned}})
}

// judge asks the second model, or follows what it said.
func judge(s *State, sp *Spec, now time.Time, claimed bool, output string) (Action, bool) {
	t := s.turn
	due := (sp.Strategy == StrategyJudge && len(t.reply.ToolCalls) == 0) ||
		(claimed && (sp.Strategy == StrategySignalThenJudge || sp.Strategy == StrategyJudge))
	if !due || !evidence(&t.reply) {
		return Action{}, false
	}
	switch {
	case t.verdict == nil:
		if a, ok := hold(s, sp); ok {
			return a, true
		}
		return costly(s, sp, now, PurposeJudge), true
	case t.verdict.Answered:
		return t.completed(output, "The judge found the request answered."), true
	}
	return Action{}, false // the reasoning becomes the nudge
}

// hold suspends the task and wakes it, as spec.suspend says. A suspended task makes no model call.
func hold(s *State, sp *Spec) (Action, bool) {
	switch {
	case sp.Suspend && !s.Started():
		return waitUntil(time.Time{}), true // nothing has begun, so there is nothing to record
	case sp.Suspend && !s.Suspended:
		return emit(Event{Kind: KindSuspended}), true
	case sp.Suspend:
		return waitUntil(time.Time{}), true
	case s.Suspended:
		return emit(Event{Kind: KindUnsuspended}), true
	}
	return Action{}, false
}

// nextTurn starts a turn, unless something holds it.
func nextTurn(s *State, sp *Spec, now time.Time) Action {
	if a, ok := hold(s, sp); ok {
		return a
	}
	if a, ok := limit(s, sp, now); ok {
		return a
	}
	if s.overflowed && !canCompact(s, sp) {
		return finish(ExitError, CauseContextWindowExceeded,
			"The conversation does not fit the model's context window, and cannot be made shorter. Use a model with a larger window, shorter tool results, or context.mode Fresh.")
	}
	if s.overflowed || needsCompaction(s, sp) {
		return costly(s, sp, now, PurposeCompaction)
	}
	return costly(s, sp, now, PurposeTurn)
}

// wrapUp makes the last call after a limit, and ends with the limit's reason whatever becomes of it.
func wrapUp(s *State, sp *Spec, now time.Time) Action {
	failed := s.LastFailure != nil && !s.LastFailure.Interrupted // what we broke off ourselves is made again
	tried := failed || s.crashed(sp) || s.turn != nil && s.turn.wrapUp
	if !tried {
		if a, ok := hold(s, sp); ok {
			return a
		}
	}
	if !tried && wrapUpFits(s, sp, now) {
		if a := costly(s, sp, now, PurposeWrapUp); a.Kind == ActionCallModel {
			return a
		}
	}
	return finish(s.WrapUp, "", cmp.Or(s.wrapUpWhy, limitMessage(s.WrapUp, s, sp)))
}

// costly is the gate before every model call: the backoff of a failed attempt, the size of the journal, and the token budget.
func costly(s *State, sp *Spec, now time.Time, p Purpose) Action {
	// A turn that does not fit the context window is followed at once by a compaction, which is no repetition of it.
	f := s.LastFailure
	if s.Failures > 0 && (p != PurposeCompaction || f.Purpose == p || !s.overflowed) {
		if a, due := retryFailed(s, sp, now); due {
			return a
		}
	}
	if sp.MaxJournalBytes > 0 && s.JournalBytes >= sp.MaxJournalBytes {
		return finish(ExitError, CauseJournalFull, journalFull(s, sp))
	}
	a := Action{Kind: ActionCallModel, Purpose: p, EstimatedInput: s.calibration.estimate(requestBytes(s, sp, p))}
	a.OutputCap = outputCap(s, sp, p, a.EstimatedInput)
	if sp.MaxTokens > 0 && sp.tokensLeft(s, a.EstimatedInput) < minReplyTokens {
		return stopFor(s, sp, now, ExitTokenBudgetExceeded, fmt.Sprintf(
			"The next call needs about %d tokens, and %d of maxTokens (%d) are left.%s Create the task anew with a larger spec.maxTokens.",
			a.EstimatedInput+minReplyTokens, max(0, sp.tokensLeft(s, 0)), sp.MaxTokens, s.failed.used(s, sp)))
	}
	return a
}

// minReplyTokens is the smallest reply worth paying for.
const minReplyTokens = 16

// timeLimit is when maxDuration is used up, zero for never.
func (s *State) timeLimit(sp *Spec, now time.Time) time.Time {
	if sp.MaxDuration <= 0 {
		return time.Time{}
	}
	return now.Add(sp.MaxDuration - sp.Active(s, now))
}

// earlier is the earlier of two times, of which b may be zero for never.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}
