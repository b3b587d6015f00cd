package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ToolTransport is how an MCP server is reached.
// +kubebuilder:validation:Enum=StreamableHTTP;SSE
type ToolTransport string

// The transports.
const (
	TransportStreamableHTTP ToolTransport = "StreamableHTTP"
	TransportSSE            ToolTransport = "SSE"
)

// ApprovalPolicy says which calls a human must approve.
// +kubebuilder:validation:Enum=Never;Always;Destructive
type ApprovalPolicy string

// The approval policies. Destructive believes a tool's own annotations only with trustAnnotations; without, it is Always.
const (
	ApprovalNever       ApprovalPolicy = "Never"
	ApprovalAlways      ApprovalPolicy = "Always"
	ApprovalDestructive ApprovalPolicy = "Destructive"
)

// AgentToolsetSpec says where an MCP server is, and what tasks may do with it.
//
// The rule about credentials stands here since an error of url's own would repeat the URL, and the password with it.
//
// +kubebuilder:validation:XValidation:rule="!self.url.matches('^[^/?#]*//[^/?#]*@')",fieldPath=".url",message="spec.url must not carry credentials: take them out of the URL, and use spec.auth or spec.headers"
// +kubebuilder:validation:XValidation:rule="!has(self.caBundle) || !has(self.caBundleRef)",message="spec.caBundle and spec.caBundleRef are both set: keep one of them"
type AgentToolsetSpec struct {
	// url of the MCP server, such as `http://tools.default.svc:8080/mcp`.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && (url(self).getScheme() == 'http' || url(self).getScheme() == 'https') && url(self).getHostname() != ''",message="spec.url must be an http or https URL with a host, such as http://tools.default.svc:8080/mcp"
	// +required
	URL string `json:"url,omitempty"`

	// transport of the MCP server. StreamableHTTP: every server since MCP 2025-03-26. SSE: servers of 2024-11-05.
	// +default="StreamableHTTP"
	// +optional
	Transport ToolTransport `json:"transport,omitempty"`

	// headers are extra headers of every request. The protocol's own cannot be set.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:XValidation:rule="!self.name.matches('(?i)^(accept|content-type|content-length|last-event-id|(x-)?idempotency-key|mcp-.*)$')",message="spec.headers sets a header that is the protocol's own (Accept, Content-Type, Content-Length, Last-Event-Id, Idempotency-Key, X-Idempotency-Key or Mcp-*) and would not be sent: remove it, or use another name"
	// +optional
	Headers []HTTPHeader `json:"headers,omitempty"`

	// auth is how the operator proves to the server who it is: its Secret key holds a bearer token.
	// +optional
	Auth *Auth `json:"auth,omitempty"`

	// caBundle is PEM of certificate authorities that are trusted beside the system's, in base64 as everywhere in Kubernetes.
	// For PEM as it is, use caBundleRef.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=349528
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`

	// caBundleRef names the ConfigMap or Secret key that holds the PEM instead of caBundle. It is read anew for each call, so
	// that another one is trusted at once.
	// +optional
	CABundleRef *CABundleReference `json:"caBundleRef,omitempty"`

	// allow are globs of the server's tool names. Only tools that match one are offered. Unset: all.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'(?s)^([^\\\[]|\\.|\[(\^([^\\\]\-]|\\.)|([^\\\]\^\-]|\\.))(-([^\\\]\-]|\\.))?(([^\\\]\-]|\\.)(-([^\\\]\-]|\\.))?)*\])*$')`,message=`spec.allow holds a glob that cannot be parsed: write a class as [a-z], and \[ or \\ for a [ or \ itself`
	// +optional
	Allow []string `json:"allow,omitempty"`

	// deny are globs of tool names that are never offered. Deny wins over allow.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'(?s)^([^\\\[]|\\.|\[(\^([^\\\]\-]|\\.)|([^\\\]\^\-]|\\.))(-([^\\\]\-]|\\.))?(([^\\\]\-]|\\.)(-([^\\\]\-]|\\.))?)*\])*$')`,message=`spec.deny holds a glob that cannot be parsed: write a class as [a-z], and \[ or \\ for a [ or \ itself`
	// +optional
	Deny []string `json:"deny,omitempty"`

	// requireApproval says which calls a human must approve before they run. Never: none. Always: all. Destructive: all but those
	// of tools that the server marks read-only or not destructive, which is believed only with trustAnnotations.
	// +default="Never"
	// +optional
	RequireApproval ApprovalPolicy `json:"requireApproval,omitempty"`

	// approvalTools are globs of tools whose calls always need approval, whatever requireApproval says.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'(?s)^([^\\\[]|\\.|\[(\^([^\\\]\-]|\\.)|([^\\\]\^\-]|\\.))(-([^\\\]\-]|\\.))?(([^\\\]\-]|\\.)(-([^\\\]\-]|\\.))?)*\])*$')`,message=`spec.approvalTools holds a glob that cannot be parsed: write a class as [a-z], and \[ or \\ for a [ or \ itself`
	// +optional
	ApprovalTools []string `json:"approvalTools,omitempty"`

	// trustAnnotations believes the server's marks read-only, idempotent and destructive: a read-only or idempotent call
	// whose outcome was lost in a crash is then repeated.
	// +optional
	TrustAnnotations *bool `json:"trustAnnotations,omitempty"`

	// callTimeout bounds one call. Unset: 60s.
	// The operator's --max-call-timeout (default 1h) lowers a larger value, and says so
	// in the message of condition Ready.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,4}([.][0-9]{1,9})?h)?([0-9]{1,6}([.][0-9]{1,9})?m)?([0-9]{1,8}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?$') && duration(self) > duration('0s') && duration(self) <= duration('24h')",message="spec.callTimeout must be more than 0s and at most 24h, such as 60s"
	// +optional
	CallTimeout *metav1.Duration `json:"callTimeout,omitempty"`

	// maxResultBytes is the largest result that the model is shown; the rest is cut, saying so. Unset: 65536.
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=262144
	// +optional
	MaxResultBytes *int32 `json:"maxResultBytes,omitempty"` //nolint:kubeapilinter // optional numbers are pointers here, as in the APIs of Kubernetes itself
}

