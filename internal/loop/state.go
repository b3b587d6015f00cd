package loop

import (
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop/signal"
)

// State is what a journal folds to. It is never stored: the journal is. The zero value is a task that has not started.
type State struct {
	// Seq is the sequence number of the last event.
	Seq int64
	// Holder is who opened the journal last.
	Holder    string
	StartedAt time.Time
	EndedAt   time.Time
	// End is set once the task has finished. Nothing changes after that.
	End *Finished

	// Input is what the task is asked, nil before its start.
	Input *Input
	// Pins are what the task has agreed to of its toolsets.
	Pins Pins
	// JournalBytes is about the size of the journal, before compression: all text of its events, and what stands around it.
	JournalBytes int64

	// Messages is the conversation after the prompt, of at most maxHeldBytes. Compaction replaces its head by a summary.
	Messages []Message
	// Log has one line a turn, and what humans answered, for the Fresh context: as much as a request shows.
	Log []LogEntry
	// Todo is the agent's own list.
	Todo []TodoItem
	// Output is the last assistant text without signal lines.
	Output string

	Iterations int64
	Usage      Usage

	// Question is what a human is asked, nil for nothing.
	Question  *Question
	Suspended bool
	// RefusedTools are those that are not offered any more, since the model's server refused their schemas.
	RefusedTools map[string]bool
	// WrapUp is the limit that was reached, while the wrap-up call is still due.
	WrapUp ExitReason
	// wrapUpWhy is what the end will say of it.
	wrapUpWhy string
	// Released: the last holder has let the task go, with no call under way. Nothing is called before it is opened again.
	Released bool
	// Attempts counts the attempts at what is under way that ended with the operator: the Opened events since anything else
	// happened. The task's start is none, nor is an opening while nothing could run (with an open question, suspended, before
	// RetryAt, after a release), nor one after a rival.
	Attempts int
	// Failures counts the failed attempts of the current model call, RetryAt is when the next is due.
	Failures    int
	LastFailure *ModelFailed
	RetryAt     time.Time
	// LastAnswer is the last answer that was latched.
	LastAnswer *Answered
	// Repeats counts the last turns that are a loop, of up to 5 different ones, its first round included.
	Repeats int

	warned      []ExitReason // limits that the agent was told are near
	failing     failing
	failed      failed
	turn        *turn
	alone       bool // the turn was opened beside no other that had ended in crashes
	blamed      bool // so it was when the last attempt ended with the operator
	repeats     repeats
	unread      [][]string // texts that Output was not taken from yet
	chainStart  int        // index in Messages where the Fresh context begins
	heldBytes   int        // of the texts in Messages
	unlogged    unlogged   // what Log held before
	overflowed  bool       // the provider said that the context is too long, and it was not compacted yet
	compactions int        // compactions since the last turn
	lastAt      time.Time  // of the last event
	active      time.Duration
	activeSince time.Time // zero while the clock stands still
	calibration calibration
	largest     int64   // output of the largest reply, in tokens
	overCap     overCap // of the last call, zero unless it took more than its cap
	costs       costs
	calls       map[Purpose]int
}

// LogEntry is one line for a turn or, with Answer, what a human was asked and answered.
type LogEntry struct {
	Text   string
	Answer bool
}

// Question is an open question.
type Question struct {
	Asked
	AskedAt time.Time
	// Calls are the tool calls that an Approval is about.
	Calls []ToolCall

	early bool // resumeInput was written before the question was shown
}

// Approved names the tools of the calls that a human has allowed and that have not begun.
func (s *State) Approved() (names []string) {
	t := s.turn
	if t == nil || t.started || t.returned || s.Question != nil || !t.asked[QuestionApproval] {
		return nil
	}
	for _, c := range t.reply.ToolCalls {
		if t.shown[c.ID] && !t.denied[c.ID] {
			names = append(names, c.Name)
		}
	}
	return names
}

// turn is the last reply and how far its consequences have come. It is over when the next reply replaces it.
type turn struct {
	reply        Reply
	signal       signal.Signal
	unscanned    bool // signal is not up to date
	needApproval map[string]bool
	shown        map[string]bool   // those of needApproval that a human can be shown whole
	digests      map[string]string // of the tools of these calls, by name
	asked        map[QuestionKind]bool
	denied       map[string]bool
	denyReason   string
	started      bool // the calls may have begun
	lost         bool // the journal was opened anew after they may have begun
	returned     bool // the results are in
	results      []ToolResult
	verdict      *Verdict
	output       *OutputCheck
	stopWhen     *StopCheck
	over         bool // nudged or answered: the next turn is due
	wrapUp       bool
}

func (s *State) startClock(at time.Time) {
	if s.activeSince.IsZero() && !s.StartedAt.IsZero() && s.Question == nil {
		s.activeSince = at
	}
}

func (s *State) stopClock(at time.Time) {
	if !s.activeSince.IsZero() {
		s.active += max(0, at.Sub(s.activeSince))
		s.activeSince = time.Time{}
	}
}

// skip takes time since the last event off the clock, if it runs.
func (s *State) skip(now time.Time, d time.Duration) {
	if !s.activeSince.IsZero() {
		s.activeSince = s.activeSince.Add(s.sinceLast(now, d))
	}
}

// sinceLast bounds d by the time since the last event.
func (s *State) sinceLast(now time.Time, d time.Duration) time.Duration {
	return max(0, min(d, now.Sub(s.lastAt)))
}

// Active is the time spent running until now. It stands still while a human is asked, while the task is suspended, while it
// waits for our own slots, limits or budgets, and while no operator holds it. For a task that waits so just now, ask
// Spec.Active.
func (s *State) Active(now time.Time) time.Duration {
	if s.activeSince.IsZero() {
		return s.active
	}
	return s.active + max(0, now.Sub(s.activeSince))
}

// Active is the time that s has spent running until now, without what it has waited since its last event, and without the time
// in which nobody held it.
func (sp *Spec) Active(s *State, now time.Time) time.Duration {
	return s.Active(now.Add(-s.sinceLast(now, sp.Waited+sp.unheld(s, now))))
}

// unheld is the part of the time since the last event in which the task may have had no holder.
func (sp *Spec) unheld(s *State, now time.Time) time.Duration {
	if sp.HeldSince.IsZero() {
		return 0
	}
	return s.sinceLast(now, sp.HeldSince.Sub(s.lastAt))
}

// Started tells whether the task has begun.
func (s *State) Started() bool { return !s.StartedAt.IsZero() }

// BetweenTurns tells whether no reply waits for the results of its tool calls.
func (s *State) BetweenTurns() bool { return s.turn == nil || s.turn.returned }

// ExitReason is why the loop last stopped, empty while it runs.
func (s *State) ExitReason() ExitReason {
	switch {
	case s.End != nil:
		return s.End.Reason
	case s.Question != nil:
		return ExitNeedInput
	}
	return ""
}
