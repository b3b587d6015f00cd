package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
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
	// interrupted: that is because the task has changed, so it is looked at again at once.
	interrupted bool
}

// appendTimeout bounds one append to the journal. It is kept from the Reconcile's own end: what was paid for is written.
const appendTimeout = 20 * time.Second

// turn runs at most one turn. Its calls end with call, which an interrupt ends. A panic in it fails this task alone.
func (r *TaskReconciler) turn(ctx, call context.Context, task *v1alpha1.AgentTask) (out outcome) {
	defer func() {
		if p := recover(); p != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "A turn panicked, its task is failed", "stack", string(debug.Stack()))
			out = r.fail(ctx, task, "The operator failed inside this task's turn. Its log has the details; other tasks go on.")
		}
	}()
	s, err := r.open(ctx, task)
	if err != nil {
		return outcome{err: err}
	}
	out = r.turnOf(ctx, call, task, s)
	if s.unread && (!s.opened || errors.Is(out.err, transcript.ErrConflict)) {
		if s, err = r.load(ctx, task); err != nil {
			return outcome{err: err}
		}
		out = r.turnOf(ctx, call, task, s)
	}
	if errors.Is(out.err, transcript.ErrTooLarge) {
		return r.fail(ctx, task, "What happened in this task does not fit into its journal. Use fewer tools, or tools with shorter results.")
	}
	return out
}

// run is one turn of one task under way.
type run struct {
	*TaskReconciler
	// ctx ends when the operator stops, call when the calls must end.
	ctx, call context.Context
	task      *v1alpha1.AgentTask
	s         *session
	p         *plan
	// free gives the slot back, nil without one.
	free func()
}

// turnOf runs at most one turn of what the session holds.
func (r *TaskReconciler) turnOf(ctx, call context.Context, task *v1alpha1.AgentTask, s *session) (out outcome) {
	out.session = s
	if out.err = r.flush(ctx, s); out.err != nil {
		return out
	}
	if out.plan, out.err = r.resolve(call, task, s); out.err != nil {
		out.interrupted = call.Err() != nil
		return out
	}
	if out.plan.waiting == nil {
		out.plan.waiting = out.plan.awaitApproved(s.state)
	}
	out.waiting = out.plan.waiting
	out.plan.engine.Limits, out.plan.engine.MaxDuration = r.sessions.limits(keyOf(task)), r.maxDuration(call, task)
	t := &run{TaskReconciler: r, ctx: ctx, call: call, task: task, s: s, p: out.plan}
	defer func() {
		if t.free != nil {
			t.free()
		}
	}()
	if out.next, out.err = t.fence(); out.err != nil || !s.opened {
		return out
	}
	out.next, out.err = t.advance()
	out.waiting = out.plan.waiting
	if wait := (*loop.WaitError)(nil); errors.As(out.err, &wait) && len(s.unsaved) == 0 {
		out.waiting, out.err = &Waiting{Reason: wait.Reason, Message: wait.Detail, After: wait.After}, nil
		for _, q := range out.plan.queues {
			q.add(keyOf(task))
		}
	}
	return out
}

// fence takes the journal over before anything is done by it, unless there is nothing to do. It tells what is due. With the
// journal the task's clock starts, so its calls have their slot first.
func (t *run) fence() (loop.Action, error) {
	next := loop.Decide(t.s.state, &t.p.spec, t.Clock.Now())
	if t.s.opened {
		return next, nil
	}
	acts := isCall(next)
	if t.p.invalid == nil {
		if next.Kind != loop.ActionEmit && (!acts || t.p.waits()) || acts && !t.takeSlot() {
			return next, nil
		}
	}
	step, err := t.p.engine.Open(t.s.state, &t.p.spec, loop.Opened{Holder: t.Holder, ToolDigests: t.p.toolDigests(t.s.state)})
	if err != nil {
		return next, err
	}
	t.s.opened = true
	t.s.unsaved = append(t.s.unsaved, step.Events...)
	return step.Next, t.flush(t.ctx, t.s)
}

func isCall(a loop.Action) bool {
	return a.Kind == loop.ActionCallModel || a.Kind == loop.ActionRunTools
}

// advance goes on until one model call was made and its tools were run, or there is nothing to do.
func (t *run) advance() (loop.Action, error) {
	p, s := t.p, t.s
	if p.invalid != nil && s.state.End == nil {
		step, err := p.engine.Finish(s.state, *p.invalid)
		return step.Next, t.keep(step, err)
	}
	for called := false; ; {
		step, err := p.engine.Settle(s.state, &p.spec) // what needs no call goes on even while something is waited for
		if err = t.keep(step, err); err != nil {
			return step.Next, err
		}
		if p.waiting == nil {
			p.waiting = p.awaitApproved(s.state)
		}
		another := step.Next.Kind == loop.ActionCallModel
		// Once a reply is kept its tools count as begun, so they run even if the operator is to stop.
		enough := another && (called || context.Cause(t.ctx) != nil)
		if !isCall(step.Next) || p.waits() || enough || t.changed() || !t.takeSlot() {
			return step.Next, nil
		}
		step, err = t.act(step.Next.Kind)
		if err == nil {
			err = t.seen(&step)
		}
		if err = t.keep(step, err); err != nil {
			return step.Next, err
		}
		called = called || another
	}
}

