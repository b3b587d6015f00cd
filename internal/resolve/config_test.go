package resolve

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
)

func keySecret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: "s"}, Data: map[string][]byte{"k": []byte("key\n"), "h": []byte("value")},
	}
}

func TestEverythingOfAnAgentModelReachesItsClient(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, keySecret())
	full := &v1alpha1.AgentModel{ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: "m"}, Spec: v1alpha1.AgentModelSpec{
		Model: "name", Endpoint: "https://models.example.com/v1", Query: map[string]string{"api-version": "1"},
		RequestTimeout: &metav1.Duration{Duration: time.Minute},
		Auth:           &v1alpha1.Auth{SecretRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"}},
		Headers: []v1alpha1.HTTPHeader{
			{Name: "X-Plain", Value: new("plain")}, {Name: "X-Secret", ValueFrom: &v1alpha1.SecretKeyReference{Name: "s", Key: "h"}},
		},
		Parameters: &v1alpha1.ModelParameters{
			Temperature: new("0.2"), TopP: new("0.9"), FrequencyPenalty: new("-1"), PresencePenalty: new("1.5"), Seed: new(int64(7)),
			Stop: []string{"END"}, MaxOutputTokens: new(int64(100)), ReasoningEffort: "Low",
		},
	}}
	got, err := r.config(t.Context(), full)
	if err != nil {
		t.Fatal(err)
	}
	want := model.Config{
		Model: "name", Endpoint: "https://models.example.com/v1", APIKey: "key", Query: map[string]string{"api-version": "1"},
		Headers: map[string]string{"X-Plain": "plain", "X-Secret": "value"}, RequestTimeout: time.Minute,
		Parameters: model.Parameters{
			Temperature: new(0.2), TopP: new(0.9), FrequencyPenalty: new(-1.0), PresencePenalty: new(1.5), Seed: new(int64(7)),
			StopSequences: []string{"END"}, MaxOutputTokens: 100, ReasoningEffort: "low",
		},
	}
	got.Room = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, err = r.config(t.Context(), &v1alpha1.AgentModel{Spec: v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI}}); err != nil || got.RequestTimeout != 10*time.Minute {
		t.Errorf("without requestTimeout it is %s, %v", got.RequestTimeout, err)
	}
}

// Otherwise one script with `delay: 24h` in many tasks holds all slots for a day.
func TestTheOperatorLowersWhatACallMayTake(t *testing.T) {
	day, minute := &metav1.Duration{Duration: 24 * time.Hour}, &metav1.Duration{Duration: time.Minute}
	for name, tc := range map[string]struct {
		max  time.Duration
		set  *metav1.Duration
		want time.Duration
		told string
	}{
		"a day, by default":      {0, day, time.Hour, " spec.requestTimeout is 24h0m0s, which the operator's --max-call-timeout lowers to 1h0m0s."},
		"a day, and more may be": {48 * time.Hour, day, 24 * time.Hour, ""},
		"a minute":               {0, minute, time.Minute, ""},
		"just as much":           {time.Minute, minute, time.Minute, ""},
		"the default":            {0, nil, 10 * time.Minute, ""},
		"a default that is long": {time.Minute, nil, time.Minute, " spec.requestTimeout is 10m0s, which the operator's --max-call-timeout lowers to 1m0s."},
	} {
		r := newRig(t, interceptor.Funcs{})
		r.MaxCallTimeout = tc.max
		object := &v1alpha1.AgentModel{Spec: v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, RequestTimeout: tc.set}}
		got, err := r.config(t.Context(), object)
		if told := r.LoweredInModel(&object.Spec); err != nil || got.RequestTimeout != tc.want || told != tc.told {
			t.Errorf("%s: %s, %q, %v", name, got.RequestTimeout, told, err)
		}
	}
	r := newRig(t, interceptor.Funcs{})
	scripted := &v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderScripted, Scripted: &v1alpha1.Script{Replies: []v1alpha1.ScriptedReply{{}, {Delay: minute}, {Delay: day}}}}
	var delays []time.Duration
	for _, reply := range r.script(scripted.Scripted).Replies {
		delays = append(delays, reply.Delay)
	}
	if diff := cmp.Diff([]time.Duration{0, time.Minute, time.Hour}, delays); diff != "" {
		t.Errorf("delays -want +got:\n%s", diff)
	}
	const told = " spec.scripted.replies[2].delay is 24h0m0s, which the operator's --max-call-timeout lowers to 1h0m0s."
	if got := r.LoweredInModel(scripted); got != told {
		t.Errorf("got %q", got)
	}
	set := &v1alpha1.AgentToolset{Spec: v1alpha1.AgentToolsetSpec{URL: "https://tools.example.com/mcp", CallTimeout: day}}
	if _, got, err := r.Toolset(t.Context(), set); err != nil || got.CallTimeout != time.Hour {
		t.Errorf("callTimeout is %s, %v", got.CallTimeout, err)
	}
}

