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

// Spec is what a task was asked, with every reference resolved. Zero limits do not limit.
type Spec struct {
	Prompt       string
	Instructions string

	MaxIterations int64
	MaxTokens     int64
	MaxDuration   time.Duration
	InputTimeout  time.Duration

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
	Unresolved    bool
	ResumeInput   string
	ResumeInputID string

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
	// MaxAttempts of one model call, the first included; 0 means 5.
	MaxAttempts int
	// MaxTurnAttempts that may end in a crash of the operator; 0 means 3.
	MaxTurnAttempts int
}

// CancelMessage is what the end of a cancelled task says.
func (sp *Spec) CancelMessage() string { return cmp.Or(sp.CancelWhy, "Cancelled by spec.cancel.") }

func (sp *Spec) maxAttempts() int {
	if sp.MaxAttempts > 0 {
		return sp.MaxAttempts
	}
	return 5
}

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
