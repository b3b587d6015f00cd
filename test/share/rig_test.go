//go:build share

// Package share shows from outside that no task, tenant, schema or server stops the others, and that no limit has a hole. The
// operator is a process of its own, with the memory that the chart gives it.
package share

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
	"github.com/agentloop-dev/agenttask-operator/test/harness"
)

const namespace = "default"

// rig is a control plane with a view of all tasks.
type rig struct {
	*testing.T
	cluster *harness.Cluster
	view    *harness.View
	// ctx ends with the test, or once an operator has ended by itself or passed its limit: nothing is worth waiting for then.
	ctx   context.Context
	abort context.CancelCauseFunc
	peaks []int64 // RSS of the operators that were ended
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	r := &rig{T: t, cluster: harness.Start(t)}
	r.ctx, r.abort = context.WithCancelCause(t.Context())
	memory, err := harness.InstalledMemory()
	r.must(err)
	r.cluster.Memory = memory
	r.view = r.cluster.View(t)
	t.Cleanup(r.weigh)
	return r
}

// on is the same rig for a subtest.
func (r *rig) on(t *testing.T) *rig {
	sub := *r
	sub.T = t
	return &sub
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

type answer func(*fakechat.Request) fakechat.Reply

// model makes an AgentModel, and the server that it is at.
func (r *rig) model(ns, name string, answer answer, edit ...func(*v1alpha1.AgentModelSpec)) *fakechat.Server {
	r.Helper()
	chat := fakechat.New(answer)
	server := httptest.NewServer(chat)
	r.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	m := &v1alpha1.AgentModel{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns},
		Spec:       v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, Model: "fake", Endpoint: server.URL + "/v1"},
	}
	for _, e := range edit {
		e(&m.Spec)
	}
	r.must(r.cluster.Client.Create(r.ctx, m))
	return chat
}

// task is one whose prompt is its name, by which the servers know it.
func task(name string, edit ...func(*v1alpha1.AgentTask)) *v1alpha1.AgentTask {
	t := &v1alpha1.AgentTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: v1alpha1.AgentTaskSpec{Prompt: name},
	}
	for _, e := range edit {
		e(t)
	}
	return t
}

// tasks are n tasks named by prefix and number.
func tasks(prefix string, n int, edit ...func(*v1alpha1.AgentTask)) (out []client.Object) {
	for i := range n {
		out = append(out, task(numbered(prefix, i), edit...))
	}
	return out
}

func numbered(prefix string, i int) string { return fmt.Sprintf("%s-%04d", prefix, i) }

func of(model string) func(*v1alpha1.AgentTask) {
	return func(t *v1alpha1.AgentTask) { t.Spec.ModelRef = &v1alpha1.LocalReference{Name: model} }
}

func in(ns string) func(*v1alpha1.AgentTask) {
	return func(t *v1alpha1.AgentTask) { t.Namespace = ns }
}

func turns(most int32) func(*v1alpha1.AgentTask) {
	return func(t *v1alpha1.AgentTask) { t.Spec.MaxIterations = &most }
}

func suspended(t *v1alpha1.AgentTask) { t.Spec.Suspend = new(true) }

func lasting(most time.Duration) func(*v1alpha1.AgentTask) {
	return func(t *v1alpha1.AgentTask) { t.Spec.MaxDuration = &metav1.Duration{Duration: most} }
}

func (r *rig) create(objects ...client.Object) {
	r.Helper()
	r.must(r.cluster.Create(r.ctx, objects...))
}

// patch merges into a task's spec.
func (r *rig) patch(name, spec string) {
	r.Helper()
	r.must(r.cluster.Client.Patch(r.ctx, task(name), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":%s}`, spec))))
}

func (r *rig) get(name string) *v1alpha1.AgentTask {
	r.Helper()
	t := task(name)
	r.must(r.cluster.Client.Get(r.ctx, client.ObjectKeyFromObject(t), t))
	return t
}

// events are a task's journal.
func (r *rig) events(name string) []loop.Event {
	r.Helper()
	_, events, err := transcript.Load(r.ctx, transcript.NewKubernetes(r.cluster.Client), transcript.RefOf(r.get(name)))
	r.must(err)
	return events
}

type (
	sight = harness.Sight
	match func(sight) bool
)

func is(name string, p v1alpha1.AgentTaskPhase) match {
	return func(t sight) bool { return t.Name == name && t.In(p) }
}

func are(prefix string, p v1alpha1.AgentTaskPhase) match {
	return func(t sight) bool { return strings.HasPrefix(t.Name, prefix+"-") && t.In(p) }
}

func over(prefix string) match {
	return func(t sight) bool { return strings.HasPrefix(t.Name, prefix) && t.Finished() }
}

func (r *rig) within(most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(r.ctx, most, fmt.Errorf("not within %s", most))
}

// see waits until n tasks have matched, and tells when the last of them did.
func (r *rig) see(within time.Duration, n int, match match) (time.Time, error) {
	ctx, cancel := r.within(within)
	defer cancel()
	return r.view.Await(ctx, n, match)
}

// await is see for what nothing goes on without.
func (r *rig) await(what string, within time.Duration, n int, match match) time.Time {
	r.Helper()
	at, err := r.see(within, n, match)
	if err != nil {
		r.Fatalf("%s: %v\n%s", what, err, r.cluster.Logs(5))
	}
	return at
}

// until waits until something outside the API is so.
func (r *rig) until(what string, within time.Duration, so func() bool) {
	r.Helper()
	err := wait.PollUntilContextTimeout(r.ctx, 5*time.Millisecond, within, true, func(context.Context) (bool, error) { return so(), nil })
	if err != nil {
		r.Fatalf("%s: %v\n%s", what, errors.Join(err, context.Cause(r.ctx)), r.cluster.Logs(5))
	}
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
