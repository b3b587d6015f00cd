package controller

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

type taskQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Priorities in the queue. What a user did goes before the next turns of tasks that run by themselves, and a slot that is held for a
// task is not left idle.
const (
	wokenPriority = 50
	userPriority  = 100
)

// wake enqueues a task for which a slot is held.
func (r *TaskReconciler) wake(key types.NamespacedName) {
	if q := r.queue.Load(); q != nil {
		enqueue(*q, key, wokenPriority)
	}
}

// WakeAll looks at every task again, such as after a clock was moved that no timer goes by.
func (r *TaskReconciler) WakeAll(ctx context.Context) error {
	list := &v1alpha1.AgentTaskList{}
	if err := r.Client.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		r.wake(keyOf(&list.Items[i]))
	}
	return nil
}

// wakeNamed is wake for a task's namespace/name.
func (r *TaskReconciler) wakeNamed(task string) {
	namespace, name, _ := strings.Cut(task, string(types.Separator))
	r.wake(types.NamespacedName{Namespace: namespace, Name: name})
}

// taskEvents enqueues tasks whose spec changed, and tells their running call of the change: a key is never reconciled twice at
// once, so a Reconcile that is busy with a call cannot see it by itself.
func (r *TaskReconciler) taskEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q taskQueue) {
			priority := 0
			// What has ended can wait. What has not waits no less than the next turns of others, or it would wait for all of them.
			if t, ok := e.Object.(*v1alpha1.AgentTask); ok && t.Finished() {
				priority = handler.LowPriority
			}
			enqueue(q, keyOf(e.Object), priority)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q taskQueue) {
			was, ok := e.ObjectOld.(*v1alpha1.AgentTask)
			now, ok2 := e.ObjectNew.(*v1alpha1.AgentTask)
			if !ok || !ok2 {
				return
			}
			if l := r.sessions.find(now); l != nil {
				l.see(now)
			}
			same := was.UID == now.UID
			ended := now.Finished() && !was.Finished() // what comes after the end, such as its TTL, is due
			if !ended && same && was.Generation == now.Generation && now.DeletionTimestamp.IsZero() {
				return // our own status write
			}
			priority := userPriority
			if ended {
				priority = 0
			}
			if same && was.Finished() && deref(now.Spec.ResumeInput) != "" &&
				(deref(was.Spec.ResumeInput) != deref(now.Spec.ResumeInput) || was.Spec.ResumeInputID != now.Spec.ResumeInputID) {
				r.ignored(now, "The task has ended, so spec.resumeInput is ignored: create the task anew.")
			}
			enqueue(q, keyOf(now), priority)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q taskQueue) {
			if l := r.sessions.find(e.Object); l != nil {
				if task, _ := l.now(); task.UID == e.Object.GetUID() {
					go r.confirmDeletion(l)
				}
			}
			enqueue(q, keyOf(e.Object), userPriority)
		},
	}
}

// confirmDeletion tells a running call of a task that is deleted. A task that no longer has the labels of --watch-label-selector
// looks the same in the watch, but belongs to another operator now, and what runs here may end.
func (r *TaskReconciler) confirmDeletion(l *live) {
	patience := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 8} // about 25 s; then the call may end by itself
	err := retry.OnError(patience, func(err error) bool { return !apierrors.IsNotFound(err) }, func() error {
		_, err := r.readLive(context.Background(), l)
		return err
	})
	if apierrors.IsNotFound(err) {
		l.end()
	}
}

func enqueue(q taskQueue, key types.NamespacedName, priority int) {
	req := reconcile.Request{NamespacedName: key}
	if pq, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		pq.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, req)
		return
	}
	q.Add(req)
}

// waitingTasks are the tasks of a namespace that wait for a model or a toolset: any of them may be what they wait for.
func (r *TaskReconciler) waitingTasks(ctx context.Context, o client.Object) []reconcile.Request {
	var tasks v1alpha1.AgentTaskList
	opts := []client.ListOption{client.UnsafeDisableDeepCopy}
	if client.ObjectKeyFromObject(o) != r.DefaultModel {
		opts = append(opts, client.InNamespace(o.GetNamespace()))
	}
	if err := r.Client.List(ctx, &tasks, opts...); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range tasks.Items {
		if t := &tasks.Items[i]; waitsForOthers(t) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(t)})
		}
	}
	return out
}
