package loop

import (
	"encoding/json"
	"time"
)

// EventVersion is the version of the event schema that this code writes. docs/transcript.md describes it.
const EventVersion = 1

// EventKind names what happened.
type EventKind string

// The kinds of events. Each has one payload field of Event.
const (
	KindOpened        EventKind = "Opened"
	KindModelReplied  EventKind = "ModelReplied"
	KindModelFailed   EventKind = "ModelFailed"
	KindCallsStarted  EventKind = "CallsStarted"
	KindToolsReturned EventKind = "ToolsReturned"
	KindNudged        EventKind = "Nudged"
	KindAsked         EventKind = "Asked"
	KindInputSeen     EventKind = "InputSeen"
	KindAnswered      EventKind = "Answered"
	KindSuspended     EventKind = "Suspended"
	KindUnsuspended   EventKind = "Unsuspended"
	KindReleased      EventKind = "Released"
	KindCompacted     EventKind = "Compacted"
	KindLimitReached  EventKind = "LimitReached"
	KindFinished      EventKind = "Finished"
)

// Event is one entry of a task's journal: the truth about what happened. Exactly one payload is set, that of Kind;
// Suspended, Unsuspended and Released have none.
type Event struct {
	// Version is the schema the event was written with.
	Version int `json:"v"`
	// Seq counts from 1, without gaps.
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	Kind EventKind `json:"kind"`
	// Waited is how much of the time since the event before the task waited for our own slots, limits or budgets, in
	// nanoseconds. It is no running time.
	Waited time.Duration `json:"waited,omitempty"`

	Opened        *Opened        `json:"opened,omitempty"`
	ModelReplied  *ModelReplied  `json:"modelReplied,omitempty"`
	ModelFailed   *ModelFailed   `json:"modelFailed,omitempty"`
	CallsStarted  *CallsStarted  `json:"callsStarted,omitempty"`
	ToolsReturned *ToolsReturned `json:"toolsReturned,omitempty"`
	Nudged        *Nudged        `json:"nudged,omitempty"`
	Asked         *Asked         `json:"asked,omitempty"`
	InputSeen     *InputSeen     `json:"inputSeen,omitempty"`
	Answered      *Answered      `json:"answered,omitempty"`
	Compacted     *Compacted     `json:"compacted,omitempty"`
	LimitReached  *LimitReached  `json:"limitReached,omitempty"`
	Finished      *Finished      `json:"finished,omitempty"`
}

// Opened: a holder took the journal over, right before it acts. The first one is the task's start. Several without a turn
// that ended between them count the attempts of that turn. One with Toolsets by who holds the journal already only adds these.
type Opened struct {
	Holder string `json:"holder"`
	// Input is what the task is asked, from here on. Only the first Opened has it.
	Input *Input `json:"input,omitempty"`
	// Toolsets are those that the task sees for the first time, by name. What they offer it now is agreed to.
	Toolsets []string `json:"toolsets,omitempty"`
	// ToolDigests are the tools of Toolsets, by the name that the model knows: the digest of what each one's server says of it.
	// Older journals name no Toolsets, and have the digests of all tools in their first Opened.
	ToolDigests map[string]string `json:"toolDigests,omitempty"`
	// Rival: the holder takes the task back from another one that lives and works on it too. That is no crash.
	Rival bool `json:"rival,omitempty"`
	// Alone: no other turn that had ended in crashes was under way beside this one. Only then is a crash blamed on it.
	Alone bool `json:"alone,omitempty"`
	// Lost is the model call that the former holder may have been making, by estimate.
	Lost *Lost `json:"lost,omitempty"`
	// Away is how much of the time since the event before nobody held the task, in nanoseconds. It is no running time.
	Away time.Duration `json:"away,omitempty"`
}

// Input is what a task was started with. A later edit of the spec or of the AgentModel changes nothing of it.
type Input struct {
	Prompt       string        `json:"prompt"`
	Instructions string        `json:"instructions,omitempty"`
	Model        ModelIdentity `json:"model"`
}

