package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AgentTaskPhase is where a task stands. Like every type of the status it is no enum: the CRD may be older than the operator, and
// must take what that one writes.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
type AgentTaskPhase string

// The phases of a task.
const (
	// PhasePending: not started, such as while its model is missing.
	PhasePending AgentTaskPhase = "Pending"
	// PhaseRunning: turns are being run.
	PhaseRunning AgentTaskPhase = "Running"
	// PhaseNeedsInput: a human must answer status.inputRequest by spec.resumeInput.
	PhaseNeedsInput AgentTaskPhase = "NeedsInput"
	// PhaseSuspended: held by spec.suspend.
	PhaseSuspended AgentTaskPhase = "Suspended"
	// PhaseSucceeded: ended, exit reason Completed.
	PhaseSucceeded AgentTaskPhase = "Succeeded"
	// PhaseFailed: ended by a limit or an error.
	PhaseFailed AgentTaskPhase = "Failed"
	// PhaseCancelled: ended by spec.cancel.
	PhaseCancelled AgentTaskPhase = "Cancelled"
)

// LoopExitReason is why the loop last stopped.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
type LoopExitReason string

// The exit reasons. SharedName gives the name that agent frameworks share.
const (
	// ExitCompleted: signal, judge verdict or stopWhen. Phase Succeeded.
	ExitCompleted LoopExitReason = "Completed"
	// ExitNeedInput: the agent asked, or a tool call waits for approval. Phase NeedsInput. Cleared on resume.
	ExitNeedInput LoopExitReason = "NeedInput"
	// ExitIterationCapReached: maxIterations turns were run. Phase Failed.
	ExitIterationCapReached LoopExitReason = "IterationCapReached"
	// ExitTokenBudgetExceeded: maxTokens is used up, or the next call does not fit. Phase Failed.
	ExitTokenBudgetExceeded LoopExitReason = "TokenBudgetExceeded"
	// ExitTimeBudgetExceeded: maxDuration is used up. Phase Failed.
	ExitTimeBudgetExceeded LoopExitReason = "TimeBudgetExceeded"
	// ExitInputTimeout: nobody answered within inputTimeout. Phase Failed.
	ExitInputTimeout LoopExitReason = "InputTimeout"
	// ExitNoProgress: noProgressTurns turns repeated themselves. Phase Failed.
	ExitNoProgress LoopExitReason = "NoProgress"
	// ExitCancelled: spec.cancel. Phase Cancelled.
	ExitCancelled LoopExitReason = "Cancelled"
	// ExitError: anything else that cannot be retried; the Finished condition's reason says which. Phase Failed.
	ExitError LoopExitReason = "Error"
)

// Condition types. All but ToolsWithheld are written at the first reconcile.
const (
	// ConditionReady: True once the task succeeded.
	ConditionReady = "Ready"
	// ConditionReconciling: True while the task has not ended (kstatus: InProgress).
	ConditionReconciling = "Reconciling"
	// ConditionStalled: True once the task failed (kstatus: Failed).
	ConditionStalled = "Stalled"
	// ConditionFinished: True on every terminal phase. Its reason is the exit reason, or the finer cause of an Error.
	ConditionFinished = "Finished"
	// ConditionToolsWithheld: True from when on the task goes on without tools that its model's server refused the schemas of.
	ConditionToolsWithheld = "ToolsWithheld"
)

