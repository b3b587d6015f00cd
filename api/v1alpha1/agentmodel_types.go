package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Provider is the wire format of a model server.
// +kubebuilder:validation:Enum=OpenAI;Anthropic;Gemini;Scripted
type Provider string

// The providers. OpenAI with an endpoint serves every compatible server. Scripted answers from the object itself.
const (
	ProviderOpenAI    Provider = "OpenAI"
	ProviderAnthropic Provider = "Anthropic"
	ProviderGemini    Provider = "Gemini"
	ProviderScripted  Provider = "Scripted"
)

// AgentModelSpec says where a language model is, and how to call it.
//
// +kubebuilder:validation:XValidation:rule="self.provider != 'Scripted' || has(self.scripted)",message="spec.scripted is missing: provider Scripted answers from it; add spec.scripted.replies"
// +kubebuilder:validation:XValidation:rule="self.provider == 'Scripted' || !has(self.scripted)",message="spec.scripted is only for provider Scripted: remove it, or set spec.provider to Scripted"
// +kubebuilder:validation:XValidation:rule="self.provider == 'Scripted' || has(self.model)",message="spec.model is missing: write the provider's name of the model"
// +kubebuilder:validation:XValidation:rule="self.provider == 'Scripted' || has(self.endpoint) || has(self.auth) || has(self.headers)",message="spec.auth is missing: the provider's own endpoint needs a key; name a Secret in spec.auth.secretRef, or set spec.endpoint for a server without one"
// +kubebuilder:validation:XValidation:rule="!has(self.endpoint) || !self.endpoint.matches('^[^/?#]*//[^/?#]*@')",fieldPath=".endpoint",message="spec.endpoint must not carry credentials: take them out of the URL, and use spec.auth or spec.headers"
// +kubebuilder:validation:XValidation:rule="!has(self.caBundle) || !has(self.caBundleRef)",message="spec.caBundle and spec.caBundleRef are both set: keep one of them"
type AgentModelSpec struct {
	// provider is the wire format. OpenAI: chat completions, also of every compatible server, with endpoint. Anthropic: messages.
	// Gemini: generateContent of the Gemini API. Scripted: no server; the replies in scripted are given.
	// +required
	Provider Provider `json:"provider,omitempty"`

	// model is the provider's name of the model.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Model string `json:"model,omitempty"`

	// endpoint is the base URL, such as `http://llm.models.svc:8000/v1`. Unset: the provider's own.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && (url(self).getScheme() == 'http' || url(self).getScheme() == 'https') && url(self).getHostname() != ''",message="spec.endpoint must be an http or https URL with a host, such as https://api.example.com/v1"
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// query is added to the URL of every request, such as `api-version` for Azure.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Query map[string]string `json:"query,omitempty"`

	// auth is how the operator proves to the server who it is. The provider's own endpoint needs it, or headers that hold a key.
	// +optional
	Auth *Auth `json:"auth,omitempty"`

	// headers are extra headers of every request.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Headers []HTTPHeader `json:"headers,omitempty"`

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

	// parameters tune the model.
	// +optional
	Parameters *ModelParameters `json:"parameters,omitempty"`

	// contextWindowTokens is the model's context window. Conversations are compacted as they near it.
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=100000000
	// +optional
	ContextWindowTokens *int64 `json:"contextWindowTokens,omitempty"` //nolint:kubeapilinter // optional numbers are pointers here, as in the APIs of Kubernetes itself

	// requestTimeout bounds one call, the whole stream included, such as `5m`. Unset: 10m.
	// The operator's --max-call-timeout (default 1h) lowers a larger value, and says so
	// in the message of condition Ready.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,4}([.][0-9]{1,9})?h)?([0-9]{1,6}([.][0-9]{1,9})?m)?([0-9]{1,8}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?$') && duration(self) > duration('0s') && duration(self) <= duration('24h')",message="spec.requestTimeout must be more than 0s and at most 24h, such as 5m"
	// +optional
	RequestTimeout *metav1.Duration `json:"requestTimeout,omitempty"`

	// retry says for how long a failing call is tried again.
	// +optional
	Retry *RetryPolicy `json:"retry,omitempty"`

	// limits are shared by all tasks that use this model.
	// +optional
	Limits *ModelLimits `json:"limits,omitempty"`

	// pricing gives status.usage.cost of the tasks that use this model, as theirs or as their judge's.
	// +optional
	Pricing *Pricing `json:"pricing,omitempty"`

	// scripted are the replies of provider Scripted.
	// +optional
	Scripted *Script `json:"scripted,omitempty"`
}

