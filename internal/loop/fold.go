package loop

import (
	"fmt"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop/signal"
)

// Fold applies events to a new state. It fails for a gap in the sequence and for events of a newer version.
func Fold(events []Event) (*State, error) {
	s := &State{}
	if err := s.Apply(events...); err != nil {
		return nil, err
	}
	return s, nil
}

// Apply folds more events into s. A long journal is folded part by part, so that no more of it is in memory than a part.
func (s *State) Apply(events ...Event) error {
	for i := range events {
		if err := s.apply(&events[i]); err != nil {
			return err
		}
	}
	s.read()
	return nil
}

// read looks for what only the last texts can tell: the signal and the output. To fold a long journal, the texts of the
// turns before need not be read at all.
func (s *State) read() {
	if t := s.turn; t != nil && t.unscanned {
		t.signal, t.unscanned = t.findSignal(), false
	}
	for i := len(s.unread) - 1; i >= 0; i-- {
		if s.keepOutput(s.unread[i]) {
			break
		}
	}
	s.unread = nil
}

func (s *State) apply(e *Event) error {
	if e.Version > EventVersion {
		return fmt.Errorf("event %d has schema version %d, this operator knows up to %d: run the newer operator", e.Seq, e.Version, EventVersion)
	}
	if e.Seq != s.Seq+1 {
		return fmt.Errorf("event %d follows event %d: the journal has a gap", e.Seq, s.Seq)
	}
	s.Seq = e.Seq
	s.JournalBytes += eventBytes(e)
	if s.End != nil {
		return nil // nothing follows the end
	}
	s.skip(e.Time, e.Waited)
	if e.Opened == nil {
		s.Attempts = 0
	}
	switch {
	case e.Opened != nil:
		s.applyOpened(e)
	case e.ModelReplied != nil:
		s.applyReplied(e.ModelReplied)
	case e.ModelFailed != nil:
		s.applyFailed(e)
	case e.CallsStarted != nil && s.turn != nil:
		s.turn.started = true
	case e.ToolsReturned != nil && s.turn != nil:
		s.applyReturned(e.ToolsReturned)
	case e.Nudged != nil:
		s.applyNudged(e.Nudged)
	case e.Asked != nil:
		s.applyAsked(e)
	case e.InputSeen != nil && s.Question != nil:
		s.Question.InputHash, s.Question.early = e.InputSeen.InputHash, e.InputSeen.InputHash != ""
	case e.Answered != nil && s.Question != nil:
		s.applyAnswered(e)
	case e.Kind == KindSuspended:
		s.Suspended = true
		s.stopClock(e.Time)
	case e.Kind == KindUnsuspended:
		s.Suspended = false
		s.startClock(e.Time)
	case e.Kind == KindReleased:
		s.Released = true
	case e.Compacted != nil:
		s.applyCompacted(e.Compacted)
	case e.LimitReached != nil:
		s.WrapUp, s.wrapUpWhy = e.LimitReached.Reason, e.LimitReached.Message
		s.Failures, s.RetryAt, s.LastFailure = 0, time.Time{}, nil
	case e.Finished != nil:
		s.stopClock(e.Time)
		s.End, s.EndedAt = e.Finished, e.Time
		s.Question, s.Suspended = nil, false
	}
	s.lastAt = e.Time
	return nil
}

func (s *State) applyReplied(r *ModelReplied) {
	s.called(r.Reply.Usage, r.Cost, r.OutputCap)
	s.countCall(r.Purpose)
	s.Failures, s.RetryAt, s.LastFailure = 0, time.Time{}, nil
	switch r.Purpose {
	case PurposeJudge:
		if s.turn != nil {
			s.turn.verdict = r.Verdict
		}
		return
	case PurposeCompaction:
		return // the Compacted event that follows does it
	case PurposeTurn, PurposeWrapUp:
	}
	texts := r.Reply.Texts()
	s.unread = append(s.unread, texts)
	t := &turn{reply: r.Reply, wrapUp: r.Purpose == PurposeWrapUp, output: r.Output, stopWhen: r.StopWhen}
	s.turn = t
	if t.wrapUp {
		return
	}
	s.Iterations++
	s.compactions, s.overflowed = 0, false
	s.calibration.learn(r)
	t.unscanned = true
	if len(r.NeedApproval) > 0 {
		t.needApproval, t.digests = toSet(r.NeedApproval), r.ToolDigests
		t.shown = shownWhole(r.Reply.ToolCalls, t.needApproval)
		if r.ToolDigests == nil { // a journal from before they were noted, or tools without any
			t.digests = s.Pins.Digests
		}
	}
	t.started = len(r.Reply.ToolCalls) > 0 && len(r.NeedApproval) == 0
	t.returned = len(r.Reply.ToolCalls) == 0
	s.say(Message{Role: RoleAssistant, Blocks: r.Reply.Blocks, ToolCalls: r.Reply.ToolCalls})
	s.note(LogEntry{Text: logLine(s.Iterations, &r.Reply, texts)})
	if t.returned {
		s.countRepeat(turnTrace(texts, nil, nil))
	}
}