// ModelIdentity is which model answers a task's turns, and how it is asked. Where it is served is not in it.
type ModelIdentity struct {
	// Namespace and Name are the AgentModel's.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Provider  string `json:"provider,omitempty"`
	// Model is the provider's name of it.
	Model string `json:"model,omitempty"`
	// Parameters are the AgentModel's, as JSON.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// Lost is a model call whose outcome nobody knows. It may have been billed, so it is charged.
type Lost struct {
	Purpose Purpose `json:"purpose"`
	Usage   Usage   `json:"usage"`
	Cost    *Cost   `json:"cost,omitempty"`
}

// ModelReplied: a model call ended with a reply. For a turn it is the write-ahead record of the reply's tool calls.
type ModelReplied struct {
	Purpose Purpose `json:"purpose"`
	Reply   Reply   `json:"reply"`
	// Verdict is the judge's, for purpose judge.
	Verdict *Verdict `json:"verdict,omitempty"`
	// RequestBytes is the size of the request's text, by which later estimates are calibrated.
	RequestBytes int64 `json:"requestBytes,omitempty"`
	// OutputCap is the cap that the request carried, in tokens, 0 for none.
	OutputCap int64 `json:"outputCap,omitempty"`
	Cost      *Cost `json:"cost,omitempty"`
	// NeedApproval are the ids of the calls that wait for a human.
	NeedApproval []string `json:"needApproval,omitempty"`
	// ToolDigests are the tools of these calls, as Opened has them: an approval is for none but these.
	ToolDigests map[string]string `json:"toolDigests,omitempty"`
	// Output is what the task's output schema says of a turn's reply, StopWhen what its stopWhen says. Nil where there is none.
	Output   *OutputCheck `json:"output,omitempty"`
	StopWhen *StopCheck   `json:"stopWhen,omitempty"`
}

// OutputCheck is a reply held against an output schema.
type OutputCheck struct {
	// Schema is the digest of the schema.
	Schema string `json:"schema"`
	// JSON is the result that satisfies it.
	JSON string `json:"json,omitempty"`
	// Fault is what is wrong with the reply's result, for the model.
	Fault string `json:"fault,omitempty"`
	// TooMuchWork: the schema is at fault, and no reply can be held against it.
	TooMuchWork bool `json:"tooMuchWork,omitempty"`
}

// StopCheck is stopWhen evaluated over a turn.
type StopCheck struct {
	// Expression is the digest of the expression.
	Expression string `json:"expression"`
	True       bool   `json:"true,omitempty"`
	// Fault is why it is neither true nor false of this turn. It counts as false.
	Fault string `json:"fault,omitempty"`
}

// ModelFailed: a model call gave no whole reply. What it is known or estimated to have cost counts.
type ModelFailed struct {
	Purpose Purpose `json:"purpose"`
	Cause   Cause   `json:"cause,omitempty"`
	// Message is one sentence in our own words.
	Message string `json:"message,omitempty"`
	// Text is what had arrived.
	Text  string `json:"text,omitempty"`
	Usage Usage  `json:"usage"`
	// OutputCap is the cap that the request carried, in tokens, 0 for none.
	OutputCap int64 `json:"outputCap,omitempty"`
	Cost      *Cost `json:"cost,omitempty"`
	// Retry: it may be tried again, not before RetryAt.
	Retry   bool      `json:"retry,omitempty"`
	RetryAt time.Time `json:"retryAt,omitzero"`
	// RetryAfter is for how long the model server asked to be left alone, in nanoseconds, 0 where it said nothing.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// RefusedTool is the tool that the model's server refused. From here on the task goes on without it.
	RefusedTool string `json:"refusedTool,omitempty"`
	// Interrupted: we broke it off ourselves (cancel, a limit, shutdown), which is no fault of the model.
	Interrupted bool `json:"interrupted,omitempty"`
}

// CallsStarted: calls that waited for approval are about to run; the approval is used up from here on.
type CallsStarted struct {
	CallIDs []string `json:"callIDs"`
}

// ToolsReturned: the results of a reply's tool calls, in the order of the calls.
type ToolsReturned struct {
	Results []ToolResult `json:"results"`
	// Todo is the agent's list after the calls, when one of them changed it.
	// Empty is not nil here: it clears the list.
	Todo []TodoItem `json:"todo,omitzero"`
}

// TodoItem is one entry of the agent's own list.
type TodoItem struct {
	Text string `json:"text"`
	Done bool   `json:"done,omitempty"`
}

// Nudged: the user-role message that the loop adds after a turn.
type Nudged struct {
	Text string `json:"text"`
	// Aside: it only goes beside the results of the turn's tool calls, and what they are part of goes on.
	Aside bool `json:"aside,omitempty"`
	// Warned are the limits that it says are near, by the exit reason that they would lead to.
	Warned []ExitReason `json:"warned,omitempty"`
}

// QuestionKind tells what a human is asked for.
type QuestionKind string

// The kinds of questions.
const (
	QuestionInput    QuestionKind = "Question"
	QuestionApproval QuestionKind = "Approval"
)

// Asked: the loop waits for a human.
type Asked struct {
	ID       string       `json:"id"`
	Kind     QuestionKind `json:"kind"`
	Question string       `json:"question"`
	// CallIDs are the calls that an Approval is about.
	CallIDs []string `json:"callIDs,omitempty"`
	// InputHash is the digest of spec.resumeInput as it stood when the question was asked, empty for none: an old answer
	// left in the spec does not answer a new question.
	InputHash string `json:"inputHash,omitempty"`
}

// InputSeen: spec.resumeInput was seen to hold something that answers nothing: it was emptied, or written before the open
// question was shown. From here on this is what an answer must differ from.
type InputSeen struct {
	InputHash string `json:"inputHash,omitempty"`
}

// Answered: the human's answer, latched exactly once.
type Answered struct {
	QuestionID string `json:"questionID"`
	Text       string `json:"text"`
	InputHash  string `json:"inputHash,omitempty"`
	// Denied are the calls that were refused, with DenyReason. Calls not named are approved.
	Denied     []string `json:"denied,omitempty"`
	DenyReason string   `json:"denyReason,omitempty"`
}

// Compacted: all conversation before the last Kept messages was replaced by Summary, the model's own words.
type Compacted struct {
	Summary string `json:"summary"`
	Kept    int    `json:"kept"`
}

// LimitReached: a limit ended the loop, and one wrap-up call follows.
type LimitReached struct {
	Reason ExitReason `json:"reason"`
	// Message is what the end will say.
	Message string `json:"message,omitempty"`
}

// Finished: the end. No event follows it.
type Finished struct {
	Reason ExitReason `json:"reason"`
	Cause  Cause      `json:"cause,omitempty"`
	// Message is one sentence for people.
	Message string `json:"message,omitempty"`
	// Summary is the text of a completion.
	Summary string `json:"summary,omitempty"`
	// Output is set where it is not simply the last text: the JSON of an output schema.
	Output string `json:"output,omitempty"`
}

// Verdict is a judge's opinion on whether the request was answered.
type Verdict struct {
	Answered  bool   `json:"answered"`
	Reasoning string `json:"reasoning,omitempty"`
}