// ReasoningEffort says how much a model thinks before it answers.
// +kubebuilder:validation:Enum=None;Minimal;Low;Medium;High;XHigh;Max
type ReasoningEffort string

// ModelParameters tune a model. Unset ones keep the provider's default.
type ModelParameters struct {
	// temperature is a decimal such as "0.2".
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?$`
	// +optional
	Temperature *string `json:"temperature,omitempty"`

	// topP is a decimal from "0" to "1".
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^(0(\.[0-9]+)?|1(\.0+)?)$`
	// +optional
	TopP *string `json:"topP,omitempty"`

	// frequencyPenalty is a decimal from "-2" to "2".
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^-?[0-2](\.[0-9]+)?$`
	// +optional
	FrequencyPenalty *string `json:"frequencyPenalty,omitempty"`

	// presencePenalty is a decimal from "-2" to "2".
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^-?[0-2](\.[0-9]+)?$`
	// +optional
	PresencePenalty *string `json:"presencePenalty,omitempty"`

	// seed asks for repeatable answers, where the provider can.
	// +optional
	Seed *int64 `json:"seed,omitempty"`

	// stop are sequences that end a reply.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +optional
	Stop []string `json:"stop,omitempty"`

	// maxOutputTokens caps a single reply. It is lowered where the server refuses it as too large.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	// +optional
	MaxOutputTokens *int64 `json:"maxOutputTokens,omitempty"` //nolint:kubeapilinter // optional numbers are pointers here, as in the APIs of Kubernetes itself

	// reasoningEffort of models that think before they answer. None: not at all. Minimal, Low, Medium, High, XHigh, Max: ever
	// more, at ever more cost. A provider whose scale ends before, such as Gemini at High, gives its most. Unset: as much as
	// the provider does by default; a server that refuses tools beside any effort is asked for none.
	// +optional
	ReasoningEffort ReasoningEffort `json:"reasoningEffort,omitempty"`
}

// RetryPolicy says for how long a failing call is tried again: after outages, rate limits and quotas that come back. What cannot
// get better, such as refused credentials, ends the task at once.
type RetryPolicy struct {
	// maxElapsed is for how long a call is tried again, from its first failure on, such as `2h`. The time counts against the
	// task's maxDuration, and takes no slot. Unset: 30m, or 2m until this AgentModel has answered for the first time, so that
	// a mistyped endpoint is told soon. A server that names the time at which it answers again is always given 30m; one that
	// asks for more than maxElapsed ends the task at once.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,4}([.][0-9]{1,9})?h)?([0-9]{1,6}([.][0-9]{1,9})?m)?([0-9]{1,8}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?$') && duration(self) > duration('0s') && duration(self) <= duration('168h')",message="spec.retry.maxElapsed must be more than 0s and at most 168h, such as 2h"
	// +optional
	MaxElapsed *metav1.Duration `json:"maxElapsed,omitempty"`

	// maxAttempts of one call, the first included. Unset: as many as fit into maxElapsed; 5 for provider Scripted, and for
	// replies that cannot be read, since each is paid for.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxAttempts *int32 `json:"maxAttempts,omitempty"` //nolint:kubeapilinter // optional numbers are pointers here, as in the APIs of Kubernetes itself
}

// ModelLimits are shared by all tasks that use a model. Unset ones do not limit.
type ModelLimits struct {
	// maxConcurrent calls at once.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	MaxConcurrent *int32 `json:"maxConcurrent,omitempty"` //nolint:kubeapilinter // optional numbers are pointers here, as in the APIs of Kubernetes itself

	// requestsPerMinute started.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	// +optional
	RequestsPerMinute *int64 `json:"requestsPerMinute,omitempty"` //nolint:kubeapilinter // optional numbers are pointers here, as in the APIs of Kubernetes itself

	// tokensPerMinute used, input and output.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000000
	// +optional
	TokensPerMinute *int64 `json:"tokensPerMinute,omitempty"` //nolint:kubeapilinter // optional numbers are pointers here, as in the APIs of Kubernetes itself
}

// Pricing is the price per million tokens, as decimal strings of one currency.
type Pricing struct {
	// currency is the ISO 4217 code of the prices, such as `EUR`. What was paid in two currencies is never added up.
	// +default="USD"
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=3
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z]{3}$')",message="spec.pricing.currency must be an ISO 4217 code of three capital letters, such as USD"
	// +optional
	Currency string `json:"currency,omitempty"`

	// inputPerMillion is the price of a million input tokens that were not cached.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?$`
	// +required
	InputPerMillion string `json:"inputPerMillion,omitempty"`

	// cachedInputPerMillion is the price of a million cached input tokens. Unset: inputPerMillion.
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?$`
	// +optional
	CachedInputPerMillion *string `json:"cachedInputPerMillion,omitempty"`

	// outputPerMillion is the price of a million output tokens.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?$`
	// +required
	OutputPerMillion string `json:"outputPerMillion,omitempty"`
}