func TestEverythingOfAnAgentToolsetReachesItsSession(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, keySecret())
	_, got, err := r.Toolset(t.Context(), &v1alpha1.AgentToolset{ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: "ops"}, Spec: v1alpha1.AgentToolsetSpec{
		URL: "https://tools.example.com/mcp", Transport: v1alpha1.TransportSSE, Allow: []string{"a*"}, Deny: []string{"ab"},
		RequireApproval: v1alpha1.ApprovalDestructive, ApprovalTools: []string{"ac"}, TrustAnnotations: new(true),
		CallTimeout: &metav1.Duration{Duration: time.Minute}, MaxResultBytes: new(int32(5000)),
		Auth:    &v1alpha1.Auth{SecretRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"}},
		Headers: []v1alpha1.HTTPHeader{{Name: "X-Plain", Value: new("plain")}},
	}})
	if err != nil || got.HTTP == nil {
		t.Fatal(err)
	}
	got.HTTP = nil
	want := mcp.Config{
		Name: "ops", Namespace: "ns", URL: "https://tools.example.com/mcp", Transport: "SSE", Allow: []string{"a*"}, Deny: []string{"ab"},
		RequireApproval: "Destructive", ApprovalTools: []string{"ac"}, TrustAnnotations: true, CallTimeout: time.Minute, MaxResultBytes: 5000,
		Headers: map[string]string{"X-Plain": "plain", "Authorization": "Bearer key"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEachProviderIsCalledInItsOwnWay(t *testing.T) {
	for provider, want := range map[v1alpha1.Provider]string{
		v1alpha1.ProviderOpenAI: "/chat/completions", v1alpha1.ProviderAnthropic: "/v1/messages", v1alpha1.ProviderGemini: ":streamGenerateContent",
	} {
		var path string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			path = req.URL.Path
			w.WriteHeader(http.StatusUnauthorized)
		}))
		t.Cleanup(server.Close)
		m, err := newProvider(provider, model.Config{Model: "m", Endpoint: server.URL, APIKey: "k", HTTP: server.Client()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Generate(t.Context(), &loop.Request{Messages: []loop.Message{loop.UserText("x")}}, func(int) {})
		if err == nil || !strings.HasSuffix(path, want) {
			t.Errorf("%s: called %q, %v", provider, path, err)
		}
	}
}

// A task keeps the model that it started with: another one would not know what this one was told.
func TestWhichModelATaskGets(t *testing.T) {
	named := func(namespace, name string) client.Object {
		m := answers("x")
		m.Namespace, m.Name, m.UID = namespace, name, types.UID(namespace+"/"+name)
		return m
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		ref     string
		started string
		want    string
	}{
		"the one that it names":       {[]client.Object{named("ns", "mine"), named("ns", "default"), named("ops", "shared"), named("ops", "forged")}, "mine", "", "ns/mine"},
		"its namespace's default":     {[]client.Object{named("ns", "default"), named("ops", "shared")}, "", "", "ns/default"},
		"the operator's":              {[]client.Object{named("ops", "shared")}, "", "", "ops/shared"},
		"none":                        {nil, "", "", ""},
		"the operator's, as it began": {[]client.Object{named("ns", "default"), named("ops", "shared")}, "", "ops/shared", "ops/shared"},
		"its own, as it began":        {[]client.Object{named("ns", "default"), named("ops", "shared")}, "", "ns/default", "ns/default"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, interceptor.Funcs{}, tc.objects...)
			r.Default = types.NamespacedName{Namespace: "ops", Name: "shared"}
			task := aTask(func(s *v1alpha1.AgentTaskSpec) {
				if tc.ref != "" {
					s.ModelRef = &v1alpha1.LocalReference{Name: tc.ref}
				}
			})
			// Whoever may write statuses must not choose a model with somebody else's key.
			task.Status.Model, task.Status.StartTime = &v1alpha1.ObjectReference{Namespace: "ops", Name: "forged"}, new(metav1.Now())
			var begun *loop.Input
			if namespace, name, ok := strings.Cut(tc.started, "/"); ok {
				begun = &loop.Input{Model: loop.ModelIdentity{Namespace: namespace, Name: name, Provider: "Scripted"}}
			}
			m, err := r.ForTask(t.Context(), task, begun)
			if wait := (*Waiting)(nil); tc.want == "" && errors.As(err, &wait) && wait.Reason == "ModelNotFound" {
				return
			}
			if err != nil || m.Key.String() != tc.want {
				t.Errorf("%+v, %v", m, err)
			}
		})
	}
}

