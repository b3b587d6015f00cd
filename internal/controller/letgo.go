package controller

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// letGoAtOnce bounds the appends of an operator that stops.
const letGoAtOnce = 16

// letGoAll waits until the operator is to stop, and then records of the tasks that no Reconcile is busy with that they are let go: what
// opens them next counts no crash, and charges no call as lost. Of the others the Reconcile does so at its end.
func (r *TaskReconciler) letGoAll(ctx context.Context) error {
	<-ctx.Done()
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.ShutdownGrace+AppendTimeout)
	defer cancel()
	waiting := make(chan *session)
	var group sync.WaitGroup
	for range letGoAtOnce {
		group.Go(func() {
			for s := range waiting {
				r.letGo(detached, s)
			}
		})
	}
	for _, s := range r.sessions.claim() {
		if detached.Err() != nil {
			break
		}
		waiting <- s
	}
	close(waiting)
	group.Wait()
	return nil
}

// letGo records that the operator stops with no call of the task under way. The next one finds out by itself where that fails.
func (r *TaskReconciler) letGo(ctx context.Context, s *session) {
	if !s.opened {
		return
	}
	if s.state == nil {
		if err := r.fold(ctx, s); err != nil || !s.opened {
			return
		}
	}
	t := r.newRun(ctx, ctx, s)
	_, err := t.keep(t.engine().Release(s.state, t.p.Spec()))
	s.opened = false
	if err != nil {
		log.FromContext(ctx).Info("A task could not be let go", "task", s.key.String(), "reason", err.Error())
	}
}
