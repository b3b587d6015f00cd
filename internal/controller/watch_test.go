package controller

import (
	"context"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

func TestAnAPIFaultDoesNotCancelARelabelledTask(t *testing.T) { synctest.Test(t, testAnAPIFault) }

func testAnAPIFault(t *testing.T) {
	fail := false
	r := newRig(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, ok := o.(*v1alpha1.AgentTask); ok && fail {
			return apierrors.NewServiceUnavailable("the API server restarts")
		}
		return c.Get(ctx, k, o, opts...)
	}}, answers("Going on.", "Going on."), aTask(func(s *v1alpha1.AgentTaskSpec) { s.NoProgressTurns = new(int32(0)) }))
	defer r.statuses.queue.ShutDown()
	r.look(1)
	s := r.sessions.of(r.task())
	fail = true
	r.confirmDeletion(s.live) // the watch's Delete event of a relabelled task, while a call runs
	fail = false
	r.turn(t.Context(), s)
	if kinds := r.kinds(); kinds[len(kinds)-1] == loop.KindFinished {
		t.Errorf("the journal of a task that exists was ended: %v", kinds)
	}
}

func TestATaskThatIsTakenForDeletedIsLookedAtAgain(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("TASK_COMPLETE: done"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	s := r.sessions.of(r.task())
	s.live.end()
	r.sessions.rest(s, false)
	result, err := r.Reconcile(t.Context(), request())
	if err == nil && result.IsZero() && !r.task().Finished() {
		t.Errorf("%+v: it is not looked at again", result)
	}
}
