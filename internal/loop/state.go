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

	// ToolDigests are the tools that the task was started with.
	ToolDigests map[string]string

	// Messages is the conversation after the prompt. Compaction replaces its head by a summary.
	Messages []Message
	// Log has one line a turn, and what humans answered, for the Fresh context.
	Log []LogEntry
	// Todo is the agent's own list.
	Todo []TodoItem
	// Output is the last assistant text without signal lines.
	Output string

	Iterations int64
	Usage      Usage
	// JudgeUsage is the part of Usage that the judge took, whose model may have prices of its own.
	JudgeUsage Usage

	// Question is what a human is asked, nil for nothing.
	Question  *Question
	Suspended bool
	// WrapUp is the limit that was reached, while the wrap-up call is still due.
	WrapUp ExitReason
	// wrapUpWhy is what the end will say of it.
	wrapUpWhy string
	// Attempts counts the attempts at what is under way that ended with the operator: the Opened events since anything else
	// happened. The task's start is none, nor is an opening while nothing could run: with an open question, suspended, or
	// before RetryAt.
	Attempts int
	// Failures counts the failed attempts of the current model call, RetryAt is when the next is due.
	Failures    int
	LastFailure *ModelFailed
	RetryAt     time.Time
	// LastAnswer is the last answer that was latched.
	LastAnswer *Answered
	// Repeats counts the turns in a row that were the same, the first included.
	Repeats int

	turn        *turn
	last        trace      // the last turn that ended, by which repeats are found
	unread      [][]string // texts that Output was not taken from yet
	chainStart  int        // index in Messages where the Fresh context begins
	overflowed  bool       // the provider said that the context is too long, and it was not compacted yet
	compactions int        // compactions since the last turn
	active      time.Duration
	activeSince time.Time // zero while the clock stands still
	calibration calibration
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
}

// Approved names the tools of the calls that a human has allowed and that have not begun.
func (s *State) Approved() (names []string) {
	t := s.turn
	if t == nil || t.started || t.returned || s.Question != nil || !t.asked[QuestionApproval] {
		return nil
	}
	for _, c := range t.reply.ToolCalls {
		if t.needApproval[c.ID] && !t.denied[c.ID] {
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

// Active is the time spent running until now. It stands still while a human is asked and while the task is suspended, and
// runs on while no operator is there.
func (s *State) Active(now time.Time) time.Duration {
	if s.activeSince.IsZero() {
		return s.active
	}
	return s.active + max(0, now.Sub(s.activeSince))
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
