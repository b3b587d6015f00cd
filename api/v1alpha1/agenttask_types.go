package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AgentTaskSpec is what a user asks for: a prompt, and the limits within which an agent may work on it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.completion) || !has(self.completion.strategy) || self.completion.strategy == 'Signal' || has(self.completion.judge)",message="spec.completion.judge is missing: strategy Judge or SignalThenJudge needs it; set spec.completion.judge.modelRef.name, or use strategy Signal"
// +kubebuilder:validation:XValidation:rule="!has(self.resumeInputID) || has(self.resumeInput)",message="spec.resumeInputID names a question, but spec.resumeInput holds no answer: set both, or neither"
type AgentTaskSpec struct {
	// prompt is the task, in the user's words. It cannot be changed once status.startTime is set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 65536",message="spec.prompt has more than 65536 bytes: shorten it, or let the agent read the rest with a tool"
	// +kubebuilder:validation:XValidation:rule="self.trim().size() > 0",message="spec.prompt is blank: write what the agent should do"
	// +required
	Prompt string `json:"prompt,omitempty"`

	// instructions are extra system instructions. They cannot be changed once status.startTime is set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 65536",message="spec.instructions has more than 65536 bytes: shorten them"
	// +optional
	Instructions string `json:"instructions,omitempty"`

	// modelRef names the AgentModel in the same namespace that runs the task. It cannot be changed once status.startTime is set.
	// Unset: the AgentModel named `default` in the namespace, else the operator's --default-model.
	// +optional
	ModelRef *LocalReference `json:"modelRef,omitempty"`

	// toolsets are the AgentToolsets in the same namespace whose tools the agent may call.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Toolsets []ToolsetReference `json:"toolsets,omitempty"`

	// maxIterations is the largest number of turns over the task's whole life, resumes included.
	// One turn is one model request, its reply, and the tool calls that the reply asks for.
	// +default=50
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MaxIterations *int32 `json:"maxIterations,omitempty"` //nolint:kubeapilinter // optional numbers are pointers here, as in the APIs of Kubernetes itself

	// maxTokens is the largest number of tokens over the task's whole life: input and output of every model call, judge and
	// compaction calls included. It is not the cap of a single reply. Unset: no limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000000
	// +optional
	MaxTokens *int64 `json:"maxTokens,omitempty"` //nolint:kubeapilinter // optional numbers are pointers here, as in the APIs of Kubernetes itself

	// maxDuration is the longest time the task may spend Running, such as `30m`. The clock stands still while it waits for
	// input or is suspended. Unset: no limit.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,4}([.][0-9]{1,9})?h)?([0-9]{1,6}([.][0-9]{1,9})?m)?([0-9]{1,8}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?$') && duration(self) > duration('0s') && duration(self) <= duration('8760h')",message="spec.maxDuration must be more than 0s and at most 8760h, such as 30m; leave it out for no limit"
	// +optional
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`

	// inputTimeout is how long the task may wait for an answer, such as `24h`. Unset: for ever.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,4}([.][0-9]{1,9})?h)?([0-9]{1,6}([.][0-9]{1,9})?m)?([0-9]{1,8}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?$') && duration(self) > duration('0s') && duration(self) <= duration('8760h')",message="spec.inputTimeout must be more than 0s and at most 8760h, such as 24h; leave it out to wait for ever"
	// +optional
	InputTimeout *metav1.Duration `json:"inputTimeout,omitempty"`

	// completion says how the task is found to be done.
	// +optional
	Completion *Completion `json:"completion,omitempty"`

	// nudge replaces the message that is sent after a turn with neither signal nor tool call.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	Nudge string `json:"nudge,omitempty"`

	// context says what the model is shown of earlier turns.
	// +optional
	Context *ContextPolicy `json:"context,omitempty"`

	// noProgressTurns ends the task after this many turns in a row that repeat word for word, or call for call with the
	// same results: each the one before, or the same two to five in turn. Results that differ only in a time of day are the
	// same. One turn before the end, the agent is told what it repeats. 0 switches it off.
	// +default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:validation:XValidation:rule="self != 1",message="spec.noProgressTurns is 1, but one turn cannot repeat itself: use 2 or more, or 0 to switch it off"
	// +optional
	NoProgressTurns *int32 `json:"noProgressTurns,omitempty"`

	// limitWarningPercent of maxIterations, maxTokens or maxDuration that are used up make the next message tell the agent
	// what is left, once for each limit. 0 switches it off.
	// +default=80
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=99
	// +optional
	LimitWarningPercent *int32 `json:"limitWarningPercent,omitempty"`

	// onLimit says what happens when a limit is reached. Stop: the task ends. WrapUp: the model gets one last call without tools,
	// inside what is left of tokens and time, to say what was done and what is left; the exit reason stays the limit's.
	// +default="Stop"
	// +optional
	OnLimit LimitAction `json:"onLimit,omitempty"`

	// outputSchema is a JSON Schema (draft 2020-12) of at most 65536 bytes that status.output must satisfy.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +optional
	OutputSchema *apiextensionsv1.JSON `json:"outputSchema,omitempty"`

	// resumeInput is the answer to the open question (status.inputRequest). It counts once, the moment that it is seen; what
	// becomes of the field afterwards changes nothing. A question takes any text that was not there when it was asked, or any
	// text beside its resumeInputID. An approval takes `approve`, or `deny`, with an optional reason after a colon, and any
	// other text as a denial with that reason; always with its resumeInputID, so that a late `approve` meant for one call
	// never approves another.
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 65536",message="spec.resumeInput has more than 65536 bytes: shorten the answer"
	// +optional
	ResumeInput *string `json:"resumeInput,omitempty"`

	// resumeInputID is the status.inputRequest.id that resumeInput answers; beside any other id it answers nothing. An approval
	// needs it. A question does without, where resumeInput is not what was there when it was asked: to answer two questions
	// with the same words, change this.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ResumeInputID string `json:"resumeInputID,omitempty"`

	// cancel ends the task as Cancelled. A running call is interrupted. It cannot be taken back once the task has ended.
	// +optional
	Cancel *bool `json:"cancel,omitempty"`

	// suspend holds the task between two turns until it is false again.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// maxJournalBytes is the size, before compression, at which the task's journal ends it: exit reason Error, cause JournalFull. Lower than the operator's --max-journal-bytes, it
	// takes effect; a higher value is lowered to it. Unset: the operator's.
	// +kubebuilder:validation:Minimum=65536
	// +kubebuilder:validation:Maximum=1073741824
	// +optional
	MaxJournalBytes *int64 `json:"maxJournalBytes,omitempty"` //nolint:kubeapilinter // optional numbers are pointers here, as in the APIs of Kubernetes itself

	// ttlSecondsAfterFinished deletes the task this many seconds after it ended. Unset: never. Under GitOps a deleted task is
	// created, run and paid for again.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// LocalReference names an object in the same namespace.
type LocalReference struct {
	// name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`
}