// The provider's model and the parameters are those that a task began with; where it is served is as it is now.
func TestATaskKeepsTheModelAndParametersThatItBeganWith(t *testing.T) {
	object := answers()
	object.Spec = v1alpha1.AgentModelSpec{
		Provider: v1alpha1.ProviderOpenAI, Model: "new", Endpoint: "https://new.example.com/v1", Parameters: &v1alpha1.ModelParameters{Temperature: new("1")},
	}
	r := newRig(t, interceptor.Funcs{}, object)
	identity := func(provider string) *loop.Input {
		return &loop.Input{Model: loop.ModelIdentity{Namespace: "ns", Name: "default", Provider: provider, Model: "old", Parameters: []byte(`{"temperature":"0.5"}`)}}
	}
	m, err := r.ForTask(t.Context(), aTask(func(*v1alpha1.AgentTaskSpec) {}), identity("OpenAI"))
	if err != nil {
		t.Fatal(err)
	}
	if sp := m.Object.Spec; sp.Model != "old" || deref(sp.Parameters.Temperature) != "0.5" || sp.Endpoint != "https://new.example.com/v1" {
		t.Errorf("%+v", sp)
	}
	if got, want := m.Identity(), identity("OpenAI").Model; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := r.ForTask(t.Context(), aTask(func(*v1alpha1.AgentTaskSpec) {}), nil); err != nil {
		t.Fatal(err)
	}
	if n := len(r.shared["model-1"].clients); n != 2 {
		t.Errorf("%d clients, want one for each of the two models", n)
	}
	var w *Waiting
	if _, err := r.ForTask(t.Context(), aTask(func(*v1alpha1.AgentTaskSpec) {}), identity("Anthropic")); !errors.As(err, &w) || w.Reason != "ModelChanged" {
		t.Errorf("another provider: %v", err)
	}
}

func TestASecretThatCannotBeUsedSaysWhatToDo(t *testing.T) {
	forbidden := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no"))
	}}
	for name, tc := range map[string]struct {
		faults interceptor.Funcs
		ref    v1alpha1.SecretKeyReference
		reason string
	}{
		"not there": {interceptor.Funcs{}, v1alpha1.SecretKeyReference{Name: "other", Key: "k"}, "SecretNotFound"},
		"no key":    {interceptor.Funcs{}, v1alpha1.SecretKeyReference{Name: "s", Key: "other"}, "SecretKeyNotFound"},
		"forbidden": {forbidden, v1alpha1.SecretKeyReference{Name: "s", Key: "k"}, "SecretForbidden"},
	} {
		r := newRig(t, tc.faults, keySecret())
		_, err := r.secret(t.Context(), taskKey.Namespace, &tc.ref, "host")
		if wait := (*Waiting)(nil); !errors.As(err, &wait) || wait.Reason != tc.reason || !strings.Contains(wait.Message, tc.ref.Name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A provider that only a newer operator knows is no OpenAI.
func TestAnUnknownProviderIsRefused(t *testing.T) {
	var w *Waiting
	object := &v1alpha1.AgentModel{Spec: v1alpha1.AgentModelSpec{Provider: "Oracle", Model: "m", Endpoint: "https://models.example.com"}}
	if _, err := newRig(t, interceptor.Funcs{}).Build(t.Context(), object); !errors.As(err, &w) || w.Reason != "ModelInvalid" || !strings.Contains(w.Message, `provider "Oracle"`) {
		t.Errorf("%v", err)
	}
}
