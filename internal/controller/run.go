package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// outcome is what a Reconcile made of a task.
type outcome struct {
	session *session
	plan    *plan
	next    loop.Action
	// waiting says why the task does not go on by itself just now; nil when it does.
	waiting *Waiting
	// err is why the turn could not be run or kept.
	err error
}

// appendTimeout bounds one append to the journal. It is kept from the Reconcile's own end: what was paid for is written.
const appendTimeout = 20 * time.Second

// turn runs at most one turn. A panic in it fails this task alone.
func (r *TaskReconciler) turn(ctx context.Context, task *v1alpha1.AgentTask) (out outcome) {
	defer func() {
		if p := recover(); p != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "A turn panicked, its task is failed", "stack", string(debug.Stack()))
			out = r.failPanicked(ctx, task)
		}
	}()
	s, err := r.open(ctx, task)
	if err != nil {
		return outcome{err: err}
	}
	out = r.turnOf(ctx, task, s)
	if s.unread && (!s.opened || errors.Is(out.err, transcript.ErrConflict)) {
		if s, err = r.load(ctx, task); err != nil {
			return outcome{err: err}
		}
		out = r.turnOf(ctx, task, s)
	}
	return out
}

// turnOf runs at most one turn of what the session holds.
func (r *TaskReconciler) turnOf(ctx context.Context, task *v1alpha1.AgentTask, s *session) (out outcome) {
	out.session = s
	if out.err = r.flush(ctx, s); out.err != nil {
		return out
	}
	if out.plan, out.err = r.resolve(ctx, task, s); out.err != nil {
		return out
	}
	if out.err = r.fence(ctx, s, out.plan); out.err != nil {
		return out
	}
	out.waiting = out.plan.waiting
	out.next, out.err = r.advance(ctx, task, s, out.plan)
	if wait := (*loop.WaitError)(nil); errors.As(out.err, &wait) {
		out.waiting, out.err = &Waiting{Reason: wait.Reason, Message: wait.Detail, After: wait.After}, nil
		for _, q := range out.plan.queues {
			q.add(keyOf(task))
		}
	}
	return out
}

// fence takes the journal over before anything is done by it, unless there is nothing to do.
func (r *TaskReconciler) fence(ctx context.Context, s *session, p *plan) error {
	if s.opened {
		return nil
	}
	next := loop.Decide(s.state, &p.spec, r.Clock.Now())
	acts := next.Kind == loop.ActionCallModel || next.Kind == loop.ActionRunTools
	if p.invalid == nil && next.Kind != loop.ActionEmit && (!acts || p.waits()) {
		return nil
	}
	step, err := p.engine.Open(s.state, &p.spec, loop.Opened{Holder: r.Holder, ToolDigests: p.toolDigests(s.state)})
	if err != nil {
		return err
	}
	s.opened = true
	s.unsaved = append(s.unsaved, step.Events...)
	return r.flush(ctx, s)
}

// advance goes on until one model call was made and its tools were run, or there is nothing to do.
func (r *TaskReconciler) advance(ctx context.Context, task *v1alpha1.AgentTask, s *session, p *plan) (loop.Action, error) {
	if !s.opened {
		return loop.Decide(s.state, &p.spec, r.Clock.Now()), nil
	}
	if p.invalid != nil && s.state.End == nil {
		step, err := p.engine.Finish(s.state, *p.invalid)
		return step.Next, r.keep(ctx, s, step, err)
	}
	call, end := r.sessions.run(ctx, keyOf(task), r.ShutdownGrace)
	defer end()
	call = r.Tracer.Context(call, task.UID)
	for called := false; ; {
		step, err := p.engine.Settle(s.state, &p.spec) // what needs no call goes on even while something is waited for
		if err = r.keep(ctx, s, step, err); err != nil {
			return step.Next, err
		}
		isCall := step.Next.Kind == loop.ActionCallModel
		if !isCall && step.Next.Kind != loop.ActionRunTools || called && isCall || p.waits() || ctx.Err() != nil {
			return step.Next, nil
		}
		free := r.slots.take(ctx, call)
		if free == nil {
			return step.Next, nil
		}
		written := r.writeIfSlow(ctx, task, s, p)
		step, err = p.engine.Advance(call, s.state, &p.spec)
		free()
		written()
		if err = r.keep(ctx, s, step, err); err != nil {
			return step.Next, err
		}
		called = called || isCall
	}
}

// slowCall is after how long a running call is told of. Most tasks that run on a fast model never need that write.
const slowCall = 100 * time.Millisecond

// writeIfSlow writes the status as it stands before a call, such as phase Running or the turn before, once the call takes
// longer than a moment and the journals leave room for it: so no turn waits for it. The returned function waits for a write
// that is under way.
func (r *TaskReconciler) writeIfSlow(ctx context.Context, task *v1alpha1.AgentTask, s *session, p *plan) (wait func()) {
	base := s.base(task)
	want := r.project(base, s, p, p.notice)
	if !changed(&base.Status, &want) {
		return func() {}
	}
	after := slowCall
	if base.Status.Phase == want.Phase {
		after = max(after, progressLag*r.StatusInterval-r.Clock.Now().Sub(s.writtenAt))
	}
	over, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		timer := time.NewTimer(after)
		defer timer.Stop()
		for {
			select {
			case <-over:
				return
			case <-timer.C:
			}
			if r.progress.allow() {
				break
			}
			timer.Reset(progressPause)
		}
		if err := r.putStatus(ctx, base, s, want); err != nil {
			log.FromContext(ctx).Info("A status could not be written yet", "reason", err.Error())
		}
	}()
	return func() {
		close(over)
		<-finished
	}
}

// keep appends what a step recorded.
func (r *TaskReconciler) keep(ctx context.Context, s *session, step loop.Step, err error) error {
	s.unsaved = append(s.unsaved, step.Events...)
	return errors.Join(err, r.flush(ctx, s))
}

func (r *TaskReconciler) flush(ctx context.Context, s *session) error {
	if len(s.unsaved) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTimeout)
	defer cancel()
	r.progress.append()
	return s.flush(ctx)
}

// failPanicked ends a task whose turn panicked. The state in memory is not to be trusted, so the journal is read anew.
func (r *TaskReconciler) failPanicked(ctx context.Context, task *v1alpha1.AgentTask) (out outcome) {
	defer func() {
		if p := recover(); p != nil {
			out = outcome{err: fmt.Errorf("panic while failing the task: %v", p)}
		}
	}()
	r.sessions.drop(keyOf(task))
	s, err := r.load(ctx, task)
	if err != nil {
		return outcome{err: err}
	}
	engine := &loop.Engine{Clock: r.Clock}
	step, err := engine.Finish(s.state, loop.Finished{
		Reason: loop.ExitError, Cause: loop.CauseInternalError,
		Message: "The operator failed inside this task's turn. Its log has the details; other tasks go on.",
	})
	s.opened = true // the append below is itself the fence: it ends the journal
	return outcome{session: s, plan: &plan{}, next: step.Next, err: r.keep(ctx, s, step, err)}
}
