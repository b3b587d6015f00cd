package resolve

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

const (
	labelCommand    = "kubectl label secret s -n ns --overwrite agentloop.dev/allow-use=true"
	annotateCommand = `kubectl annotate secret s -n ns --overwrite "agentloop.dev/allowed-hosts=$(kubectl get secret s -n ns -o ` +
		`jsonpath='{.metadata.annotations.agentloop\.dev/allowed-hosts}'),`
)

var (
	key    = &v1alpha1.SecretKeyReference{Name: "s", Key: "k"}
	auth   = &v1alpha1.Auth{SecretRef: key}
	header = []v1alpha1.HTTPHeader{{Name: "X-Key", ValueFrom: key}}
	plain  = []v1alpha1.HTTPHeader{{Name: "X-Key", Value: new("v")}}
	bundle = &v1alpha1.CABundleReference{Kind: v1alpha1.CABundleSecret, Name: "s", Key: "ca"}
)

// user is what uses a Secret: an AgentModel and an AgentToolset at the same address.
type user struct {
	address string
	auth    *v1alpha1.Auth
	headers []v1alpha1.HTTPHeader
	bundle  *v1alpha1.CABundleReference
}

// resolve gives what the two say when they are resolved.
func (u user) resolve(r *rig) map[string]error {
	meta := metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: "x", UID: "1", Generation: 1}
	_, asModel := r.config(r.Context(), &v1alpha1.AgentModel{ObjectMeta: meta, Spec: v1alpha1.AgentModelSpec{
		Model: "m", Endpoint: u.address, Auth: u.auth, Headers: u.headers, CABundleRef: u.bundle}})
	_, _, asToolset := r.Toolset(r.Context(), &v1alpha1.AgentToolset{ObjectMeta: meta, Spec: v1alpha1.AgentToolsetSpec{
		URL: u.address, Auth: u.auth, Headers: u.headers, CABundleRef: u.bundle}})
	return map[string]error{"AgentModel": asModel, "AgentToolset": asToolset}
}

func secretOf(t *testing.T) *corev1.Secret {
	s := keySecret()
	s.Data["ca"] = []byte(authority(t))
	return s
}

func TestSecretsAreUsedAsTheySay(t *testing.T) {
	const https = "https://api.example.com/v1"
	marked, typed := map[string]string{"agentloop.dev/allow-use": "true"}, corev1.SecretType("agentloop.dev/credentials")
	to := func(hosts string) map[string]string { return map[string]string{"agentloop.dev/allowed-hosts": hosts} }
	for name, c := range map[string]struct {
		policy      SecretPolicy
		labels      map[string]string
		kind        corev1.SecretType
		annotations map[string]string
		by          user
		// reason and command are of the refusal, empty where the Secret may be used.
		reason, command string
	}{
		"any Secret, by default":        {by: user{https, auth, header, bundle}},
		"any Secret, in so many words":  {policy: SecretsAny, by: user{https, auth, header, bundle}},
		"a mark is asked for: auth":     {policy: SecretsLabelled, by: user{https, auth, nil, nil}, reason: "SecretNotAllowed", command: labelCommand},
		"a mark is asked for: header":   {policy: SecretsLabelled, by: user{https, nil, header, nil}, reason: "SecretNotAllowed", command: labelCommand},
		"a mark is asked for: CA":       {policy: SecretsLabelled, by: user{https, nil, nil, bundle}, reason: "SecretNotAllowed", command: labelCommand},
		"nothing of a Secret":           {policy: SecretsLabelled, by: user{https, nil, plain, nil}},
		"the label":                     {policy: SecretsLabelled, labels: marked, by: user{https, auth, header, bundle}},
		"the type":                      {policy: SecretsLabelled, kind: typed, by: user{https, auth, header, bundle}},
		"a label that says no":          {policy: SecretsLabelled, labels: map[string]string{"agentloop.dev/allow-use": "false"}, by: user{https, auth, nil, nil}, reason: "SecretNotAllowed", command: labelCommand},
		"hosts are no mark":             {policy: SecretsLabelled, annotations: to("api.example.com"), by: user{https, auth, nil, nil}, reason: "SecretNotAllowed", command: labelCommand},
		"its host":                      {annotations: to("api.openai.com, api.example.com"), by: user{https, auth, header, nil}},
		"its host, marked":              {policy: SecretsLabelled, labels: marked, annotations: to("api.example.com"), by: user{https, auth, header, nil}},
		"another host: auth":            {annotations: to("api.openai.com"), by: user{https, auth, nil, nil}, reason: "SecretHostNotAllowed", command: annotateCommand + `api.example.com"`},
		"another host: header":          {annotations: to("api.openai.com"), by: user{https, nil, header, nil}, reason: "SecretHostNotAllowed", command: annotateCommand + `api.example.com"`},
		"another host, though marked":   {policy: SecretsLabelled, labels: marked, annotations: to("api.openai.com"), by: user{https, auth, nil, nil}, reason: "SecretHostNotAllowed", command: annotateCommand + `api.example.com"`},
		"another host: CA":              {annotations: to("api.openai.com"), by: user{https, nil, nil, bundle}},
		"no host at all":                {annotations: to(""), by: user{https, auth, nil, nil}, reason: "SecretHostNotAllowed", command: annotateCommand + `api.example.com"`},
		"a host that no command shows":  {annotations: to("api.openai.com"), by: user{"https://a$(id).example.com/", auth, nil, nil}, reason: "SecretHostNotAllowed"},
		"a host that looks like its":    {annotations: to("api.example.com"), by: user{"https://api.example.com.evil.example/", auth, nil, nil}, reason: "SecretHostNotAllowed", command: annotateCommand + `api.example.com.evil.example"`},
		"a user that looks like a host": {annotations: to("api.example.com"), by: user{"https://evil.example/api.example.com", auth, nil, nil}, reason: "SecretHostNotAllowed", command: annotateCommand + `evil.example"`},
	} {
		t.Run(name, func(t *testing.T) {
			secret := secretOf(t)
			secret.Labels, secret.Annotations, secret.Type = c.labels, c.annotations, c.kind
			r := newRig(t, interceptor.Funcs{}, secret)
			r.SecretPolicy = c.policy
			for kind, err := range c.by.resolve(r) {
				wantWaiting(t, kind, err, c.reason, c.command)
				if w := (*Waiting)(nil); errors.As(err, &w) && (w.After != SecretRetry || strings.Contains(w.Message, "openai") || strings.Contains(w.Message, "\n") ||
					c.command == "" && strings.Contains(w.Message, "kubectl")) {
					t.Errorf("%s: %+v", kind, w)
				}
			}
		})
	}
}