// seen notes what is in spec.resumeInput at the moment a question is asked. It is not an answer: nobody had seen the question.
func (t *run) seen(step *loop.Step) error {
	q := t.s.state.Question
	if q == nil || !slices.ContainsFunc(step.Events, func(e loop.Event) bool { return e.Asked != nil }) {
		return nil
	}
	live, err := t.readLive(t.ctx, keyOf(t.task))
	if err != nil {
		return nil //nolint:nilerr // then what the cache says must do
	}
	t.s.specVersion = live.ResourceVersion
	hash := loop.HashInput(deref(live.Spec.ResumeInput))
	if hash == q.InputHash {
		return nil
	}
	t.p.spec.ResumeInput, t.p.spec.ResumeInputID = deref(live.Spec.ResumeInput), live.Spec.ResumeInputID
	more, err := t.p.engine.Seen(t.s.state, hash)
	step.Events = append(step.Events, more.Events...)
	return err
}

// takeSlot waits for a slot for the calls of this turn, unless it has one. It gives up when the operator stops, the task is
// interrupted, or its time is up.
func (t *run) takeSlot() bool {
	if t.free != nil {
		return true
	}
	if t.free = t.slots.try(t.ctx); t.free != nil {
		return true
	}
	defer t.writeIfSlow()()
	call := t.call
	if most := t.p.spec.MaxDuration; most > 0 && t.s.state.Started() {
		limited, cancel := context.WithTimeout(call, most-t.s.state.Active(t.Clock.Now()))
		defer cancel()
		call = limited
	}
	t.free = t.slots.take(t.ctx, call)
	return t.free != nil
}

// act makes one model call or one set of tool calls.
func (t *run) act(kind loop.ActionKind) (loop.Step, error) {
	defer t.writeIfSlow()()
	if kind == loop.ActionRunTools {
		defer t.sessions.runsTools(keyOf(t.task))()
		if t.changed() {
			return loop.Step{Next: loop.Action{Kind: kind}}, nil
		}
	}
	return t.p.engine.Advance(t.call, t.s.state, &t.p.spec)
}

// changed tells that the task's limits were moved since it was read, so that it is to be read again before the next call.
func (t *run) changed() bool { return errors.Is(context.Cause(t.call), loop.ErrSpecChanged) }

// slowCall is after how long a running call is told of. Most tasks that run on a fast model never need that write.
const slowCall = 100 * time.Millisecond

// startTries is how often the write that tells of a task's start gives way: about five seconds.
const startTries = 50

// writeIfSlow writes the status as it stands before a call, such as phase Running or the turn before, once the call takes
// longer than a moment and the journals leave room for it: so no turn waits for it. What a user acts on, such as that a
// question is answered, needs no room. The returned function waits for a write that is under way.
func (t *run) writeIfSlow() (wait func()) {
	base := t.s.base(t.task)
	want := t.project(base, t.s, t.p, t.p.notice)
	if !changed(&base.Status, &want) {
		return func() {}
	}
	after, first := slowCall, base.Status.StartTime == nil
	atOnce := urgent(&base.Status, &want) && want.Phase != v1alpha1.PhasePending // that it is about to start is no news
	if base.Status.Phase == want.Phase {
		after = max(after, progressLag*t.StatusInterval-t.Clock.Now().Sub(t.s.writtenAt))
	}
	over, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		timer := time.NewTimer(after)
		defer timer.Stop()
		for tries := 1; ; tries++ {
			select {
			case <-over:
				return
			case <-timer.C:
			}
			// The start is told at last even so: it is from then on that the prompt is fixed.
			if atOnce || t.progress.allow() || first && tries > startTries {
				break
			}
			timer.Reset(progressPause)
		}
		if err := t.putStatus(t.ctx, base, t.s, want); err != nil {
			log.FromContext(t.ctx).Info("A status could not be written yet", "reason", err.Error())
		}
	}()
	return func() {
		close(over)
		<-finished
	}
}

// keep appends what a step recorded.
func (t *run) keep(step loop.Step, err error) error {
	t.s.unsaved = append(t.s.unsaved, step.Events...)
	return errors.Join(err, t.flush(t.ctx, t.s))
}

func (r *TaskReconciler) flush(ctx context.Context, s *session) error {
	if len(s.unsaved) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTimeout)
	defer cancel()
	r.progress.append()
	err := s.flush(ctx)
	if notAccepted(err) {
		return fmt.Errorf("%w: %w", errJournalRefused, err)
	}
	return err
}

// fail ends a task whose turn cannot be kept. The state in memory is not to be trusted, so the journal is read anew.
func (r *TaskReconciler) fail(ctx context.Context, task *v1alpha1.AgentTask, why string) (out outcome) {
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
	step, err := engine.Finish(s.state, loop.Finished{Reason: loop.ExitError, Cause: loop.CauseInternalError, Message: why})
	s.opened = true // the append below is itself the fence: it ends the journal
	t := &run{TaskReconciler: r, ctx: ctx, task: task, s: s}
	return outcome{session: s, plan: &plan{}, next: step.Next, err: t.keep(step, err)}
}
