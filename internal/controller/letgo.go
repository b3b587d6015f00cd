package controller

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// letGoAtOnce bounds the appends of an operator that stops.
const letGoAtOnce = 16

// letGoAll waits until the operator is to stop, and then records of the tasks that no call runs for that they are let go: what
// opens them next counts no crash, and charges no call as lost. Tasks with a call under way do so themselves, once it has ended.
func (r *TaskReconciler) letGoAll(ctx context.Context) error {
	<-ctx.Done()
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.ShutdownGrace+AppendTimeout)
	defer cancel()
	waiting := make(chan *session)
	var group sync.WaitGroup
	for range letGoAtOnce {
		group.Go(func() {
			for s := range waiting {
				if err := r.newRun(detached, detached, s).letGo(); err != nil {
					log.FromContext(ctx).Info("A task could not be let go", "task", s.key.String(), "reason", err.Error())
				}
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
