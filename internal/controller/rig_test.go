package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientevents "k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// rig is a reconciler with a clock that the test drives, on a client that keeps objects in memory.
type rig struct {
	*testing.T
	*TaskReconciler
	clock  *looptest.Clock
	events *clientevents.FakeRecorder
	kube   client.WithWatch
}

var taskKey = types.NamespacedName{Namespace: "ns", Name: "task"}

// newRig makes a rig whose calls to the API server pass the given functions.
func newRig(t *testing.T, faults interceptor.Funcs, objects ...client.Object) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.AgentTask{}).WithObjects(objects...).Build()
	faulty := interceptor.NewClient(kube, faults)
	clock, recorder := looptest.NewClock(), clientevents.NewFakeRecorder(100)
	pool := mcp.NewPool()
	t.Cleanup(func() { _ = pool.Shutdown(context.Background()) })
	r := NewTaskReconciler(Options{
		Holder: "rig", MaxConcurrentTurns: 4, MaxTurnAttempts: 3, StatusInterval: time.Second, Clock: clock, Tools: pool, Guard: &egress.Guard{},
	}, faulty, faulty, recorder)
	return &rig{T: t, TaskReconciler: r, clock: clock, events: recorder, kube: kube}
}

// aTask is the task of a rig.
func aTask(change func(*v1alpha1.AgentTaskSpec)) *v1alpha1.AgentTask {
	task := &v1alpha1.AgentTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: taskKey.Name, UID: "task-1", Generation: 1},
		Spec:       v1alpha1.AgentTaskSpec{Prompt: "Do it."},
	}
	change(&task.Spec)
	return task
}

// answers is the AgentModel that a task without modelRef uses.
func answers(texts ...string) *v1alpha1.AgentModel {
	m := &v1alpha1.AgentModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: "default", UID: "model-1", Generation: 1},
		Spec:       v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderScripted, Scripted: &v1alpha1.Script{}},
	}
	for _, text := range texts {
		m.Spec.Scripted.Replies = append(m.Spec.Scripted.Replies, v1alpha1.ScriptedReply{Text: &text})
	}
	return m
}

// reconcile looks at the task once. The status that could wait is written, too.
func (r *rig) reconcile() (reconcile.Result, error) {
	result, err := r.Reconcile(r.Context(), reconcile.Request{NamespacedName: taskKey})
	return result, errors.Join(err, r.statuses.writePending(r.Context(), taskKey))
}

// restart makes the rig another process.
func (r *rig) restart() {
	o := r.Options
	o.Holder += "'"
	r.TaskReconciler = NewTaskReconciler(o, r.Client, r.Live, r.Recorder)
}

// look looks at the task some times, and returns it.
func (r *rig) look(times int) *v1alpha1.AgentTask {
	r.Helper()
	for range times {
		if _, err := r.reconcile(); err != nil {
			r.Fatal(err)
		}
	}
	return r.task()
}

func (r *rig) task() *v1alpha1.AgentTask {
	r.Helper()
	task := &v1alpha1.AgentTask{}
	if err := r.kube.Get(r.Context(), taskKey, task); err != nil {
		r.Fatal(err)
	}
	return task
}

// session is the task's, with no Reconcile of it under way.
func (r *rig) session() *session {
	s := r.sessions.of(r.task())
	r.sessions.rest(s, false)
	return s
}

// edit changes the task's spec, as a user does.
func (r *rig) edit(change func(*v1alpha1.AgentTaskSpec)) {
	r.Helper()
	task := r.task()
	change(&task.Spec)
	task.Generation++
	if err := r.kube.Update(r.Context(), task); err != nil {
		r.Fatal(err)
	}
}

// write makes the task's journal, a second an event, which ends now.
func (r *rig) write(events ...loop.Event) {
	r.Helper()
	for i := range events {
		events[i].Version, events[i].Seq, events[i].Time = loop.EventVersion, int64(i+1), r.clock.Now().Add(time.Duration(i-len(events))*time.Second)
	}
	journal, _, err := transcript.Load(r.Context(), r.Journals, refOf(r.task()))
	if err == nil {
		err = journal.Append(r.Context(), 0, events)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// kinds are the kinds of the events in the journal.
func (r *rig) kinds() (out []loop.EventKind) {
	r.Helper()
	_, events, err := transcript.Load(r.Context(), r.Journals, transcript.RefOf(r.task()))
	if err != nil {
		r.Fatal(err)
	}
	for i := range events {
		out = append(out, events[i].Kind)
	}
	return out
}

func request() reconcile.Request { return reconcile.Request{NamespacedName: taskKey} }

func refOf(task *v1alpha1.AgentTask) transcript.TaskRef { return transcript.RefOf(task) }

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}
