package resolve

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// served is an AgentModel with a server of its own.
func served(url string) *v1alpha1.AgentModel {
	return &v1alpha1.AgentModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: "default", UID: "model-1", Generation: 1},
		Spec:       v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: url},
	}
}

func TestHowLongAModelIsWaitedFor(t *testing.T) {
	minutes := func(n time.Duration) *metav1.Duration { return &metav1.Duration{Duration: n * time.Minute} }
	for name, tc := range map[string]struct {
		why             string
		provider        v1alpha1.Provider
		policy          *v1alpha1.RetryPolicy
		answered, known bool
		want            loop.Retry
	}{
		"new":             {"a mistyped endpoint is told soon", v1alpha1.ProviderOpenAI, nil, false, false, loop.Retry{MaxElapsed: 2 * time.Minute, NamedElapsed: 30 * time.Minute}},
		"has answered":    {"it is no mistyped one", v1alpha1.ProviderGemini, nil, true, false, loop.Retry{MaxElapsed: 30 * time.Minute, NamedElapsed: 30 * time.Minute}},
		"has answered us": {"the journal shows it", v1alpha1.ProviderAnthropic, nil, false, true, loop.Retry{MaxElapsed: 30 * time.Minute, NamedElapsed: 30 * time.Minute}},
		"says how long":   {"its word holds for all", v1alpha1.ProviderOpenAI, &v1alpha1.RetryPolicy{MaxElapsed: minutes(90)}, false, false, loop.Retry{MaxElapsed: 90 * time.Minute, NamedElapsed: 90 * time.Minute}},
		"says how often": {"a number holds where it is set", v1alpha1.ProviderOpenAI, &v1alpha1.RetryPolicy{MaxAttempts: new(int32(3))}, true, true,
			loop.Retry{MaxAttempts: 3, MaxElapsed: 30 * time.Minute, NamedElapsed: 30 * time.Minute}},
		"scripted":              {"no time mends a script", v1alpha1.ProviderScripted, nil, false, false, loop.Retry{MaxAttempts: 5, MaxElapsed: 30 * time.Minute, NamedElapsed: 30 * time.Minute}},
		"scripted, says so too": {"a number holds where it is set", v1alpha1.ProviderScripted, &v1alpha1.RetryPolicy{MaxAttempts: new(int32(9))}, false, false, loop.Retry{MaxAttempts: 9, MaxElapsed: 30 * time.Minute, NamedElapsed: 30 * time.Minute}},
	} {
		m := &Model{answered: tc.answered, Object: &v1alpha1.AgentModel{Spec: v1alpha1.AgentModelSpec{Provider: tc.provider, Retry: tc.policy}}}
		if got := m.Retry(tc.known); got != tc.want {
			t.Errorf("%s: %+v, want %+v: %s", name, got, tc.want, tc.why)
		}
	}
}

// What calls show of a model is of the object as it is: its generation, its credentials, the model that it names.
func TestAModelIsReadyAsItsServerAnswers(t *testing.T) {
	status := 0
	server := httptest.NewServer(fakechat.New(func(*fakechat.Request) fakechat.Reply {
		return fakechat.Reply{Status: status, Text: "Hello.", Message: "no"}
	}))
	t.Cleanup(server.Close)
	object := served(server.URL)
	r := newRig(t, interceptor.Funcs{}, object)
	told := 0
	r.TellHealth(func(key client.ObjectKey) { told++ })
	call := func(begun string) {
		t.Helper()
		m, err := r.Build(t.Context(), object)
		if begun != "" {
			m, err = r.begun(t.Context(), &loop.ModelIdentity{Namespace: object.Namespace, Name: object.Name, Provider: "OpenAI", Model: begun})
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = m.Model.Generate(t.Context(), &loop.Request{Messages: []loop.Message{loop.UserText("Hi.")}}, func(int) {})
	}
	ready := func(what, want string, tells int) {
		t.Helper()
		reason, err := r.Ready(object)
		if w := (*Waiting)(nil); errors.As(err, &w) {
			reason = w.Reason
		}
		if reason != want || told != tells {
			t.Errorf("%s: %s after %d changes, want %s after %d", what, reason, told, want, tells)
		}
	}
	call("")
	ready("a reply", "Answered", 1)
	call("")
	ready("another", "Answered", 1)
	status = http.StatusUnauthorized
	call("")
	call("")
	ready("refused credentials", "ModelAuthenticationFailed", 2)
	status = http.StatusServiceUnavailable
	call("")
	ready("an outage after that, which says nothing of them", "ModelAuthenticationFailed", 2)
	status = 0
	call("")
	ready("a reply again", "Answered", 3)
	status = http.StatusForbidden
	call("")
	ready("403, which may be of this call", "Answered", 3)
	status = http.StatusNotFound
	call("one of before")
	ready("another model, of a task that began before", "Answered", 3)
	call("")
	ready("no such model", "ModelNotFound", 4)
	object.Generation++
	call("")
	ready("an object that was edited in vain", "ModelNotFound", 5)
	object.Generation++
	if _, err := r.Build(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	ready("an object that was edited", "Resolved", 5)
	meta.SetStatusCondition(&object.Status.Conditions, metav1.Condition{Type: "Ready", Status: "True", Reason: "Answered", ObservedGeneration: object.Generation})
	ready("what an operator before this one has seen", "Answered", 5)
}
