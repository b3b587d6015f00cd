package resolve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// The API server refuses these, but not in objects that are older than the rule.
func TestAToolsetWithAMistakeIsInvalidAndNotAway(t *testing.T) {
	tests := map[string]struct {
		reason string
		spec   v1alpha1.AgentToolsetSpec
		want   string
	}{
		"Allow":         {"an allow that matches nothing would leave the task without tools", v1alpha1.AgentToolsetSpec{Allow: []string{"get_["}}, `spec.allow: glob "get_["`},
		"Deny":          {"a deny that matches nothing would let tools through", v1alpha1.AgentToolsetSpec{Deny: []string{"[]"}}, `spec.deny: glob "[]"`},
		"ApprovalTools": {"and so would this let calls run", v1alpha1.AgentToolsetSpec{ApprovalTools: []string{"[a"}}, `spec.approvalTools: glob "[a"`},
		"Credentials":   {"a URL is no place for a password", v1alpha1.AgentToolsetSpec{URL: "https://me:secret@t/mcp"}, "the URL must not carry credentials: use auth or headers"},
		"MissingSecret": {"a mistake is told before the Secret is looked for", v1alpha1.AgentToolsetSpec{Allow: []string{"["}, Auth: &v1alpha1.Auth{SecretRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"}}}, `glob "["`},
		"Transport":     {"nothing that is spoken", v1alpha1.AgentToolsetSpec{Transport: "stdio"}, "write StreamableHTTP or SSE"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := New(Options{Guard: &egress.Guard{}, Clock: looptest.NewClock()})
			set := &v1alpha1.AgentToolset{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "ops", UID: "1", Generation: 1}, Spec: tc.spec}
			if set.Spec.URL == "" {
				set.Spec.URL = "https://tools.example.com/mcp"
			}
			_, _, err := m.Toolset(t.Context(), set)
			var w *Waiting
			if !errors.As(err, &w) || w.Reason != "ToolsetInvalid" || !strings.Contains(w.Message, `AgentToolset "ops" cannot be used: `) || !strings.Contains(w.Message, tc.want) {
				t.Errorf("%s: got %#v, want it to wait with ToolsetInvalid and to say %q", tc.reason, err, tc.want)
			}
		})
	}
}

func TestACABundleIsReadWhereItIs(t *testing.T) {
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
	objects := []client.Object{
		&corev1.ConfigMap{ObjectMeta: in("ca"), Data: map[string]string{"text": "\nPEM\n", "blank": " ", "large": strings.Repeat("x", 262145)}, BinaryData: map[string][]byte{"bytes": []byte("PEM")}},
		&corev1.Secret{ObjectMeta: in("ca"), Data: map[string][]byte{"key": []byte("secret PEM")}},
	}
	for name, tc := range map[string]struct {
		inline       string
		ref          *v1alpha1.CABundleReference
		want, reason string
		says         string
	}{
		"None":               {},
		"InTheObject":        {inline: "PEM", want: "PEM"},
		"ConfigMapData":      {ref: &v1alpha1.CABundleReference{Kind: "ConfigMap", Name: "ca", Key: "text"}, want: "PEM"},
		"ConfigMapBytes":     {ref: &v1alpha1.CABundleReference{Kind: "ConfigMap", Name: "ca", Key: "bytes"}, want: "PEM"},
		"Secret":             {ref: &v1alpha1.CABundleReference{Kind: "Secret", Name: "ca", Key: "key"}, want: "secret PEM"},
		"NoConfigMap":        {ref: &v1alpha1.CABundleReference{Kind: "ConfigMap", Name: "no", Key: "text"}, reason: "ConfigMapNotFound", says: `ConfigMap "no" is not in namespace "ns": create it with the key "text".`},
		"NoSecret":           {ref: &v1alpha1.CABundleReference{Kind: "Secret", Name: "no", Key: "key"}, reason: "SecretNotFound", says: `Secret "no" is not in namespace "ns": create it with the key "key".`},
		"NoKeyInConfigMap":   {ref: &v1alpha1.CABundleReference{Kind: "ConfigMap", Name: "ca", Key: "key"}, reason: "ConfigMapKeyNotFound", says: `ConfigMap "ca" in namespace "ns" has no key "key", or it is empty: add it.`},
		"BlankConfigMapKey":  {ref: &v1alpha1.CABundleReference{Kind: "ConfigMap", Name: "ca", Key: "blank"}, reason: "ConfigMapKeyNotFound", says: `ConfigMap "ca" in namespace "ns" has no key "blank", or it is empty: add it.`},
		"NoKeyInSecret":      {ref: &v1alpha1.CABundleReference{Kind: "Secret", Name: "ca", Key: "text"}, reason: "SecretKeyNotFound", says: `Secret "ca" in namespace "ns" has no key "text", or it is empty: add it.`},
		"LargerThanInObject": {ref: &v1alpha1.CABundleReference{Kind: "ConfigMap", Name: "ca", Key: "large"}, reason: "CABundleTooLarge", says: `Key "large" of ConfigMap "ca" in namespace "ns" has 262145 bytes: shorten it to the authorities that are needed, at most 262144 bytes.`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, interceptor.Funcs{}, objects...)
			got, err := r.caBundle(t.Context(), "ns", []byte(tc.inline), tc.ref)
			w := &Waiting{}
			if err != nil && !errors.As(err, &w) {
				t.Fatal(err)
			}
			if w.Reason != tc.reason || w.Message != tc.says || err == nil && string(got) != tc.want || err != nil && w.After != SecretRetry {
				t.Errorf("got %q, %+v", got, w)
			}
		})
	}
}