func wantWaiting(t *testing.T, kind string, err error, reason, ends string) {
	t.Helper()
	var w *Waiting
	switch {
	case reason == "" && err != nil:
		t.Errorf("%s: %v", kind, err)
	case reason != "" && (!errors.As(err, &w) || w.Reason != reason || !strings.HasSuffix(w.Message, ends)):
		t.Errorf("%s: got %v, want %s and at the end %q", kind, err, reason, ends)
	}
}

// A provider's own endpoint is a host as any other.
func TestASecretKnowsTheProvidersOwnHosts(t *testing.T) {
	for provider, host := range map[v1alpha1.Provider]string{
		v1alpha1.ProviderOpenAI: "api.openai.com", v1alpha1.ProviderAnthropic: "api.anthropic.com", v1alpha1.ProviderGemini: "generativelanguage.googleapis.com",
	} {
		for hosts, reason := range map[string]string{host: "", "other.example.com": "SecretHostNotAllowed"} {
			secret := keySecret()
			secret.Annotations = map[string]string{"agentloop.dev/allowed-hosts": hosts}
			r := newRig(t, interceptor.Funcs{}, secret)
			_, err := r.config(t.Context(), &v1alpha1.AgentModel{
				ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace}, Spec: v1alpha1.AgentModelSpec{Provider: provider, Model: "m", Auth: auth}})
			wantWaiting(t, string(provider), err, reason, "")
		}
	}
}

