package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

const (
	// firstPause is how long a first status, or that a call runs, may wait: what ends sooner needs no such write.
	firstPause = 100 * time.Millisecond
	// slotPause is after how long it is told that a task under way waits for a slot. At saturation each turn waits a little.
	slotPause = 5 * time.Second
	// pacePause is when a write that had to give way to journals is tried again.
	pacePause = 100 * time.Millisecond
	// statusWriters is how many of the statuses that can wait are written at once.
	statusWriters = 4
)

// statuses writes the statuses of tasks. What a user acts on is written at once (now). What only tells of progress waits, so
// that a newer one takes its place, and gives way to journals (later).
type statuses struct {
	*TaskReconciler
	pace  *pace
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu      sync.Mutex
	pending map[types.NamespacedName]wanted
}

// wanted is a status that is to be written, unless a newer one of its task was wanted since.
type wanted struct {
	live   *live
	number int64
	status v1alpha1.AgentTaskStatus
	// noted is the spec.resumeInput that the journal has noted: a question is told beside no other.
	noted string
	// over: a status of before is being written just now.
	over bool
}

func newStatuses(r *TaskReconciler) *statuses {
	return &statuses{
		TaskReconciler: r, pace: newPace(r.Clock), pending: map[types.NamespacedName]wanted{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](pacePause, 15*time.Second)),
	}
}