// authority is the PEM of a certificate authority that signed nothing.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf(der)
}

func pemOf(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// The objects stay the same, and so do their generations.
func TestARotatedCABundleServesTheNextCall(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	bundle := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ca"}}
	r := newRig(t, interceptor.Funcs{}, bundle)
	ref := &v1alpha1.CABundleReference{Kind: v1alpha1.CABundleConfigMap, Name: "ca", Key: "ca.crt"}
	object := &v1alpha1.AgentModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "1", Generation: 1},
		Spec:       v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: server.URL, CABundleRef: ref},
	}
	set := &v1alpha1.AgentToolset{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "2", Generation: 1},
		Spec:       v1alpha1.AgentToolsetSpec{URL: server.URL, CABundleRef: ref},
	}
	for _, step := range []struct {
		bundle  string
		trusted bool
	}{{pemOf(server.Certificate().Raw), true}, {authority(t), false}, {pemOf(server.Certificate().Raw), true}} {
		bundle.Data = map[string]string{"ca.crt": step.bundle}
		if err := r.kube.Update(t.Context(), bundle); err != nil {
			t.Fatal(err)
		}
		var kept [2]*http.Client
		for again := range 2 {
			m, err := r.Build(t.Context(), object)
			if err != nil {
				t.Fatal(err)
			}
			want := loop.CauseModelUnavailable
			if step.trusted {
				want = loop.CauseModelAuthenticationFailed // it was asked
			}
			failed := &loop.ModelError{}
			if _, err := m.Model.Generate(t.Context(), &loop.Request{Messages: []loop.Message{loop.UserText("x")}}, func(int) {}); !errors.As(err, &failed) || failed.Cause != want {
				t.Errorf("the model's call gave %v, want %s", err, want)
			}
			_, cfg, err := r.Toolset(t.Context(), set)
			if err != nil {
				t.Fatal(err)
			}
			reply, err := cfg.HTTP.Get(server.URL)
			if (err == nil) != step.trusted {
				t.Errorf("the toolset's call gave %v, want it trusted: %v", err, step.trusted)
			}
			if err == nil {
				reply.Body.Close()
			}
			used := [2]*http.Client{r.shared[object.UID].http, cfg.HTTP}
			if again > 0 && used != kept {
				t.Error("the same bundle makes another client, with other connections")
			}
			kept = used
		}
	}
}