func TestHostsOfASecret(t *testing.T) {
	for name, c := range map[string]struct {
		list, host string
		want       bool
	}{
		"itself":                  {"a.example.com", "a.example.com", true},
		"one of several":          {"x, a.example.com ,y", "a.example.com", true},
		"in capitals":             {"A.Example.COM", "a.example.com", true},
		"with the root dot":       {"a.example.com.", "a.example.com", true},
		"below":                   {"*.example.com", "a.b.example.com", true},
		"not itself below itself": {"*.example.com", "example.com", false},
		"another with the ending": {"*.example.com", "notexample.com", false},
		"below a name":            {"example.com", "a.example.com", false},
		"everything is no host":   {"*", "a.example.com", false},
		"an empty domain":         {"*.", "a.example.com", false},
		"a star elsewhere":        {"a.*.com", "a.example.com", false},
		"an address":              {"10.0.0.7", "10.0.0.7", true},
		"addresses are no names":  {"*.0.0.7", "10.0.0.7", false},
		"an address of v6":        {"fd00::1", "fd00::1", true},
		"with a port":             {"a.example.com:443", "a.example.com", false},
		"nothing":                 {",", "a.example.com", false},
	} {
		if got := hostIn(c.list, c.host); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestCredentialsGoInTheClearWithinOwnNetworksOnly(t *testing.T) {
	const why = "--allow-plaintext-credentials"
	for name, c := range map[string]struct {
		by      user
		allowed bool
		refused bool
	}{
		"auth to a public address":          {by: user{address: "http://93.184.215.14/v1", auth: auth}, refused: true},
		"a header to a public address":      {by: user{address: "http://93.184.215.14/v1", headers: header}, refused: true},
		"a public address, oddly written":   {by: user{address: "http://0x5db8d70e/v1", auth: auth}, refused: true},
		"a public address of v6":            {by: user{address: "HTTP://[2606:4700::1111]/v1", auth: auth}, refused: true},
		"a plain header":                    {by: user{address: "http://93.184.215.14/v1", headers: plain}},
		"authorities are no credentials":    {by: user{address: "http://93.184.215.14/v1", bundle: bundle}},
		"by https":                          {by: user{address: "https://93.184.215.14/v1", auth: auth, headers: header}},
		"an installation that allows it":    {by: user{address: "http://93.184.215.14/v1", auth: auth}, allowed: true},
		"loopback":                          {by: user{address: "http://127.0.0.1:1/v1", auth: auth, headers: header}},
		"a private address":                 {by: user{address: "http://10.0.0.7/v1", auth: auth}},
		"a Service":                         {by: user{address: "http://llm.models.svc:8000/v1", auth: auth}},
		"a name, which is seen at the dial": {by: user{address: "http://api.example.com/v1", auth: auth}},
	} {
		r := newRig(t, interceptor.Funcs{}, secretOf(t))
		r.AllowPlaintextCredentials = c.allowed
		for kind, err := range c.by.resolve(r) {
			var w *Waiting
			if refused := errors.As(err, &w) && w.Reason == "EndpointRefused" && strings.Contains(w.Message, why); refused != c.refused || err != nil && !refused {
				t.Errorf("%s, %s: %v", name, kind, err)
			}
		}
	}
}

// The connection of each is held to private addresses, so no name gets around that.
func TestTheDialDecidesAboutCredentialsInTheClear(t *testing.T) {
	for name, c := range map[string]struct {
		address string
		auth    *v1alpha1.Auth
		refused bool
	}{
		"a public name":               {"http://outside.example.com:1/v1", auth, true},
		"a Service that is elsewhere": {"http://external.models.svc:1/v1", auth, true},
		"a name within":               {"http://inside.example.com:1/v1", auth, false},
	} {
		r := newRig(t, interceptor.Funcs{}, keySecret())
		r.Guard.Resolver = modeltest.Resolver(t, map[string]netip.Addr{
			"outside.example.com": netip.MustParseAddr("93.184.215.14"), "external.models.svc": netip.MustParseAddr("93.184.215.14"),
			"inside.example.com": netip.MustParseAddr("127.0.0.1"),
		})
		meta := metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: "x", UID: "1", Generation: 1}
		m, err := r.Build(t.Context(), &v1alpha1.AgentModel{ObjectMeta: meta, Spec: v1alpha1.AgentModelSpec{
			Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: c.address, Auth: c.auth}})
		if err != nil {
			t.Fatal(err)
		}
		var failed *loop.ModelError
		_, err = m.Model.Generate(t.Context(), &loop.Request{Messages: []loop.Message{loop.UserText("x")}}, func(int) {})
		if !errors.As(err, &failed) || (failed.Cause == loop.CauseEndpointRefused) != c.refused {
			t.Errorf("%s, AgentModel: %v", name, err)
		}
		_, cfg, err := r.Toolset(t.Context(), &v1alpha1.AgentToolset{ObjectMeta: meta, Spec: v1alpha1.AgentToolsetSpec{URL: c.address, Auth: c.auth}})
		if err != nil {
			t.Fatal(err)
		}
		reply, err := cfg.HTTP.Get(c.address)
		if err == nil {
			reply.Body.Close()
			t.Fatalf("%s: an answer", name)
		}
		if refused := strings.Contains(err.Error(), "write https://"); refused != c.refused {
			t.Errorf("%s, AgentToolset: %v", name, err)
		}
	}
}
