// Package controller turns AgentTasks into runs of the agent loop, and what became of them into status.
package controller

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/resolve"
	"github.com/agentloop-dev/agenttask-operator/internal/telemetry"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// Options are what an installation sets.
type Options struct {
	// Holder names this process in the journals; two processes must never share one.
	Holder string
	// MaxConcurrentTurns bounds the turns whose calls run at once, over all tasks. Namespaces share them equally, and a quarter more
	// is kept for those that have less than their share (package fairshare).
	MaxConcurrentTurns int
	// MaxCallTimeout bounds the timeouts that AgentModels and AgentToolsets may set; 0 means an hour.
	MaxCallTimeout time.Duration
	// StatusInterval is the shortest time between two status writes of one task, unless its phase, exit reason or question changes.
	StatusInterval time.Duration
	// MaxTurnAttempts is how often a turn may end in a crash of the operator before its task is given up, if it was alone the last time.
	MaxTurnAttempts int
	// ShutdownGrace is how long running calls may go on once the operator is asked to stop.
	ShutdownGrace time.Duration
	// MaxJournalBytes is the size, before compression, at which a task's journal ends it; 0 for no bound.
	MaxJournalBytes int64
	// Memory is what the process may take, in bytes; 0 means 2 GiB. Half of it is for calls with long conversations.
	Memory int64
	// DefaultModel serves tasks without modelRef in namespaces without an AgentModel named default. Empty for none.
	DefaultModel types.NamespacedName
	// Guard decides which addresses may be dialled.
	Guard *egress.Guard
	// SecretPolicy says which Secrets may be read; empty means any.
	SecretPolicy resolve.SecretPolicy
	// AllowPlaintextCredentials lets what is from a Secret be sent to public addresses by http.
	AllowPlaintextCredentials bool
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
	Models   *resolve.Models

	sessions sessions
	rivals   rivals
	statuses *statuses
	// slots are for calls, loads for the reading of journals. Whoever finds none is woken.
	slots, loads *callSlots
	// room is the memory for calls with long conversations, suspects admits turns that ended in crashes.
	room     *fairshare.Room[types.NamespacedName]
	suspects *suspects
	queue    atomic.Pointer[taskQueue]
}

type callSlots = fairshare.Slots[types.NamespacedName]

// NewTaskReconciler makes a reconciler of clients, which SetupWithManager registers.
func NewTaskReconciler(o Options, c client.Client, live client.Reader, recorder events.EventRecorder) *TaskReconciler {
	if o.Clock == nil {
		o.Clock = loop.ClockFunc(time.Now)
	}
	if o.Tools == nil {
		o.Tools = NewToolPool(o.Memory)
	}
	r := &TaskReconciler{
		Options: o, Client: c, Live: live, Recorder: recorder,
		Journals: transcript.NewKubernetes(liveClient{c, live}),
	}
	r.Models = resolve.New(resolve.Options{
		Cached: c, Live: live, Guard: o.Guard, Default: o.DefaultModel, Clock: o.Clock, OnTurn: r.wakeNamed, Tracer: o.Tracer, Tools: o.Tools,
		MaxCallTimeout: o.MaxCallTimeout, Replies: fairshare.NewBytes(r.memory() / 32),
		SecretPolicy: o.SecretPolicy, AllowPlaintextCredentials: o.AllowPlaintextCredentials,
	})
	r.slots = fairshare.New(o.MaxConcurrentTurns, r.wake)
	r.loads = fairshare.New(loadsAtOnce, r.wake)
	r.room = fairshare.NewRoom(r.memory()/2, r.wake)
	r.suspects = &suspects{clock: o.Clock, wake: r.wake, underWay: r.underWay}
	r.statuses = newStatuses(r)
	return r
}

func (o *Options) memory() int64 { return cmp.Or(o.Memory, defaultMemory) }

const defaultMemory = 2 << 30

// NewToolPool makes the pool of a process that may take so much memory, in bytes; 0 means 2 GiB. An eighth of it is for lists of tools.
func NewToolPool(memory int64) *mcp.Pool {
	return mcp.NewPool(mcp.WithListRoom(fairshare.NewBytes(cmp.Or(memory, defaultMemory) / 8)))
}

// SetupWithManager registers the controllers of all kinds.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	_, err := Setup(mgr, o)
	return err
}

// Setup is SetupWithManager. It also gives the reconciler of tasks.
func Setup(mgr ctrl.Manager, o Options) (*TaskReconciler, error) {
	r := NewTaskReconciler(o, mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("agenttask-operator"))
	for _, runnable := range []manager.Runnable{r.statuses, manager.RunnableFunc(r.letGoAll)} {
		if err := mgr.Add(runnable); err != nil {
			return nil, err
		}
	}
	if err := r.setup(mgr); err != nil {
		return nil, err
	}
	if err := setupModelController(mgr, r.Models, r.slots); err != nil {
		return nil, err
	}
	return r, setupToolsetController(mgr, r.Models, r.Tools)
}

func (r *TaskReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("agenttask").
		Watches(&v1alpha1.AgentTask{}, r.taskEvents()).
		Watches(&v1alpha1.AgentModel{}, handler.EnqueueRequestsFromMapFunc(r.waitingTasks)).
		Watches(&v1alpha1.AgentToolset{}, handler.EnqueueRequestsFromMapFunc(r.waitingTasks)).
		WatchesRawSource(source.Func(func(_ context.Context, q taskQueue) error {
			r.queue.Store(&q)
			return nil
		})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.workers(),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, 15*time.Second),
		}).
		Complete(r)
}

// workers is how many Reconciles may run at once: one for every call that can run, and some that never make a call, for what
// needs none and for turns that are being written.
func (r *TaskReconciler) workers() int {
	return r.slots.Limit() + max(16, r.MaxConcurrentTurns/4)
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