// AgentTaskStatus is what the operator saw. It is a projection of the task's journal.
type AgentTaskStatus struct {
	// phase is where the task stands. Pending: not started, such as while its model is missing. Running: turns are being run.
	// NeedsInput: inputRequest waits for a human's answer. Suspended: held by spec.suspend. Succeeded: ended as Completed.
	// Failed: ended by a limit or an error. Cancelled: ended by spec.cancel or the task's deletion.
	// +optional
	Phase AgentTaskPhase `json:"phase,omitempty"` //nolint:kubeapilinter // users wait and select by phase, as by that of Jobs and Pods; conditions say the same

	// exitReason is why the loop last stopped. Empty while it runs. Completed: signal, judge's verdict or stopWhen. NeedInput: the
	// agent asked, or a tool call waits for approval. IterationCapReached: maxIterations turns were run. TokenBudgetExceeded:
	// maxTokens is used up, or the next call does not fit. TimeBudgetExceeded: maxDuration is used up. InputTimeout: nobody
	// answered within inputTimeout. NoProgress: noProgressTurns turns repeated themselves. Cancelled: by spec.cancel or the
	// task's deletion. Error: anything else that cannot be retried; the reason of condition Finished says which.
	// +optional
	ExitReason LoopExitReason `json:"exitReason,omitempty"`

	// message is one sentence for people: where the task stands, and what to do next.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Message string `json:"message,omitempty"`

	// iterations is the number of turns run.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Iterations *int32 `json:"iterations,omitempty"`

	// usage is what all model calls of the task used.
	// +optional
	Usage *TokenUsage `json:"usage,omitempty"`

	// summary is the text of the agent's completion signal, at most 4096 bytes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Summary string `json:"summary,omitempty"`

	// output is the last assistant text without signal lines, or the JSON that spec.outputSchema asked for; at most 32768
	// bytes. It is kept on every exit.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Output string `json:"output,omitempty"`

	// inputRequest is the open question, in phase NeedsInput.
	// +optional
	InputRequest *InputRequest `json:"inputRequest,omitempty"`

	// model is the AgentModel that runs the task.
	// +optional
	Model *ObjectReference `json:"model,omitempty"`

	// startTime is when the first turn began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the task ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// activeSeconds is the time spent Running, in whole seconds.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ActiveSeconds *int64 `json:"activeSeconds,omitempty"`

	// transcript tells the size of the task's journal, in AgentTranscript objects.
	// +optional
	Transcript *TranscriptStatus `json:"transcript,omitempty"`

	// observedGeneration is the spec's generation that this status is about, -1 until the operator has seen the object.
	// +kubebuilder:validation:Minimum=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"` //nolint:kubeapilinter // 0 means nothing: generations begin at 1, and -1 is the default

	// conditions are Ready, Reconciling, Stalled (kstatus) and Finished, and ToolsWithheld where the task goes on without some of its tools.
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// ObjectReference names an object in any namespace.
type ObjectReference struct {
	// namespace of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace,omitempty"`

	// name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`
}

// TokenUsage counts tokens as the provider bills them.
type TokenUsage struct {
	// inputTokens read, cached ones included.
	// +kubebuilder:validation:Minimum=0
	// +optional
	InputTokens *int64 `json:"inputTokens,omitempty"`

	// outputTokens written, reasoning included.
	// +kubebuilder:validation:Minimum=0
	// +optional
	OutputTokens *int64 `json:"outputTokens,omitempty"`

	// cachedInputTokens are the part of inputTokens that came from the provider's cache.
	// +kubebuilder:validation:Minimum=0
	// +optional
	CachedInputTokens *int64 `json:"cachedInputTokens,omitempty"`

	// totalTokens is what counts against spec.maxTokens.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TotalTokens *int64 `json:"totalTokens,omitempty"`

	// estimated says that the provider did not report the usage of at least one call, so it was estimated.
	// +optional
	Estimated *bool `json:"estimated,omitempty"`

	// cost by the pricing of the AgentModel, and of the judge's for what the judge used: an exact decimal in currency.
	// Empty when one of them has no pricing, or their currencies differ.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Cost string `json:"cost,omitempty"`

	// currency of cost, as an ISO 4217 code. Empty without cost.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=3
	// +optional
	Currency string `json:"currency,omitempty"`
}

// InputRequestKind tells what a human is asked for.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
type InputRequestKind string

// The kinds of input requests.
const (
	InputQuestion InputRequestKind = "Question"
	InputApproval InputRequestKind = "Approval"
)

// InputRequest is an open question.
type InputRequest struct {
	// id names the question, for spec.resumeInputID.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	ID string `json:"id,omitempty"`

	// kind of the question. Question: the agent asks something. Approval: tool calls wait for a yes or no.
	// +required
	Kind InputRequestKind `json:"kind,omitempty"`

	// question in the agent's words, at most 4096 bytes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Question string `json:"question,omitempty"`

	// toolCalls are the calls that an Approval is about.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +optional
	ToolCalls []PendingToolCall `json:"toolCalls,omitempty"`

	// askedAt is when the question was asked.
	// +required
	AskedAt metav1.Time `json:"askedAt,omitempty,omitzero"` //nolint:kubeapilinter // a zero time is not written, and the format refuses an empty one

	// deadline is when the task ends as InputTimeout. Unset: never.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
}

// PendingToolCall is a tool call that waits for approval. Exactly what is shown is what runs.
type PendingToolCall struct {
	// id of the call.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	ID string `json:"id,omitempty"`

	// name of the tool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name,omitempty"`

	// arguments is the JSON text that the agent wrote, whole. Control and format characters in it are escaped, which changes nothing
	// of its value. A call that is too long to be shown whole is denied.
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	Arguments *string `json:"arguments,omitempty"`
}

// TranscriptStatus tells the size of a journal.
type TranscriptStatus struct {
	// segments is the number of AgentTranscript objects.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Segments *int32 `json:"segments,omitempty"`

	// events is the number of events.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Events *int64 `json:"events,omitempty"`

	// bytes is the size of the events, compressed.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Bytes *int64 `json:"bytes,omitempty"`
}