// ToolsetReference names an AgentToolset in the same namespace.
type ToolsetReference struct {
	// name of the AgentToolset.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// allow are globs of tool names. Only tools that match one may be called. Unset: all that the toolset allows.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'(?s)^([^\\\[]|\\.|\[(\^([^\\\]\-]|\\.)|([^\\\]\^\-]|\\.))(-([^\\\]\-]|\\.))?(([^\\\]\-]|\\.)(-([^\\\]\-]|\\.))?)*\])*$')`,message=`spec.toolsets allow holds a glob that cannot be parsed: write a class as [a-z], and \[ or \\ for a [ or \ itself`
	// +optional
	Allow []string `json:"allow,omitempty"`

	// required makes the task wait while this toolset is unavailable. Otherwise it goes on without its tools.
	// +optional
	Required *bool `json:"required,omitempty"`
}

// CompletionStrategy says who decides that a task is done.
// +kubebuilder:validation:Enum=Signal;Judge;SignalThenJudge
type CompletionStrategy string

// The completion strategies.
const (
	// CompletionSignal: the agent says so by a signal.
	CompletionSignal CompletionStrategy = "Signal"
	// CompletionJudge: a second model decides after each turn without tool calls.
	CompletionJudge CompletionStrategy = "Judge"
	// CompletionSignalThenJudge: the agent says so, and a second model must confirm it.
	CompletionSignalThenJudge CompletionStrategy = "SignalThenJudge"
)

// Completion says how a task is found to be done.
//
// +kubebuilder:validation:XValidation:rule="!has(self.judge) || (has(self.strategy) && self.strategy != 'Signal')",message="spec.completion.judge is never asked with strategy Signal: set strategy to SignalThenJudge or Judge, or remove judge"
type Completion struct {
	// strategy says who decides. Signal: the agent, by a signal. Judge: a second model, after each turn without tool calls.
	// SignalThenJudge: the agent, and a second model must confirm it.
	// +default="Signal"
	// +optional
	Strategy CompletionStrategy `json:"strategy,omitempty"`

	// judge is the second model of the strategies Judge and SignalThenJudge. Strategy Signal, the default, takes none.
	// +optional
	Judge *Judge `json:"judge,omitempty"`

	// stopWhen is a CEL expression over response (string), iteration (int), usage (inputTokens, outputTokens, totalTokens) and
	// toolCalls (list of name, arguments). When it is true after a turn, the task is Completed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	StopWhen string `json:"stopWhen,omitempty"`
}

