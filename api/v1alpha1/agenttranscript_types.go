package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AgentTranscriptSegment is one part of a task's journal.
// It is written as a whole, so the API server need not keep who set which of its fields.
// +structType=atomic
type AgentTranscriptSegment struct {
	// taskName is the AgentTask that the segment belongs to.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	TaskName string `json:"taskName,omitempty"`

	// taskUID tells tasks of the same name apart.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	TaskUID string `json:"taskUID,omitempty"`

	// index of the segment, from 0.
	// +kubebuilder:validation:Minimum=0
	// +required
	Index *int32 `json:"index,omitempty"`

	// firstSeq is the sequence number of the segment's first event.
	// +kubebuilder:validation:Minimum=1
	// +required
	FirstSeq int64 `json:"firstSeq,omitempty"`

	// lastSeq is the sequence number of the segment's last event.
	// +kubebuilder:validation:Minimum=1
	// +required
	LastSeq int64 `json:"lastSeq,omitempty"`

	// encoding of data. zstd/jsonl: zstd frames, one an append, of JSON lines, one an event.
	// +kubebuilder:validation:Enum="zstd/jsonl"
	// +required
	Encoding string `json:"encoding,omitempty"`

	// data holds the events.
	// +kubebuilder:validation:MinLength=1
	// +required
	Data []byte `json:"data,omitempty"`
}

// AgentTranscript is one segment of a task's journal: what was said and done, in order. The operator writes it, and nobody
// else should; it goes when its task goes.
//
// It is not in category agentloop: whoever may not read transcripts could not list the category at all.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=agtr
// +kubebuilder:printcolumn:name="Task",type=string,JSONPath=`.segment.taskName`
// +kubebuilder:printcolumn:name="Segment",type=integer,JSONPath=`.segment.index`
// +kubebuilder:printcolumn:name="First",type=integer,JSONPath=`.segment.firstSeq`
// +kubebuilder:printcolumn:name="Last",type=integer,JSONPath=`.segment.lastSeq`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:selectablefield:JSONPath=`.segment.taskName`
// +kubebuilder:selectablefield:JSONPath=`.segment.taskUID`
type AgentTranscript struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// segment is the part of the journal.
	// +required
	Segment AgentTranscriptSegment `json:"segment,omitempty,omitzero"`
}

// AgentTranscriptList is a list of AgentTranscripts.
//
// +kubebuilder:object:root=true
type AgentTranscriptList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []AgentTranscript `json:"items"`
}
