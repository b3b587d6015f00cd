package controller

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// Neither the cache nor the session holds the output.
func TestABlockedTaskKeepsItsOutput(t *testing.T) {
	var r *rig
	live, broken := false, false
	_ = live
	r = newRig(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, ok := o.(*v1alpha1.AgentTranscript); ok && broken {
			return apierrors.NewNotFound(transcripts, k.Name)
		}
		err := c.Get(ctx, k, o, opts...)
		return err
	}}, answers("The half of it is here.\nNEED_INPUT: which?"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	before := r.look(2).Status.Output
	if before == "" {
		t.Fatal("no output")
	}
	cached := r.task()
	_, _ = StripCached(cached) // what the cache holds
	broken = true              // the AgentTranscripts were deleted
	s := r.sessions.of(cached)
	out := r.turn(t.Context(), s)
	_, err := r.report(t.Context(), s, out)
	if task := r.task(); task.Status.Output != before {
		t.Errorf("output %q, was %q; %s, %v, %v", task.Status.Output, before, task.Status.Message, out.err, err)
	}
}
