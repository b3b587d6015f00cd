package harness

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/controlplane"
)

// View sees every change of every task as soon as a watch brings it.
type View struct{ informer cache.Informer }

// Sight is a task as it was seen.
type Sight struct {
	*v1alpha1.AgentTask
	// Gone: the task was deleted, and this is the last that was seen of it.
	Gone bool
}

// In tells whether the task was there, in that phase.
func (s Sight) In(phase v1alpha1.AgentTaskPhase) bool { return !s.Gone && s.Status.Phase == phase }

// View watches all tasks until the test ends.
func (c *Cluster) View(t testing.TB) *View {
	t.Helper()
	watch, err := cache.New(c.Env.Config, cache.Options{Scheme: controlplane.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := watch.Start(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	informer, err := watch.GetInformer(t.Context(), &v1alpha1.AgentTask{})
	if err != nil {
		t.Fatal(err)
	}
	return &View{informer}
}

// Expectation is of n tasks that match, each at some time since Expect was called.
type Expectation struct {
	n       int
	matched atomic.Int64
	met     chan time.Time
	stop    func()
}

// Expect begins to look for n tasks that match. What is done after it, such as a deletion, is not missed.
func (v *View) Expect(n int, match func(Sight) bool) (*Expectation, error) {
	e := &Expectation{n: n, met: make(chan time.Time, 1)}
	seen := map[types.UID]bool{} // only one goroutine calls the handler
	note := func(object any, gone bool) {
		if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		task, ok := object.(*v1alpha1.AgentTask)
		if !ok || seen[task.UID] || len(seen) == n || !match(Sight{task, gone}) {
			return
		}
		seen[task.UID] = true
		if e.matched.Store(int64(len(seen))); len(seen) == n {
			e.met <- time.Now()
		}
	}
	handle, err := v.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { note(o, false) },
		UpdateFunc: func(_, o any) { note(o, false) },
		DeleteFunc: func(o any) { note(o, true) },
	})
	e.stop = func() { _ = v.informer.RemoveEventHandler(handle) }
	return e, err
}

// Wait waits until the tasks have matched, and tells when the last of them did.
func (e *Expectation) Wait(ctx context.Context) (time.Time, error) {
	defer e.stop()
	select {
	case at := <-e.met:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("%d of %d tasks: %w", e.matched.Load(), e.n, context.Cause(ctx))
	}
}

// Await is Expect and Wait.
func (v *View) Await(ctx context.Context, n int, match func(Sight) bool) (time.Time, error) {
	e, err := v.Expect(n, match)
	if err != nil {
		return time.Time{}, err
	}
	return e.Wait(ctx)
}