// Start implements manager.Runnable: it writes what can wait until ctx ends, and then what still waits.
func (w *statuses) Start(ctx context.Context) error {
	var group sync.WaitGroup
	for range statusWriters {
		group.Go(func() {
			for w.writeNext(ctx) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	group.Wait()
	w.mu.Lock()
	left := slices.Collect(maps.Keys(w.pending))
	w.mu.Unlock()
	for end := time.Now().Add(AppendTimeout); len(left) > 0 && time.Now().Before(end); left = left[1:] {
		if err := w.writePending(ctx, left[0]); err != nil {
			return nil //nolint:nilerr // an API server that is away must not hold up the end; the next operator writes it
		}
	}
	return nil
}

// writeNext waits for the next status that is due and writes it. False: there will be none.
func (w *statuses) writeNext(ctx context.Context) bool {
	key, shutdown := w.queue.Get()
	if shutdown {
		return false
	}
	defer w.queue.Done(key)
	if w.isPending(key) && !w.pace.allow() {
		w.queue.AddAfter(key, pacePause)
		return true
	}
	if err := w.writePending(ctx, key); err != nil {
		log.FromContext(ctx).Info("A status could not be written yet", "task", key.String(), "reason", err.Error())
		w.queue.AddRateLimited(key)
		return true
	}
	w.queue.Forget(key)
	return true
}

func (w *statuses) isPending(key types.NamespacedName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.pending[key]
	return ok
}

// writePending writes what is wanted of a task, if anything.
func (w *statuses) writePending(ctx context.Context, key types.NamespacedName) error {
	w.mu.Lock()
	want, ok := w.pending[key]
	delete(w.pending, key)
	w.mu.Unlock()
	if !ok {
		return nil
	}
	err := w.write(ctx, want)
	if err != nil {
		w.mu.Lock()
		if _, newer := w.pending[key]; !newer && !errors.Is(err, errForeignStatus) {
			w.pending[key] = want
		}
		w.mu.Unlock()
	}
	return err
}

// want gives a status the next number of its task. What was wanted before is not written any more.
func (w *statuses) want(l *live, status v1alpha1.AgentTaskStatus) wanted {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted++
	return wanted{live: l, number: l.wanted, status: status, over: l.inFlight}
}

// drop gives up what waits of a task that is not this process's any more.
func (w *statuses) drop(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, key)
}

// now writes a status before it returns. What waited of the task need not be written any more. Noted is the spec.resumeInput that the
// journal has noted.
func (w *statuses) now(ctx context.Context, l *live, status v1alpha1.AgentTaskStatus, noted string) error {
	base, _ := l.now()
	want := w.want(l, status)
	want.noted = noted
	w.drop(keyOf(base))
	return w.write(ctx, want)
}

// later writes a status within the status interval, or sooner, unless a newer one is wanted meanwhile.
func (w *statuses) later(l *live, status v1alpha1.AgentTaskStatus) {
	want := w.want(l, status)
	base, _ := l.now()
	key := keyOf(base)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !want.over && !changed(&base.Status, &status) {
		delete(w.pending, key)
		return
	}
	w.pending[key] = want
	w.queue.AddAfter(key, w.pause(l, &base.Status, &status))
}

// pause is how long a status may wait.
func (w *statuses) pause(l *live, was, now *v1alpha1.AgentTaskStatus) time.Duration {
	switch {
	case was.StartTime == nil || was.ExitReason != now.ExitReason || was.Phase != now.Phase:
		return firstPause
	case conditionsReason(now) == parked.Reason:
		return slotPause
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(firstPause, l.writtenAt.Add(w.StatusInterval).Sub(w.Clock.Now()))
}

// write writes a status, whole and not as a patch, which costs an API server half as much again. The write is kept from the
// Reconcile's own end, and a conflict is answered by reading anew: what ended stays ended.
func (w *statuses) write(ctx context.Context, want wanted) error {
	l := want.live
	l.writing.Lock()
	defer l.writing.Unlock()
	if !l.begin(want.number) {
		return nil
	}
	defer l.done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AppendTimeout)
	defer cancel()
	for range 5 {
		base, deleted := l.now()
		switch {
		case deleted || base.Finished():
			return nil
		case asks(&base.Status, &want.status) && deref(base.Spec.ResumeInput) != want.noted:
			return errUnseenInput
		case !l.try(&want.status):
			return errForeignStatus
		}
		next := base.DeepCopy()
		next.Status = want.status
		err := w.Client.Status().Update(ctx, next)
		if err == nil {
			w.written(l, next)
			return nil
		}
		if !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
		if _, err := w.readLive(ctx, l); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return errBusyStatus
}

// written notes a status that the API server has taken. Of what may be held for long, the output is most.
func (w *statuses) written(l *live, task *v1alpha1.AgentTask) {
	held := *task
	held.ManagedFields, held.Status.Output = nil, ""
	was := l.wrote(&held, w.Clock.Now())
	w.Metrics.Observe(was, &task.Status)
	w.announce(task, was)
	if task.Finished() {
		w.Tracer.End(task)
	}
}

// asks tells whether a status shows a question that the one before did not.
func asks(was, now *v1alpha1.AgentTaskStatus) bool {
	return now.InputRequest != nil && questionOf(was) != questionOf(now)
}

// sameStatus compares two statuses without the texts that the cache does not hold (StripCached).
func sameStatus(a, b *v1alpha1.AgentTaskStatus) bool {
	x, y := *a, *b
	x.Output, y.Output = "", ""
	return equality.Semantic.DeepEqual(x, y)
}

// These go to the workqueue, which tries again. A status that somebody else has written may be that of the task's new holder,
// so it is not written over by who has not seen it.
var (
	errBusyStatus    = errors.New("the task was changed by others all the time")
	errForeignStatus = errors.New("the status was written by another")
	// errUnseenInput: spec.resumeInput was changed before the question stood in the status, so it is no answer to it. That is to be
	// recorded before the question is told.
	errUnseenInput = errors.New("spec.resumeInput was changed before the question was told")
)

// busyAppends is from how many appends a second the API server counts as busy. One on two cores takes some 500 writes. Then at most
// progressWrites statuses a second, over all tasks, tell of progress: its time is for the journals.
const (
	busyAppends    = 40
	progressWrites = 10
)

// pace makes the writes that only tell of progress give way to those that keep what was paid for.
type pace struct {
	clock          loop.Clock
	calm, progress *rate.Limiter

	mu        sync.Mutex
	busyUntil time.Time
}

func newPace(c loop.Clock) *pace {
	return &pace{clock: c, calm: rate.NewLimiter(busyAppends, busyAppends), progress: rate.NewLimiter(progressWrites, progressWrites)}
}

// append counts an append.
func (p *pace) append() {
	now := p.clock.Now()
	if p.calm.AllowN(now, 1) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busyUntil = now.Add(time.Second)
}

// allow tells whether progress may be written now.
func (p *pace) allow() bool {
	now := p.clock.Now()
	p.mu.Lock()
	busy := now.Before(p.busyUntil)
	p.mu.Unlock()
	return !busy || p.progress.AllowN(now, 1)
}