func (s *State) use(u Usage, cost *Cost) {
	s.Usage = s.Usage.Add(u)
	s.costs.add(u, cost)
}

// called counts what a call took that gave an answer, whole or not.
func (s *State) called(u Usage, cost *Cost, outputCap int64) {
	s.use(u, cost)
	s.largest = max(s.largest, u.OutputTokens)
	s.overCap = overCap{}
	if output := u.Total() - max(0, u.InputTokens); outputCap > 0 && output > outputCap && !u.Estimated {
		s.overCap = overCap{cap: outputCap, took: output}
	}
}

func (s *State) applyFailed(e *Event) {
	f := e.ModelFailed
	s.called(f.Usage, f.Cost, f.OutputCap)
	s.LastFailure = f
	if f.Text != "" && (f.Purpose == PurposeTurn || f.Purpose == PurposeWrapUp) {
		s.unread = append(s.unread, []string{f.Text})
	}
	if f.Interrupted {
		return // our doing: no attempt of the model's is used up
	}
	s.countCall(f.Purpose)
	if f.RefusedTool != "" { // what follows is another request
		s.refuse(f.RefusedTool)
		return
	}
	s.chargeFailed(f.Usage)
	active := s.Active(e.Time)
	if s.Failures == 0 {
		s.failing.from = active
	}
	s.failing.elapsed, s.failing.at = active-s.failing.from, e.Time
	s.Failures++
	s.RetryAt = f.RetryAt
	if f.Cause == CauseContextWindowExceeded && f.Purpose == PurposeTurn {
		s.overflowed = true
	}
}

func (s *State) applyReturned(r *ToolsReturned) {
	t := s.turn
	t.returned, t.results = true, r.Results
	if r.Todo != nil {
		s.Todo = r.Todo
	}
	s.say(Message{Role: RoleTool, ToolResults: r.Results})
	t.unscanned = true
	s.countRepeat(turnTrace(nil, t.reply.ToolCalls, r.Results))
}

func (s *State) applyNudged(n *Nudged) {
	if s.turn != nil {
		s.turn.over = true
	}
	if !n.Aside {
		s.chainStart = len(s.Messages)
	}
	s.warned = append(s.warned, n.Warned...)
	m := UserText(n.Text)
	m.speaker = "operator"
	s.say(m)
}

func (s *State) applyAsked(e *Event) {
	q := &Question{Asked: *e.Asked, AskedAt: e.Time}
	if t := s.turn; t != nil {
		if t.asked == nil {
			t.asked = map[QuestionKind]bool{}
		}
		t.asked[q.Kind] = true
		want := toSet(q.CallIDs)
		for _, c := range t.reply.ToolCalls {
			if want[c.ID] && t.shown[c.ID] {
				c.Arguments = orEmptyObject(c.Arguments) // as it runs
				q.Calls = append(q.Calls, c)
			}
		}
	}
	s.Question = q
	s.stopClock(e.Time)
}

func (s *State) applyAnswered(e *Event) {
	q, a := s.Question, e.Answered
	s.Question, s.LastAnswer = nil, a
	if !s.Suspended {
		s.startClock(e.Time)
	}
	if q.Kind != QuestionApproval {
		s.say(UserText(a.Text))
		s.note(LogEntry{Text: answerEntry(q.Question, a.Text), Answer: true})
		if s.turn != nil {
			s.turn.over = true
		}
		return
	}
	if t := s.turn; t != nil {
		t.denied, t.denyReason = toSet(a.Denied), a.DenyReason
	}
}

func (s *State) applyCompacted(c *Compacted) {
	kept := min(max(c.Kept, 0), len(s.Messages))
	removed := len(s.Messages) - kept
	tail := s.Messages[removed:]
	s.Messages = append([]Message{summaryMessage(c.Summary)}, tail...)
	s.heldBytes = textBytes(s.Messages)
	if s.chainStart < removed {
		s.chainStart = 0 // the summary stands for the chain's beginning
	} else {
		s.chainStart += 1 - removed
	}
	s.compactions++
	s.overflowed = false
	s.Failures, s.RetryAt = 0, time.Time{}
}

// keepOutput takes texts as the output, unless nothing but signals is in them: partial work must not be lost to a last
// line that says only that it is done.
func (s *State) keepOutput(texts []string) bool {
	var rest []string
	for _, t := range texts {
		if t = signal.Strip(t); t != "" {
			rest = append(rest, t)
		}
	}
	if len(rest) == 0 {
		return false
	}
	s.Output = joinTexts(rest)
	return true
}

func (s *State) countRepeat(t trace) {
	s.repeats.add(t)
	s.Repeats, _ = s.repeats.longest(0)
}

func (s *State) countCall(p Purpose) {
	if s.calls == nil {
		s.calls = map[Purpose]int{}
	}
	s.calls[p]++
}

// callsBefore counts the calls that went to the model of this purpose; the judge may be a model of its own.
func (s *State) callsBefore(p Purpose, ownJudge bool) int {
	if p == PurposeJudge && ownJudge {
		return s.calls[PurposeJudge]
	}
	n := 0
	for q, c := range s.calls {
		if q != PurposeJudge || !ownJudge {
			n += c
		}
	}
	return n
}
