//go:build bench

// Package bench measures the operator beside what the API server itself takes at most, in the same run.
package bench

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
	"github.com/agentloop-dev/agenttask-operator/test/harness"
)

const (
	namespace = "default"
	writers   = 64
)

// rig is a control plane, a model server with a latency, and an operator process.
type rig struct {
	*testing.T
	cluster *harness.Cluster
	view    *harness.View
	manager *harness.Manager
	latency time.Duration
	// turns of each task. It is set while no task runs.
	turns int
	// calls are the times of each task's model calls: when the request came and when the answer went.
	mu    sync.Mutex
	calls map[string][]call
}

type call struct{ came, went time.Time }

func newRig(t *testing.T, latency time.Duration) *rig {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	r := &rig{T: t, cluster: harness.Start(t), latency: latency, turns: 5, calls: map[string][]call{}}
	r.view = r.cluster.View(t)
	server := httptest.NewServer(fakechat.New(r.answer))
	t.Cleanup(server.Close)
	r.must(r.cluster.Client.Create(t.Context(), &v1alpha1.AgentModel{
		ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace},
		Spec:       v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, Model: "fake", Endpoint: server.URL + "/v1"},
	}))
	return r
}

// start starts the operator, a new process for each run so that its memory and processor time are that run's.
func (r *rig) start() {
	r.Helper()
	manager, err := r.cluster.StartManager("manager", "--shutdown-grace=1s")
	r.must(err)
	r.manager = manager
	r.Cleanup(r.stop)
}

// ready waits until the operator works.
func (r *rig) ready() {
	r.Helper()
	r.create("warmup", 1, 0)
	r.await("warmup", 1, v1alpha1.PhaseSucceeded)
}

// stop ends the operator, and deletes the tasks so that the next one does not hold them.
func (r *rig) stop() {
	if r.manager == nil {
		return
	}
	r.manager.Signal(syscall.SIGTERM)
	r.manager = nil
	if err := r.cluster.Client.DeleteAllOf(context.Background(), &v1alpha1.AgentTask{}, client.InNamespace(namespace)); err != nil {
		r.Error(err)
	}
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// answer works for some turns of about 2 KB, with a tool call each or without, or asks first: as the prompt says.
func (r *rig) answer(req *fakechat.Request) fakechat.Reply {
	task, n := req.Prompt(), req.Replies()
	came := time.Now()
	r.mu.Lock()
	r.calls[task] = append(r.calls[task], call{came: came, went: came.Add(r.latency)})
	r.mu.Unlock()
	reply := fakechat.Reply{In: 500, Out: 400, Delay: r.latency}
	switch {
	case strings.HasPrefix(task, "ask") && n == 0:
		reply.Text = "NEED_INPUT: go on?"
	case n == r.turns-1 || strings.HasPrefix(task, "ask"):
		reply.Text = "TASK_COMPLETE: done"
	default:
		reply.Text = fmt.Sprintf("Step %d. %s", n, strings.Repeat("The work goes on as planned. ", 70))
		if strings.HasPrefix(task, "tools") {
			reply.Calls = []fakechat.Call{{ID: fmt.Sprint("look-", n), Name: "bench__look", Arguments: fmt.Sprintf(`{"step":%d}`, n)}}
		}
	}
	return reply
}

// create makes tasks as fast as the API server takes them, or evenly within a time.
func (r *rig) create(prefix string, n int, within time.Duration) {
	r.Helper()
	start := time.Now()
	var wg sync.WaitGroup
	slots := make(chan struct{}, writers)
	for i := range n {
		<-time.After(time.Until(start.Add(within * time.Duration(i) / time.Duration(n))))
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			name := fmt.Sprintf("%s-%05d", prefix, i)
			spec := v1alpha1.AgentTaskSpec{Prompt: name}
			if strings.HasPrefix(name, "tools") {
				spec.Toolsets = []v1alpha1.ToolsetReference{{Name: "bench"}}
			}
			err := r.cluster.Client.Create(r.Context(), &v1alpha1.AgentTask{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: map[string]string{"created": time.Now().Format(time.RFC3339Nano)}},
				Spec:       spec,
			})
			if err != nil {
				r.Error(err)
			}
		})
	}
	wg.Wait()
}

// await waits until n tasks of a prefix are in a phase, and returns when that was.
func (r *rig) await(prefix string, n int, p v1alpha1.AgentTaskPhase) time.Time {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 15*time.Minute)
	defer cancel()
	at, err := r.view.Await(ctx, n, func(t harness.Sight) bool { return strings.HasPrefix(t.Name, prefix+"-") && t.In(p) })
	if err != nil {
		r.Fatalf("%s: %v\n%s", p, err, r.cluster.Logs(30))
	}
	return at
}

func (r *rig) writes() map[string]int {
	r.Helper()
	w, err := harness.APIWrites(r.Context(), r.cluster.Env.Config, v1alpha1.GroupVersion.Group)
	r.must(err)
	return w
}

func total(w map[string]int) (n int) {
	for _, c := range w {
		n += c
	}
	return n
}

func since(after, before map[string]int) map[string]int {
	out := map[string]int{}
	for k, v := range after {
		if d := v - before[k]; d > 0 {
			out[k] = d
		}
	}
	return out
}

// overheads are the times between the end of an answer and the next request of the same task.
func (r *rig) overheads(prefix string) (out []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for task, calls := range r.calls {
		if !strings.HasPrefix(task, prefix+"-") {
			continue
		}
		for i := 1; i < len(calls); i++ {
			out = append(out, calls[i].came.Sub(calls[i-1].went))
		}
	}
	return out
}

// firstCall is when the first task of a prefix called the model.
func (r *rig) firstCall(prefix string) (first time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for task, calls := range r.calls {
		if strings.HasPrefix(task, prefix+"-") && (first.IsZero() || calls[0].came.Before(first)) {
			first = calls[0].came
		}
	}
	return first
}

// firstRequests are the times from the creation of each task to its first model request.
func (r *rig) firstRequests(prefix string) (out []time.Duration) {
	r.Helper()
	var list v1alpha1.AgentTaskList
	r.must(r.cluster.Client.List(r.Context(), &list, client.InNamespace(namespace)))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list.Items {
		t := &list.Items[i]
		created, err := time.Parse(time.RFC3339Nano, t.Annotations["created"])
		if calls := r.calls[t.Name]; err == nil && strings.HasPrefix(t.Name, prefix+"-") && len(calls) > 0 {
			out = append(out, calls[0].came.Sub(created))
		}
	}
	return out
}
