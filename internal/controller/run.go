package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/limit"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// outcome is what a Reconcile made of a task.
type outcome struct {
	plan *plan
	next loop.Action
	// waiting says why the task does not go on by itself just now; nil when it does.
	waiting *Waiting
	// rival is who else works on the task, which is therefore left alone.
	rival *rivalry
	// err is why the turn could not be run or kept.
	err error
}

// AppendTimeout bounds one write to the API server: an append to a journal, or a status. Both are kept from the Reconcile's own end:
// what was paid for is written.
const AppendTimeout = 20 * time.Second

// run is at most one turn of one task.
type run struct {
	*TaskReconciler
	// ctx ends when the operator stops, call when the calls must end.
	ctx, call context.Context
	s         *session
	p         *plan
	// slot and ticket are what the next call needs, nil without.
	slot  *fairshare.Slot
	group fairshare.Group
	// alone: the turn ended in crashes, and none of the others that did runs beside it.
	alone bool
	// rated: the task waits for its turn in a model's rates.
	rated   bool
	ticket  *limit.Ticket
	waiting *Waiting
}

// turn runs at most one turn. It waits for nothing but its own calls. A panic in it fails this task alone.
func (r *TaskReconciler) turn(ctx context.Context, s *session) (out outcome) {
	defer func() {
		if p := recover(); p != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "A turn panicked, its task is failed", "stack", string(debug.Stack()))
			out = r.fail(ctx, s, "The operator failed inside this task's turn. Its log has the details; other tasks go on.")
		}
	}()
	if s.failed != "" {
		return r.fail(ctx, s, s.failed)
	}
	if s.state == nil {
		if out, loaded := r.load(ctx, s); !loaded {
			return out
		}
	}
	call, end := callContext(ctx, r.ShutdownGrace)
	defer end()
	t := r.newRun(ctx, r.Tracer.Context(call, s.uid), s)
	defer t.end()
	out = outcome{plan: t.p}
	if s.state.End == nil && !s.opened {
		if out.rival = r.rivals.at(s, r.Clock.Now()); out.rival != nil {
			return out
		}
	}
	if out.err = r.flush(ctx, s); out.err == nil {
		out.next, out.err = t.advance()
	}
	if errors.Is(out.err, transcript.ErrTooLarge) {
		return r.fail(ctx, s, "What happened in this task does not fit into its journal. Use fewer tools, or tools with shorter results.")
	}
	out.waiting = t.waiting
	return out
}

func (r *TaskReconciler) newRun(ctx, call context.Context, s *session) *run {
	p := &plan{
		s: s, waited: s.waitedUntil(r.Clock.Now()), answered: s.state.Iterations > 0,
		limits: specLimits{turnAttempts: r.MaxTurnAttempts, journalBytes: r.MaxJournalBytes},
	}
	return &run{TaskReconciler: r, ctx: ctx, call: call, s: s, p: p, waiting: p.held()}
}

// end gives back what the turn holds.
func (t *run) end() {
	if t.ticket != nil {
		t.ticket.Cancel()
	}
	if t.slot != nil {
		t.slot.Release()
	}
	if t.waiting != parkedAsSuspect {
		t.suspects.leave(t.s.key)
	}
	if !t.rated && (t.waiting == nil || !t.waiting.Own) {
		t.s.leaveRate()
	}
}

// callContext gives the context of a task's calls. It ends grace after ctx: an operator that stops lets its calls finish, since they
// are paid for.
func callContext(ctx context.Context, grace time.Duration) (context.Context, func()) {
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(loop.ErrShuttingDown)
		case <-stopped:
		}
	})
	return call, func() {
		unwatch()
		close(stopped)
		cancel(nil)
	}
}

// advance goes on until one model call was made and its tools were run, or there is nothing to do.
func (t *run) advance() (loop.Action, error) {
	for called := false; ; {
		next, err := t.settle() // what needs no call goes on even while something is waited for
		another := next.Kind == loop.ActionCallModel
		switch {
		case err != nil || !isCall(next) || t.waiting != nil || another && called:
			return next, err
		case t.call.Err() != nil, t.ctx.Err() != nil && !called: // the tools of a reply that was just kept still run
			return next, err
		}
		if !t.prepare(next) {
			if t.waiting == nil && t.call.Err() == nil {
				continue // something is known now that was not: decide anew
			}
			return next, err
		}
		recorded, err := t.begin()
		if err != nil {
			return next, err
		}
		if recorded {
			continue
		}
		if err := t.act(next); err != nil {
			return next, err
		}
		called = called || another
	}
}

func isCall(a loop.Action) bool {
	return a.Kind == loop.ActionCallModel || a.Kind == loop.ActionRunTools
}

