// Package controller turns AgentTasks into runs of the agent loop, and what became of them into status.
package controller

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/telemetry"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// Options are what an installation sets.
type Options struct {
	// Holder names this process in the journals; two processes must never share one.
	Holder string
	// MaxConcurrentTurns bounds the turns that run at once, over all tasks.
	MaxConcurrentTurns int
	// StatusInterval is the shortest time between two status writes of one task, unless its phase, exit reason or question changes.
	StatusInterval time.Duration
	// MaxTurnAttempts is how often a turn may end in a crash of the operator before its task is given up.
	MaxTurnAttempts int
	// ShutdownGrace is how long running calls may go on once the operator is asked to stop.
	ShutdownGrace time.Duration
	// DefaultModel serves tasks without modelRef in namespaces without an AgentModel named default. Empty for none.
	DefaultModel types.NamespacedName
	// MaxCallTimeout is the longest that an AgentModel or AgentToolset may let one call take; 0 means DefaultMaxCallTimeout.
	MaxCallTimeout time.Duration
	// Guard decides which addresses may be dialled.
	Guard *egress.Guard
	// Clock tells the time.
	Clock loop.Clock
	// Tools holds the sessions with tool servers. Whoever gives it shuts it down, after the manager has stopped: calls that are
	// let finish still need it. Nil makes one that is never shut down.
	Tools *mcp.Pool
	// Metrics counts what tasks do; nil for nothing.
	Metrics *telemetry.Metrics
	// Tracer makes spans of what tasks do; nil for none.
	Tracer *telemetry.Tracer
	// Backoff is how long to wait after the nth failure of a model call; nil means the loop's own.
	Backoff func(n int) time.Duration
}

// TaskReconciler runs AgentTasks, one turn a Reconcile.
type TaskReconciler struct {
	Options
	// Client reads from the cache and writes; Live reads from the API server.
	Client   client.Client
	Live     client.Reader
	Recorder events.EventRecorder
	Journals transcript.Store
	Models   *Models

	sessions sessions
	progress *pace
	slots    slots
	woken    chan event.GenericEvent
}

// resumedPriority puts a task whose human has answered before those that run on by themselves.
const resumedPriority = 100

// SetupWithManager registers the controllers of all kinds.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = loop.ClockFunc(time.Now)
	}
	if o.Tools == nil {
		o.Tools = mcp.NewPool()
	}
	models := NewModels(mgr.GetClient(), mgr.GetAPIReader(), o.Guard, o.DefaultModel, o.Clock)
	models.tracer, models.MaxCallTimeout = o.Tracer, o.MaxCallTimeout
	r := &TaskReconciler{
		Options: o, Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Recorder: mgr.GetEventRecorder("agenttask-operator"),
		Journals: transcript.NewKubernetes(liveClient{mgr.GetClient(), mgr.GetAPIReader()}),
		Models:   models,
		progress: newPace(o.Clock),
		slots:    make(slots, o.MaxConcurrentTurns),
		woken:    make(chan event.GenericEvent, 1024),
	}
	models.wake = r.wake
	if err := r.setup(mgr); err != nil {
		return err
	}
	if err := setupModelController(mgr, models); err != nil {
		return err
	}
	return setupToolsetController(mgr, models, r.Tools)
}

func (r *TaskReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("agenttask").
		Watches(&v1alpha1.AgentTask{}, r.taskEvents()).
		Watches(&v1alpha1.AgentModel{}, handler.EnqueueRequestsFromMapFunc(r.waitingTasks)).
		Watches(&v1alpha1.AgentToolset{}, handler.EnqueueRequestsFromMapFunc(r.waitingTasks)).
		WatchesRawSource(source.Channel(r.woken, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.slots.workers(),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, 15*time.Second),
		}).
		Complete(r)
}

// wake enqueues a task that waited for a model's slot. A wake that finds no room is made up for by the wait's own end.
func (r *TaskReconciler) wake(key types.NamespacedName) {
	task := &v1alpha1.AgentTask{}
	task.Namespace, task.Name = key.Namespace, key.Name
	select {
	case r.woken <- event.GenericEvent{Object: task}:
	default:
	}
}

type taskQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// taskEvents enqueues tasks whose spec changed, and interrupts their running call where the change asks for it: a key is
// never reconciled twice at once, so a Reconcile that is busy with a call cannot see the change by itself.
func (r *TaskReconciler) taskEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q taskQueue) {
			priority := 0
			// What has ended can wait. What has not waits no less than the next turns of others, or it would wait for all of them.
			if t, ok := e.Object.(*v1alpha1.AgentTask); ok && t.Finished() {
				priority = handler.LowPriority
			}
			add(q, e.Object, priority)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q taskQueue) {
			was, ok := e.ObjectOld.(*v1alpha1.AgentTask)
			now, ok2 := e.ObjectNew.(*v1alpha1.AgentTask)
			ended := ok && ok2 && now.Finished() && !was.Finished() // what comes after the end, such as its TTL, is due
			if !ok || !ok2 || !ended && was.UID == now.UID && was.Generation == now.Generation && now.DeletionTimestamp.IsZero() {
				return // our own status write
			}
			if cause := interruption(was, now); cause != nil {
				r.sessions.interrupt(client.ObjectKeyFromObject(now), was.UID, cause)
			}
			priority := 0
			if deref(was.Spec.ResumeInput) != deref(now.Spec.ResumeInput) || was.Spec.ResumeInputID != now.Spec.ResumeInputID {
				priority = resumedPriority
				if was.Finished() && was.UID == now.UID && deref(now.Spec.ResumeInput) != "" {
					r.ignored(now, "The task has ended, so spec.resumeInput is ignored: create the task anew.")
				}
			}
			add(q, now, priority)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q taskQueue) {
			r.sessions.interrupt(client.ObjectKeyFromObject(e.Object), e.Object.GetUID(), loop.ErrCancelled)
			add(q, e.Object, 0)
		},
	}
}

// interruption tells why a change must interrupt the running call: what ends the task, or moves its limits. Other changes
// wait for the turn's end, so that a call that is paid for is not thrown away.
func interruption(was, now *v1alpha1.AgentTask) error {
	switch {
	case was.UID != now.UID || !now.DeletionTimestamp.IsZero() || deref(now.Spec.Cancel):
		return loop.ErrCancelled
	case duration(was.Spec.MaxDuration) != duration(now.Spec.MaxDuration) || deref(was.Spec.MaxTokens) != deref(now.Spec.MaxTokens):
		return loop.ErrSpecChanged
	}
	return nil
}

func add(q taskQueue, o client.Object, priority int) {
	req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
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

// liveClient reads from the API server and writes: what a journal needs, which is never cached.
type liveClient struct {
	client.Client
	reader client.Reader
}

func (c liveClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, obj, opts...)
}

func (c liveClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, list, opts...)
}
