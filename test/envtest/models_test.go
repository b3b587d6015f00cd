package envtest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

func TestATaskThatWaitsForASlotSaysSoAndIsWokenWhenOneIsFree(t *testing.T) {
	f := newFixture(t)
	g := newGate()
	server := httptest.NewServer(fakechat.New(func(*fakechat.Request) fakechat.Reply { return g.pass(done) }))
	t.Cleanup(server.Close)
	f.model("default", v1alpha1.AgentModelSpec{
		Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: server.URL,
		Limits: &v1alpha1.ModelLimits{MaxConcurrent: new(int32(1))},
	})
	f.task("first")
	<-g.came
	f.task("second")
	task := f.await("second", "waiting for a slot", func(task *v1alpha1.AgentTask) bool {
		c := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionReconciling)
		return c != nil && c.Reason == "WaitingForModel"
	})
	if *task.Status.Iterations != 0 {
		t.Errorf("waiting counted as %d iterations", *task.Status.Iterations)
	}
	close(g.open)
	f.awaitExit("first", v1alpha1.ExitCompleted)
	if task = f.awaitExit("second", v1alpha1.ExitCompleted); *task.Status.Iterations != 1 {
		t.Errorf("%d iterations, want 1", *task.Status.Iterations)
	}
}

func TestARotatedKeyServesTheNextCall(t *testing.T) {
	f := newFixture(t)
	keys := make(chan string, 10)
	chat := fakechat.New(func(r *fakechat.Request) fakechat.Reply {
		if r.Replies() == 0 {
			return fakechat.Reply{Text: "NEED_INPUT: rotated?", In: 10, Out: 5}
		}
		return done
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("Authorization")
		chat.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	secret := &corev1.Secret{ObjectMeta: f.meta("key"), StringData: map[string]string{"k": "old"}}
	f.must(kube.Create(f.ctx, secret))
	f.model("default", v1alpha1.AgentModelSpec{
		Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: server.URL,
		Auth: &v1alpha1.Auth{SecretRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "k"}},
	})
	f.task("rotates")
	f.awaitPhase("rotates", v1alpha1.PhaseNeedsInput)
	secret.StringData = map[string]string{"k": "new"}
	f.must(kube.Update(f.ctx, secret))
	f.patch("rotates", `{"spec":{"resumeInput":"yes"}}`)
	f.awaitExit("rotates", v1alpha1.ExitCompleted)
	if first, second := <-keys, <-keys; first != "Bearer old" || second != "Bearer new" {
		t.Errorf("the calls had %q and %q", first, second)
	}
}

func TestAModelSaysWhyItCannotBeCalled(t *testing.T) {
	f := newFixture(t)
	f.model("keyless", v1alpha1.AgentModelSpec{
		Provider: v1alpha1.ProviderOpenAI, Model: "m", Auth: &v1alpha1.Auth{SecretRef: &v1alpha1.SecretKeyReference{Name: "none", Key: "k"}},
	})
	f.model("inside", v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: "http://169.254.169.254/"})
	f.scripted("TASK_COMPLETE: x")
	for name, want := range map[string]string{"keyless": "SecretNotFound", "inside": "EndpointRefused", "default": "Resolved"} {
		f.awaitModel(name, want)
	}
}

func (f *fixture) awaitModel(name, reason string) {
	f.Helper()
	f.poll(name+" to be "+reason, func(ctx context.Context) (bool, error) {
		m := &v1alpha1.AgentModel{ObjectMeta: f.meta(name)}
		err := kube.Get(ctx, client.ObjectKeyFromObject(m), m)
		c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Reason == reason, err
	})
}

func TestAModelIsReadyAsItsServerAnswersCalls(t *testing.T) {
	f := newFixture(t)
	answer := make(chan fakechat.Reply, 1)
	server := httptest.NewServer(fakechat.New(func(*fakechat.Request) fakechat.Reply { return <-answer }))
	t.Cleanup(server.Close)
	f.model("default", v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: server.URL})
	f.awaitModel("default", "Resolved")
	for i, tc := range []struct {
		status int
		exit   v1alpha1.LoopExitReason
		reason string
	}{
		{http.StatusUnauthorized, v1alpha1.ExitError, "ModelAuthenticationFailed"},
		{0, v1alpha1.ExitCompleted, "Answered"},
		{http.StatusNotFound, v1alpha1.ExitError, "ModelNotFound"},
		{0, v1alpha1.ExitCompleted, "Answered"},
	} {
		reply := done
		reply.Status = tc.status
		answer <- reply
		name := fmt.Sprintf("task-%d", i)
		f.task(name)
		f.awaitExit(name, tc.exit)
		f.awaitModel("default", tc.reason)
	}
}

func TestCostIsAnExactDecimalOfWhatEachModelTook(t *testing.T) {
	f := newFixture(t)
	server := httptest.NewServer(fakechat.New(func(r *fakechat.Request) fakechat.Reply {
		if r.Model == "judge" {
			return fakechat.Reply{Text: `{"answered": true, "reasoning": "it is"}`, In: 1_000_000, Out: 1}
		}
		return fakechat.Reply{Text: "TASK_COMPLETE: x", In: 1_234_567, Out: 89_000}
	}))
	t.Cleanup(server.Close)
	for name, pricing := range map[string]*v1alpha1.Pricing{
		"default": {InputPerMillion: "0.15", OutputPerMillion: "0.60"}, "judge": {InputPerMillion: "2", OutputPerMillion: "3"}, // in dollars
	} {
		f.model(name, v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, Model: name, Endpoint: server.URL, Pricing: pricing})
	}
	f.task("priced")
	if got := f.awaitExit("priced", v1alpha1.ExitCompleted).Status.Usage.Cost; got != "0.23858505" {
		t.Errorf("cost %q, want 1.234567 * 0.15 + 0.089 * 0.60 = 0.23858505", got)
	}
	f.task("judged", func(s *v1alpha1.AgentTaskSpec) {
		s.Completion = &v1alpha1.Completion{Strategy: v1alpha1.CompletionSignalThenJudge, Judge: &v1alpha1.Judge{ModelRef: &v1alpha1.LocalReference{Name: "judge"}}}
	})
	if got := f.awaitExit("judged", v1alpha1.ExitCompleted).Status.Usage; got.Cost != "2.23858805" || got.Currency != "USD" {
		t.Errorf("cost %q %s, want as much and 1 * 2 + 0.000001 * 3 = 2.23858805 USD", got.Cost, got.Currency)
	}
}