// DiscoveredTool is a tool that the server offers.
type DiscoveredTool struct {
	// name of the tool at the server.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name,omitempty"`

	// digest of the tool's description and schema.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Digest string `json:"digest,omitempty"`

	// requiresApproval says that a human must approve each call.
	// +optional
	RequiresApproval *bool `json:"requiresApproval,omitempty"`
}

// AgentToolsetStatus tells what the server offers.
type AgentToolsetStatus struct {
	// tools that the server offers and the spec allows; at most 512 are listed.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=512
	// +optional
	Tools []DiscoveredTool `json:"tools,omitempty"`

	// toolCount is the number of tools offered.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ToolCount *int32 `json:"toolCount,omitempty"`

	// observedGeneration is the spec's generation that this status is about, -1 until the operator has seen the object.
	// +kubebuilder:validation:Minimum=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"` //nolint:kubeapilinter // 0 means nothing: generations begin at 1, and -1 is the default

	// conditions has Ready.
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// AgentToolset is an MCP server whose tools tasks of its namespace may call.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=agtool,categories=agentloop
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Tools",type=integer,JSONPath=`.status.toolCount`
// +kubebuilder:printcolumn:name="Approval",type=string,JSONPath=`.spec.requireApproval`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`,priority=1
type AgentToolset struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec says where the server is.
	// +required
	Spec AgentToolsetSpec `json:"spec,omitempty,omitzero"`

	// status tells what it offers.
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status AgentToolsetStatus `json:"status,omitempty,omitzero"` //nolint:kubeapilinter // an empty status is one that no operator has looked at yet
}

// AgentToolsetList is a list of AgentToolsets.
//
// +kubebuilder:object:root=true
type AgentToolsetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []AgentToolset `json:"items"`
}