// settle records what follows from the spec and the time, and tells what is due then. The journal is taken over only when there is
// something to record.
func (t *run) settle() (loop.Action, error) {
	sp := t.p.Spec()
	t.p.settled = t.p.of
	bad := t.p.invalid()
	if bad != nil && t.s.state.Started() {
		bad = nil // it is held
	}
	if !t.s.opened {
		next := loop.Decide(t.s.state, sp, t.Clock.Now())
		if next.Kind != loop.ActionEmit && bad == nil {
			return next, nil
		}
		if next, err := t.open(); err != nil || bad == nil {
			return next, err
		}
	}
	if bad != nil && t.s.state.End == nil {
		end := *bad // the session keeps its own
		end.Message += " Correct it and create the task anew."
		return t.keep(t.engine().Finish(t.s.state, sp, end))
	}
	return t.keep(t.engine().Settle(t.s.state, sp))
}

// open takes the journal over. What the task begins with then comes from the journal alone.
func (t *run) open() (loop.Action, error) {
	o := loop.Opened{Holder: t.Holder, Rival: t.rivals.met(t.s), Alone: t.alone}
	if t.p.model != nil {
		o.Input = &loop.Input{Model: t.p.model.Identity()}
	}
	if t.p.tools != nil {
		o.Toolsets, o.ToolDigests = t.p.tools.Seen, t.p.tools.Digests
	}
	step, err := t.engine().Open(t.s.state, t.p.Spec(), o)
	if err != nil {
		return step.Next, err
	}
	t.s.opened = true
	return t.keep(step, nil)
}

// begin records what is to be in the journal before a call: that it was taken over, and the toolsets that the task sees for the first
// time. A server must not swap a tool for another later.
func (t *run) begin() (recorded bool, err error) {
	switch {
	case !t.s.opened:
		_, err := t.open()
		return true, err
	case t.p.tools == nil:
		return false, nil
	}
	step, err := t.engine().Pin(t.s.state, t.p.Spec(), t.p.tools.Seen, t.p.tools.Digests)
	_, err = t.keep(step, err)
	return len(step.Events) > 0, err
}

func (t *run) engine() *loop.Engine {
	return &loop.Engine{Clock: t.Clock, Tools: loop.ToolboxFunc(noTool), Backoff: t.Backoff}
}

// act makes one model call or one set of tool calls.
func (t *run) act(next loop.Action) error {
	e := t.engine()
	if t.p.tools != nil {
		e.Tools = t.Tracer.Toolbox(t.p.tools)
	}
	if next.Kind == loop.ActionCallModel {
		model := t.ticket.Wrap(t.p.modelOf(next.Purpose).Model)
		e.Model = model
		if t.p.judge != nil {
			e.Judge = model
		}
		defer t.ticket.Cancel() // should no call be made after all
		t.ticket = nil
		t.p.stale = true
		defer t.slot.ModelDone()
	}
	t.statuses.later(t.s.live, t.project(t.s, t.p, t.p.notice))
	_, err := t.keep(e.Advance(t.call, t.s.state, t.p))
	return err
}

// keep appends what a step recorded.
func (t *run) keep(step loop.Step, err error) (loop.Action, error) {
	if len(step.Events) > 0 {
		t.s.unsaved = append(t.s.unsaved, step.Events...)
		t.s.waited, t.s.waitingSince = 0, time.Time{}
		t.s.answered = slices.ContainsFunc(step.Events, func(e loop.Event) bool { return e.Answered != nil })
		t.p.change(func() { t.p.waited = 0 })
	}
	return step.Next, errors.Join(err, t.flush(t.ctx, t.s))
}

func (r *TaskReconciler) flush(ctx context.Context, s *session) error {
	if len(s.unsaved) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AppendTimeout)
	defer cancel()
	r.statuses.pace.append()
	err := s.flush(ctx)
	if notAccepted(err) {
		return fmt.Errorf("%w: %w", errJournalRefused, err)
	}
	return err
}

// fail ends a task whose turn cannot be kept. The state in memory is not to be trusted, so the journal is read anew, be it at a later
// look.
func (r *TaskReconciler) fail(ctx context.Context, s *session, why string) (out outcome) {
	defer func() {
		if p := recover(); p != nil {
			out = outcome{err: fmt.Errorf("panic while failing the task: %v", p)}
		}
	}()
	s.failed, s.unsaved = why, nil
	s.forget()
	if out, loaded := r.load(ctx, s); !loaded {
		return out
	}
	t := r.newRun(ctx, ctx, s)
	s.opened = true // the append below is itself the fence: it ends the journal
	out = outcome{plan: t.p}
	out.next, out.err = t.keep(t.engine().Finish(s.state, t.p.Spec(), loop.Finished{Reason: loop.ExitError, Cause: loop.CauseInternalError, Message: why}))
	if out.err == nil {
		s.failed = ""
	}
	return out
}
