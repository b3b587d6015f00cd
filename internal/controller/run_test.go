package controller

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
)

// Its journal may not be readable at once, as when too many others are being read.
func TestATurnThatPanickedIsNotRunAgain(t *testing.T) {
	panics := 0
	r := newRig(t, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if _, ok := o.(*v1alpha1.AgentTranscript); ok && panics == 0 {
			panics++
			panic("the append of the paid reply")
		}
		return c.Update(ctx, o, opts...)
	}}, answers("TASK_COMPLETE: done"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	var loads []*fairshare.Slot
	s := r.sessions.of(r.task())
	if _, ok := r.load(t.Context(), s); !ok {
		t.Fatal()
	}
	for i := range 2 * loadsAtOnce {
		ns := string(rune('a' + i))
		if slot := r.loads.Take(types.NamespacedName{Namespace: ns, Name: "x"}, fairshare.Group{Namespace: ns}); slot != nil {
			loads = append(loads, slot)
		} else {
			r.loads.Leave(types.NamespacedName{Namespace: ns, Name: "x"})
		}
	}
	r.sessions.rest(s, false)
	if _, err := r.Reconcile(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	free(loads)
	task := r.look(2)
	if panics != 1 || task.Status.ExitReason != v1alpha1.ExitError {
		t.Errorf("%d panics; it is %s/%s %q, journal %v", panics, task.Status.Phase, task.Status.ExitReason, task.Status.Message, r.kinds())
	}
}
