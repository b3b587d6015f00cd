package controller

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// served is the AgentModel that a task without modelRef uses, with a server of its own.
func served(url string) *v1alpha1.AgentModel {
	return &v1alpha1.AgentModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: "default", UID: "model-1", Generation: 1},
		Spec:       v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: url},
	}
}

func TestATaskOfTwentyTurnsOutlivesAnOutage(t *testing.T) {
	const turns, outage = 20, 90 * time.Second
	asked := map[int]int{}
	chat := fakechat.New(func(r *fakechat.Request) fakechat.Reply {
		n := r.Replies() + 1
		asked[n]++
		text, err := json.Marshal(n)
		if err != nil || n == turns {
			return fakechat.Reply{Text: "TASK_COMPLETE: ok", In: 100, Out: 10}
		}
		return fakechat.Reply{Text: "Step " + string(text), In: 100, Out: 10}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve := func(l net.Listener) *httptest.Server {
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: chat, ReadHeaderTimeout: time.Minute}}
		s.Start()
		return s
	}
	server := serve(listener)
	r := newRig(t, interceptor.Funcs{}, served(server.URL), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	var downSince time.Time
	for range 200 {
		task := r.task()
		if task.Finished() {
			break
		}
		if n := task.Status.Iterations; downSince.IsZero() && n != nil && *n == 10 {
			server.Close()
			downSince = r.clock.Now()
		}
		if server != nil && !downSince.IsZero() && r.clock.Now().Sub(downSince) >= outage && len(asked) == 10 {
			if listener, err = net.Listen("tcp", listener.Addr().String()); err != nil {
				t.Fatal(err)
			}
			server = serve(listener)
		}
		result, err := r.reconcile()
		if err != nil {
			t.Fatal(err)
		}
		r.clock.Add(result.RequeueAfter)
	}
	server.Close()
	status := r.task().Status
	if status.ExitReason != v1alpha1.ExitCompleted || *status.Iterations != turns {
		t.Fatalf("%s after %d turns: %s", status.ExitReason, *status.Iterations, status.Message)
	}
	for n, times := range asked {
		if times != 1 {
			t.Errorf("turn %d was paid for %d times", n, times)
		}
	}
	if u := status.Usage; *u.TotalTokens != turns*110 || u.Estimated != nil {
		t.Errorf("%d tokens, want %d, none by estimate", *u.TotalTokens, turns*110)
	}
	if active := *status.ActiveSeconds; active < int64(outage/time.Second) || active > 180 {
		t.Errorf("%d s of running time, want the outage and at most the backoff after it", active)
	}
}
