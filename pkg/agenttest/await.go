package agenttest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// Task is an AgentTask of a prompt alone. It uses the AgentModel named default of its namespace.
func Task(namespace, name, prompt string) *v1alpha1.AgentTask {
	return &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.AgentTaskSpec{Prompt: prompt}}
}

// Create creates objects.
func (op *Operator) Create(objects ...client.Object) {
	op.t.Helper()
	for _, o := range objects {
		if err := op.Client.Create(op.ctx, o); err != nil {
			op.t.Fatalf("creating %T %s: %v", o, client.ObjectKeyFromObject(o), err)
		}
	}
}

// Await watches a task until it is as wanted, and returns it. What says for what, should the time run out.
func (op *Operator) Await(task *v1alpha1.AgentTask, what string, ok func(*v1alpha1.AgentTask) bool) *v1alpha1.AgentTask {
	op.t.Helper()
	ctx, cancel := context.WithTimeout(op.ctx, op.patience)
	defer cancel()
	last, err := op.await(ctx, client.ObjectKeyFromObject(task), ok)
	if err != nil {
		s := &last.Status
		op.t.Fatalf("task %s/%s never was %s. It is %s %s: %s (%v)", task.Namespace, task.Name, what, s.Phase, s.ExitReason, s.Message, err)
	}
	return last
}

func (op *Operator) await(ctx context.Context, key client.ObjectKey, ok func(*v1alpha1.AgentTask) bool) (*v1alpha1.AgentTask, error) {
	last, list := &v1alpha1.AgentTask{}, &v1alpha1.AgentTaskList{}
	if err := op.Client.List(ctx, list, client.InNamespace(key.Namespace)); err != nil {
		return last, err
	}
	w, err := op.Client.Watch(ctx, &v1alpha1.AgentTaskList{}, client.InNamespace(key.Namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return last, err
	}
	defer w.Stop()
	for i := range list.Items {
		if t := &list.Items[i]; t.Name == key.Name {
			last = t
		}
	}
	for last.Name == "" || !ok(last) {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				return last, fmt.Errorf("the watch ended")
			}
			if t, is := e.Object.(*v1alpha1.AgentTask); is && t.Name == key.Name {
				last = t
			}
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
	return last, nil
}

// AwaitEnd waits until a task has ended, however it did.
func (op *Operator) AwaitEnd(task *v1alpha1.AgentTask) *v1alpha1.AgentTask {
	op.t.Helper()
	return op.Await(task, "finished", (*v1alpha1.AgentTask).Finished)
}

// AwaitQuestion waits until a task asks a human something that the given version of it has not asked yet.
func (op *Operator) AwaitQuestion(task *v1alpha1.AgentTask) *v1alpha1.AgentTask {
	op.t.Helper()
	before := ""
	if q := task.Status.InputRequest; q != nil {
		before = q.ID
	}
	return op.Await(task, "asking", func(t *v1alpha1.AgentTask) bool {
		q := t.Status.InputRequest
		return q != nil && q.ID != before || t.Finished()
	})
}

// Answer answers the question that the given version of a task asks. To an approval it says approve, or deny with a colon and a reason.
func (op *Operator) Answer(task *v1alpha1.AgentTask, text string) {
	op.t.Helper()
	q := task.Status.InputRequest
	if q == nil {
		op.t.Fatalf("task %s/%s asks nothing; it is %s %s: %s", task.Namespace, task.Name, task.Status.Phase, task.Status.ExitReason, task.Status.Message)
	}
	base := task.DeepCopy()
	answered := task.DeepCopy()
	answered.Spec.ResumeInput, answered.Spec.ResumeInputID = &text, q.ID
	if err := op.Client.Patch(op.ctx, answered, client.MergeFrom(base), client.FieldOwner("agenttask-answer")); err != nil {
		op.t.Fatal(err)
	}
}

// The journal of a task, as Go structs. docs/transcript.md describes each kind.
type (
	// Event is one entry. Exactly one payload is set, that of its Kind.
	Event = loop.Event
	// EventKind names what happened.
	EventKind = loop.EventKind
)

// Journal is what has happened in a task so far, from its start.
func (op *Operator) Journal(task *v1alpha1.AgentTask) []Event {
	op.t.Helper()
	_, events, err := transcript.Load(op.ctx, transcript.NewKubernetes(op.Client), transcript.RefOf(task))
	if err != nil {
		op.t.Fatal(err)
	}
	return events
}

// Namespace is a namespace.
func Namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
