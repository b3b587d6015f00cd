package loop

import (
	"cmp"
	"fmt"
	"time"
)

// limit ends the loop when one of the three limits is reached: tokens, then time, then iterations.
func limit(s *State, sp *Spec, now time.Time) (Action, bool) {
	reason := reachedLimit(s, sp, now)
	if reason == "" {
		return Action{}, false
	}
	return stopFor(s, sp, now, reason, limitMessage(reason, s, sp)), true
}

func reachedLimit(s *State, sp *Spec, now time.Time) ExitReason {
	switch {
	case sp.MaxTokens > 0 && s.Usage.Total() >= sp.MaxTokens:
		return ExitTokenBudgetExceeded
	case sp.timeIsUp(s, now):
		return ExitTimeBudgetExceeded
	case sp.MaxIterations > 0 && s.Iterations >= sp.MaxIterations:
		return ExitIterationCapReached
	}
	return ""
}

func (sp *Spec) timeIsUp(s *State, now time.Time) bool {
	return sp.MaxDuration > 0 && sp.Active(s, now) >= sp.MaxDuration
}

// stopFor ends the loop for a limit, after a wrap-up call where one is wanted and fits what is left.
func stopFor(s *State, sp *Spec, now time.Time, reason ExitReason, message string) Action {
	if sp.WrapUp && s.WrapUp == "" && s.Iterations > 0 && wrapUpFits(s, sp, now) {
		return emit(Event{LimitReached: &LimitReached{Reason: reason, Message: message}})
	}
	return finish(reason, "", message)
}

func wrapUpFits(s *State, sp *Spec, now time.Time) bool {
	if sp.timeIsUp(s, now) {
		return false
	}
	need := s.calibration.estimate(requestBytes(s, sp, PurposeWrapUp)) + minReplyTokens
	return sp.MaxTokens <= 0 || s.Usage.Total()+need <= sp.MaxTokens
}

// limitMessage tells which limit ended the task, and what to do. It promises only the output that there is.
func limitMessage(reason ExitReason, s *State, sp *Spec) string {
	next := " Create the task anew with a larger limit to go further."
	if s.Output != "" {
		next = " Partial output is in status.output; create the task anew with a larger limit to go further."
	}
	switch reason {
	case ExitTokenBudgetExceeded:
		return fmt.Sprintf("maxTokens (%d) is used up.", sp.MaxTokens) + s.failed.used(s, sp) + next
	case ExitTimeBudgetExceeded:
		waiting := "."
		switch {
		case sp.WaitingFor != "":
			waiting = ", while the task waited for " + cutAt(sp.WaitingFor, 300) + "."
		case s.Failures > 0:
			waiting = ", while a model call failed again and again. " + s.LastFailure.Message
		}
		return fmt.Sprintf("maxDuration (%s) is used up after %s%s", sp.MaxDuration, count(int(s.Iterations), "turn"), waiting) + next
	case ExitIterationCapReached:
		return fmt.Sprintf("maxIterations (%d) is reached.", sp.MaxIterations) + next
	case ExitNoProgress:
		said := "the transcript"
		if s.Output != "" {
			said = "status.output"
		}
		again := "repeated themselves"
		if _, period := s.repeats.longest(0); period > 1 {
			again = fmt.Sprintf("were the same %d again and again", period)
		}
		return fmt.Sprintf("The last %d turns %s. Look at %s, then create the task anew with a clearer prompt.", s.Repeats, again, said)
	case ExitCompleted, ExitNeedInput, ExitInputTimeout, ExitCancelled, ExitError: // they are no limits
	}
	return ""
}

func journalFull(s *State, sp *Spec) string {
	kept := ""
	if s.Output != "" {
		kept = " Partial output is in status.output."
	}
	return fmt.Sprintf("The task's journal has %d bytes, and its cap is %d.%s Create the task anew with a larger spec.maxJournalBytes, "+
		"with tools of shorter results, or as several tasks.", s.JournalBytes, sp.MaxJournalBytes, kept)
}

// tokensLeft is what is left of maxTokens for the output of a call with this input.
func (sp *Spec) tokensLeft(s *State, input int64) int64 {
	return sp.MaxTokens - s.Usage.Total() - input
}

// outputCap is the cap of a call's reply, 0 for none. With maxTokens there always is one: reasoning that is billed but not
// streamed can be held by nothing else.
func outputCap(s *State, sp *Spec, p Purpose, input int64) int64 {
	most := sp.ReplyTokens
	if p == PurposeJudge && sp.OwnJudge {
		most = 0 // the cap is the task's model's; the judge has its own
	}
	if sp.MaxTokens <= 0 {
		return most
	}
	return min(cmp.Or(most, cappedReplyTokens), sp.tokensLeft(s, input))
}

// cappedReplyTokens is the cap of a reply with maxTokens where the AgentModel sets none. A call that is lost to a crash is charged
// its whole cap, so the whole budget must not hang on one.
const cappedReplyTokens = 32 << 10

// overCap is an output cap, and what a call took all the same.
type overCap struct{ cap, took int64 }

// withOverCap says in a task's end that its budget was passed because a model server does not keep caps, where that is so.
func withOverCap(a Action, s *State, sp *Spec) Action {
	o := s.overCap
	if a.Event.Finished == nil || sp.MaxTokens <= 0 || s.Usage.Total() <= sp.MaxTokens || o.cap == 0 {
		return a
	}
	f := *a.Event.Finished
	f.Message += fmt.Sprintf(" The last call was capped at %d output tokens and took %d: its model server does not keep the cap.", o.cap, o.took)
	return emit(Event{Finished: &f})
}
