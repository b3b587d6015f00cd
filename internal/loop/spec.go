package loop

import (
	"cmp"
	"encoding/json"
	"time"
)

// Strategy says who decides that a task is done.
type Strategy string

// The strategies of completion.
const (
	StrategySignal          Strategy = "Signal"
	StrategyJudge           Strategy = "Judge"
	StrategySignalThenJudge Strategy = "SignalThenJudge"
)

// Specs gives a task's spec as it is now. It is safe for use by several goroutines, and cheap: a call asks at every chunk.
type Specs interface {
	// Spec is the newest. Nobody changes what it gives.
	Spec() *Spec
	// Changed is closed once Spec may give another one. After each change there is a new channel.
	Changed() <-chan struct{}
}

// FixedSpec never changes.
func FixedSpec(sp *Spec) Specs { return fixedSpec{sp} }

type fixedSpec struct{ spec *Spec }

func (f fixedSpec) Spec() *Spec            { return f.spec }
func (fixedSpec) Changed() <-chan struct{} { return nil }

// Spec is what a task was asked, with every reference resolved. Zero limits do not limit.
type Spec struct {
	// Prompt and Instructions count up to the task's start. From then on those in its journal do.
	Prompt       string
	Instructions string

	MaxIterations int64
	MaxTokens     int64
	MaxDuration   time.Duration
	InputTimeout  time.Duration
	// MaxJournalBytes ends a task whose journal has come to this size, measured as State.JournalBytes.
	MaxJournalBytes int64

	Strategy Strategy
	// Criteria and JudgeInstructions are for the judge.
	Criteria          []string
	JudgeInstructions string
	StopWhen          *Predicate
	Output            *Schema

	// Nudge replaces the default nudge.
	Nudge string
	// Fresh restarts each turn from the prompt, and the progress log with ProgressLog.
	Fresh       bool
	ProgressLog bool
	// NoProgressTurns that repeat themselves end the task; 0 for never.
	NoProgressTurns int
	// LimitWarningPercent of a limit that are used up make the agent be told what is left, once for each limit; 0 for never.
	LimitWarningPercent int
	// WrapUp gives a last call when a limit is reached.
	WrapUp bool

	Cancel bool
	// CancelWhy is the message of a cancel; empty for the default.
	CancelWhy string
	Suspend   bool
	// Held: the spec cannot be followed as it is, so nothing goes on but what cannot wait: a cancel, an answer and its
	// deadline, and the end of the task's time.
	Held bool
	// Unresolved: what the spec refers to is not known now, so nothing may be concluded from Tools.
	Unresolved bool
	// Waited is how long of the time since the journal's last event the task waited for our own slots, limits or budgets,
	// which is no running time. It stands still while a call runs.
	Waited time.Duration
	// HeldSince is when the holder began to hold the task, until it has opened the journal: before that nobody may have held it,
	// which is no running time. Zero means since the last event.
	HeldSince time.Time
	// WaitingFor says what the task waits for, as a clause such as `model "x" to be created`. Empty for nothing.
	WaitingFor string

	// ResumeInput, ResumeInputID and Told are of one version of the object. Told is the id of the question that its status
	// shows, empty for none.
	ResumeInput   string
	ResumeInputID string
	Told          string

	// Tools are the tools of the task's toolsets. The built-in ones are added by the loop.
	Tools []ToolDefinition
	// Away are toolsets whose tools are missing for now.
	Away []string
	// ContextWindowTokens of the model, 0 when unknown.
	ContextWindowTokens int64
	// ReplyTokens is the model's own cap of a reply, 0 for none.
	ReplyTokens int64
	// OwnJudge: the judge is another model, to which ReplyTokens does not apply.
	OwnJudge bool
	// RequestTimeout and CallTimeout bound one model call and one tool call; 0 means 10 minutes and 60 seconds. They tell for
	// how long a call can have run whose operator crashed.
	RequestTimeout time.Duration
	CallTimeout    time.Duration
	// Price is the model's, JudgePrice that of a judge which is another model. Nil where it is not known.
	Price      *Price
	JudgePrice *Price
	// Retry is the task's model's patience, JudgeRetry that of a judge which is another model.
	Retry      Retry
	JudgeRetry Retry
	// MaxTurnAttempts that may end in a crash of the operator, the last of them alone (Opened.Alone); 0 means 3.
	MaxTurnAttempts int
}

// CancelMessage is what the end of a cancelled task says.
func (sp *Spec) CancelMessage() string { return cmp.Or(sp.CancelWhy, "Cancelled by spec.cancel.") }

func (sp *Spec) maxTurnAttempts() int {
	if sp.MaxTurnAttempts > 0 {
		return sp.MaxTurnAttempts
	}
	return 3
}

// tool finds a tool of the task's toolsets by name.
func (sp *Spec) tool(name string) (ToolDefinition, bool) {
	for _, t := range sp.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return ToolDefinition{}, false
}

// outputSchema is the JSON of the output schema, nil for none.
func (sp *Spec) outputSchema() json.RawMessage {
	if sp.Output == nil {
		return nil
	}
	return sp.Output.Raw
}
