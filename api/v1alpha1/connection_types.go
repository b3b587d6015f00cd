package v1alpha1

// What a Secret says of its use by models and tools.
const (
	// LabelAllowUse marks, with the value true, a Secret that models and tools may use where the operator's --secret-policy is Labelled.
	LabelAllowUse = "agentloop.dev/allow-use"
	// SecretTypeCredentials is a type of Secrets that are marked by it in the same way.
	SecretTypeCredentials = "agentloop.dev/credentials"
	// AnnotationAllowedHosts of a Secret names the hosts that it may be sent to, with commas between them and without ports:
	// `api.openai.com,*.example.com`. Without it there is no such limit.
	AnnotationAllowedHosts = "agentloop.dev/allowed-hosts"
)

// Auth is how the operator proves to a server who it is. Exactly one member is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef)",message="spec.auth needs exactly one way to authenticate: set spec.auth.secretRef to the name and key of a Secret, or remove spec.auth"
type Auth struct {
	// secretRef names the Secret key that holds the API key or bearer token. It is read anew for each call.
	// +optional
	SecretRef *SecretKeyReference `json:"secretRef,omitempty"`
}

// CABundleSource is a kind of object that holds certificate authorities.
// +kubebuilder:validation:Enum=ConfigMap;Secret
type CABundleSource string

// The kinds of objects that hold certificate authorities.
const (
	CABundleConfigMap CABundleSource = "ConfigMap"
	CABundleSecret    CABundleSource = "Secret"
)

// CABundleReference names a key of a ConfigMap or Secret in the same namespace, which holds PEM.
type CABundleReference struct {
	// kind of the object. ConfigMap: its data or binaryData has the key. Secret: its data has the key.
	// +required
	Kind CABundleSource `json:"kind,omitempty"`

	// name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// key within the object. Its value has at most 262144 bytes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key,omitempty"`
}

// SecretKeyReference names a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// key within the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key,omitempty"`
}

// HTTPHeader is a header of a request. Exactly one of value and valueFrom is set.
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.valueFrom)",message="a header needs exactly one of value and valueFrom"
type HTTPHeader struct {
	// name of the header.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+.^_|~-]+$`
	// +required
	Name string `json:"name,omitempty"`

	// value of the header, in the clear.
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	Value *string `json:"value,omitempty"`

	// valueFrom names the Secret key that holds the value.
	// +optional
	ValueFrom *SecretKeyReference `json:"valueFrom,omitempty"`
}