// Judge is a second model that says whether the request was answered.
type Judge struct {
	// modelRef names the judge's AgentModel in the same namespace. Unset: the task's own model.
	// +optional
	ModelRef *LocalReference `json:"modelRef,omitempty"`

	// criteria must all be met.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	// +optional
	Criteria []string `json:"criteria,omitempty"`

	// instructions are extra instructions for the judge.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	Instructions string `json:"instructions,omitempty"`
}

// ContextMode says what the model is shown of earlier turns.
// +kubebuilder:validation:Enum=Accumulate;Fresh
type ContextMode string

// The context modes.
const (
	// ContextAccumulate keeps the conversation, compacted when it nears the model's context window.
	ContextAccumulate ContextMode = "Accumulate"
	// ContextFresh starts each turn from the prompt and the progress log.
	ContextFresh ContextMode = "Fresh"
)

// ContextPolicy says what the model is shown of earlier turns.
//
// +kubebuilder:validation:XValidation:rule="!has(self.progressLog) || (has(self.mode) && self.mode == 'Fresh')",message="spec.context.progressLog does nothing in mode Accumulate: set spec.context.mode to Fresh, or remove progressLog"
type ContextPolicy struct {
	// mode of the context. Accumulate: the conversation is kept, and compacted when it nears the model's context window. Fresh: each
	// turn starts from the prompt and the progress log.
	// +default="Accumulate"
	// +optional
	Mode ContextMode `json:"mode,omitempty"`

	// progressLog shows, in mode Fresh, a short log of the earlier turns, and is refused in any other. What a human answered is
	// shown in any case. Default true.
	// +optional
	ProgressLog *bool `json:"progressLog,omitempty"`
}

// LimitAction says what happens when a limit is reached.
// +kubebuilder:validation:Enum=Stop;WrapUp
type LimitAction string

// The limit actions.
const (
	LimitStop   LimitAction = "Stop"
	LimitWrapUp LimitAction = "WrapUp"
)

// AgentTask is one bounded run of an autonomous agent.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=agt,categories=agentloop
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.exitReason`
// +kubebuilder:printcolumn:name="Iterations",type=integer,JSONPath=`.status.iterations`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.maxIterations`
// +kubebuilder:printcolumn:name="Tokens",type=integer,JSONPath=`.status.usage.totalTokens`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.status.model.name`,priority=1
// +kubebuilder:printcolumn:name="Question",type=string,JSONPath=`.status.inputRequest.question`,priority=1
// +kubebuilder:printcolumn:name="Summary",type=string,JSONPath=`.status.summary`,priority=1
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:selectablefield:JSONPath=`.status.exitReason`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.startTime) || self.spec.prompt == oldSelf.spec.prompt",message="spec.prompt cannot be changed once the task has started: create a new AgentTask with the new prompt"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.startTime) || (has(self.spec.instructions) == has(oldSelf.spec.instructions) && (!has(self.spec.instructions) || self.spec.instructions == oldSelf.spec.instructions))",message="spec.instructions cannot be changed once the task has started: create a new AgentTask with the new instructions"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.startTime) || (has(self.spec.modelRef) == has(oldSelf.spec.modelRef) && (!has(self.spec.modelRef) || self.spec.modelRef.name == oldSelf.spec.modelRef.name))",message="spec.modelRef cannot be changed once the task has started: create a new AgentTask with the other model"
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.inputRequest) || self.status.inputRequest.kind != 'Approval' || has(self.spec.resumeInputID) || !has(self.spec.resumeInput) || self.spec.resumeInput.trim().size() == 0 || (!has(oldSelf.spec.resumeInputID) && has(oldSelf.spec.resumeInput) && oldSelf.spec.resumeInput == self.spec.resumeInput)",fieldPath=".spec.resumeInputID",message="spec.resumeInputID is missing: an approval is answered by its id, so look at status.inputRequest, and set spec.resumeInputID to its id together with spec.resumeInput"
type AgentTask struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what the user asks for.
	// +required
	Spec AgentTaskSpec `json:"spec,omitempty,omitzero"`

	// status is what the operator saw.
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status AgentTaskStatus `json:"status,omitempty,omitzero"` //nolint:kubeapilinter // an empty status is one that no operator has looked at yet
}

// AgentTaskList is a list of AgentTasks.
//
// +kubebuilder:object:root=true
type AgentTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []AgentTask `json:"items"`
}
