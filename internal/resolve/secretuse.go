package resolve

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/anthropic"
	"github.com/agentloop-dev/agenttask-operator/internal/model/gemini"
	"github.com/agentloop-dev/agenttask-operator/internal/model/openai"
)

// SecretPolicy says which Secrets may be read.
type SecretPolicy string

const (
	// SecretsAny are all that the operator's RBAC lets it get. The empty policy is the same.
	SecretsAny SecretPolicy = "Any"
	// SecretsLabelled are those with the label v1alpha1.LabelAllowUse, or of type v1alpha1.SecretTypeCredentials.
	SecretsLabelled SecretPolicy = "Labelled"
)

// nobody gets what is read from a Secret: it stays in the operator.
const nobody = ""

// recipient is the host that a model's credentials are sent to.
func recipient(sp *v1alpha1.AgentModelSpec) (string, error) {
	if sp.Endpoint != "" {
		return egress.Host(sp.Endpoint)
	}
	switch sp.Provider {
	case v1alpha1.ProviderAnthropic:
		return egress.Host(anthropic.DefaultEndpoint)
	case v1alpha1.ProviderGemini:
		return egress.Host(gemini.DefaultEndpoint)
	case v1alpha1.ProviderOpenAI:
		return egress.Host(openai.DefaultEndpoint)
	case v1alpha1.ProviderScripted: // it sends nothing
	}
	return "", fmt.Errorf("this operator does not know provider %q", loop.Visible(string(sp.Provider)))
}

// mayUse refuses a Secret that is not meant for the operator, or not for the host that would get it. Its errors are *Waiting.
func (m *Models) mayUse(s *corev1.Secret, to string) error {
	if m.SecretPolicy == SecretsLabelled && s.Labels[v1alpha1.LabelAllowUse] != "true" && s.Type != v1alpha1.SecretTypeCredentials {
		return &Waiting{Reason: "SecretNotAllowed", After: SecretRetry, Message: fmt.Sprintf(
			"Secret %q in namespace %q is not marked as one for models and tools, which the operator's --secret-policy asks for; to allow it, run: "+
				"kubectl label secret %s -n %s --overwrite %s=true", s.Name, s.Namespace, s.Name, s.Namespace, v1alpha1.LabelAllowUse)}
	}
	hosts, limited := s.Annotations[v1alpha1.AnnotationAllowedHosts]
	if to == nobody || !limited || hostIn(hosts, to) {
		return nil
	}
	w := &Waiting{Reason: "SecretHostNotAllowed", After: SecretRetry, Message: fmt.Sprintf(
		"Secret %q in namespace %q may not be sent to host %q, by its annotation %s: correct the address", s.Name, s.Namespace, to, v1alpha1.AnnotationAllowedHosts)}
	if !plainHost.MatchString(to) { // it has no place in a command that people paste
		w.Message += "."
		return w
	}
	w.Message += fmt.Sprintf("; to allow it, run: kubectl annotate secret %s -n %s --overwrite "+
		`"%s=$(kubectl get secret %s -n %s -o jsonpath='{.metadata.annotations.%s}'),%s"`,
		s.Name, s.Namespace, v1alpha1.AnnotationAllowedHosts, s.Name, s.Namespace, strings.ReplaceAll(v1alpha1.AnnotationAllowedHosts, ".", `\.`), to)
	return w
}

var plainHost = regexp.MustCompile(`^[a-z0-9._:-]+$`)

// hostIn tells whether a list of hosts with commas between them has a host. `*.example.com` has every name below example.com, and
// not itself.
func hostIn(list, host string) bool {
	_, notAName := netip.ParseAddr(host)
	for _, entry := range strings.Split(list, ",") {
		entry = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(entry), "."))
		domain, wild := strings.CutPrefix(entry, "*.")
		switch {
		case entry == "":
		case entry == host, wild && domain != "" && notAName != nil && strings.HasSuffix(host, "."+domain):
			return true
		}
	}
	return false
}

// privateOnly tells whether what an object sends must stay within own networks: http:// shows what is from a Secret to everybody on
// the way.
func (m *Models) privateOnly(endpoint string, auth *v1alpha1.Auth, headers []v1alpha1.HTTPHeader) bool {
	u, err := url.Parse(endpoint)
	if m.AllowPlaintextCredentials || err != nil || u.Scheme != "http" {
		return false
	}
	secret := auth != nil && auth.SecretRef != nil
	for i := range headers {
		secret = secret || headers[i].ValueFrom != nil
	}
	return secret
}

// checkURL refuses an address that the guard would not let be dialled.
func (m *Models) checkURL(endpoint string, privateOnly bool) error {
	guard := *m.Guard
	guard.PrivateOnly = privateOnly
	return guard.CheckURL(endpoint)
}