// ScriptEnd says what a script does after its last reply.
// +kubebuilder:validation:Enum=RepeatLast;Fail
type ScriptEnd string

// The ends of a script.
const (
	ScriptRepeatLast ScriptEnd = "RepeatLast"
	ScriptFail       ScriptEnd = "Fail"
)

// Script is a list of replies, given in order: the first to a task's first call, and so on.
type Script struct {
	// replies in order.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=512
	// +required
	Replies []ScriptedReply `json:"replies,omitempty"` //nolint:kubeapilinter // no field of a reply is required: an empty reply is worth testing with

	// atEnd says what follows the last reply. RepeatLast: the last reply is given again and again. Fail: every further call fails.
	// +default="RepeatLast"
	// +optional
	AtEnd ScriptEnd `json:"atEnd,omitempty"`
}

// ScriptedReply is one reply of a script.
type ScriptedReply struct {
	// text of the reply. `${iteration}` is replaced by the number of the turn, so that repeated replies can differ.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Text *string `json:"text,omitempty"`

	// toolCalls of the reply.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +optional
	ToolCalls []ScriptedToolCall `json:"toolCalls,omitempty"`

	// usage that the reply reports. Unset: none, so that it is estimated.
	// +optional
	Usage *ScriptedUsage `json:"usage,omitempty"`

	// delay before the reply, such as `1s`. The operator's --max-call-timeout (default 1h) lowers a larger value, and says so in
	// the message of condition Ready.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,4}([.][0-9]{1,9})?h)?([0-9]{1,6}([.][0-9]{1,9})?m)?([0-9]{1,8}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="delay must be from 0s to 24h"
	// +optional
	Delay *metav1.Duration `json:"delay,omitempty"`

	// error fails the call instead. RateLimited: like status 429, tried again. Unavailable: like 503, tried again.
	// AuthenticationFailed: like 401. ContextWindowExceeded: the conversation is too long; tried again once, compacted.
	// Refused: the model or a policy refuses. InvalidRequest: like 400.
	// +optional
	Error ScriptedError `json:"error,omitempty"`
}

// ScriptedError is a failure of a scripted call.
// +kubebuilder:validation:Enum=RateLimited;Unavailable;AuthenticationFailed;ContextWindowExceeded;Refused;InvalidRequest
type ScriptedError string

// The failures of a script.
const (
	ScriptedRateLimited           ScriptedError = "RateLimited"
	ScriptedUnavailable           ScriptedError = "Unavailable"
	ScriptedAuthenticationFailed  ScriptedError = "AuthenticationFailed"
	ScriptedContextWindowExceeded ScriptedError = "ContextWindowExceeded"
	ScriptedRefused               ScriptedError = "Refused"
	ScriptedInvalidRequest        ScriptedError = "InvalidRequest"
)

// ScriptedToolCall is a tool call of a script.
type ScriptedToolCall struct {
	// name of the tool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name,omitempty"`

	// arguments is JSON text.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Arguments *string `json:"arguments,omitempty"`
}

// ScriptedUsage is the usage that a scripted reply reports.
type ScriptedUsage struct {
	// inputTokens of the call.
	// +kubebuilder:validation:Minimum=0
	// +optional
	InputTokens *int64 `json:"inputTokens,omitempty"`

	// outputTokens of the call.
	// +kubebuilder:validation:Minimum=0
	// +optional
	OutputTokens *int64 `json:"outputTokens,omitempty"`
}

// AgentModelStatus tells whether the model can be called. No call is spent to find out.
type AgentModelStatus struct {
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

// AgentModel is a language model that tasks of its namespace may use.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=agm,categories=agentloop
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AgentModel struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec says where the model is.
	// +required
	Spec AgentModelSpec `json:"spec,omitempty,omitzero"`

	// status tells whether it can be called.
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status AgentModelStatus `json:"status,omitempty,omitzero"` //nolint:kubeapilinter // an empty status is one that no operator has looked at yet
}

// AgentModelList is a list of AgentModels.
//
// +kubebuilder:object:root=true
type AgentModelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []AgentModel `json:"items"`
}
