package loop

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Engine performs the actions of a task. It holds nothing of the task itself, and is cheap: make one for each step, with the clients
// that the step is to use. It is safe for use by several goroutines; a task's State is not.
type Engine struct {
	Clock Clock
	// Model answers turns, wrap-ups and compactions, Judge gives verdicts; a nil Judge means Model.
	Model Model
	Judge Model
	// Tools runs the calls of all tools but the built-in ones.
	Tools Toolbox
	// MaxParallelCalls bounds the tool calls of one reply that run at once; 0 means 8.
	MaxParallelCalls int
	// Backoff is how long to wait after the nth failure of a call; nil means exponential from 1 s to 60 s with jitter.
	Backoff func(n int) time.Duration
}

// Step is what Advance did.
type Step struct {
	// Events were folded into the state; the caller appends them to the journal, whole and in order, before the next step.
	Events []Event
	// Next is what Decide says after them.
	Next Action
	// Called: a model call was made.
	Called bool
}

// Open records that a holder takes the journal over, with everything that follows from that without I/O. Of opened it takes
// Holder, Rival, the toolsets that the task sees for the first time and, for its start, the model's identity; it finds the rest
// itself.
// A task that has ended is not opened: no event follows its end.
func (e *Engine) Open(s *State, sp *Spec, opened Opened) (Step, error) {
	if s.End != nil {
		return Step{Next: done()}, nil
	}
	if err := e.takeOver(s, sp, &opened); err != nil {
		return Step{}, err
	}
	r := e.record(s, sp)
	r.add(Event{Opened: &opened})
	return r.settle()
}

// Release records that the holder lets the task go with no call under way: what opens it next counts no attempt and charges
// nothing as lost. From then on Advance makes no call before the task is opened again. There is nothing to record of a task
// that has not begun, has ended, was released, or waits for a human.
func (e *Engine) Release(s *State, sp *Spec) (Step, error) {
	r := e.record(s, sp)
	r.release()
	return r.settle()
}

// Settle records what follows from the spec and the time without I/O, such as an answer, a cancel or a limit.
func (e *Engine) Settle(s *State, sp *Spec) (Step, error) { return e.record(s, sp).settle() }

// Finish ends the task from outside the loop, such as for a spec that cannot be run. It changes nothing of a task that has
// ended.
func (e *Engine) Finish(s *State, sp *Spec, f Finished) (Step, error) {
	r := e.record(s, sp)
	if s.End == nil {
		r.add(Event{Finished: &f})
	}
	return r.settle()
}

// Advance performs the next action: at most one model call or one set of tool calls, and everything that follows from it
// without further I/O, by the spec as it is then. When there is something to record first (an answer, a suspension, that
// approved calls are about to run), it does only that.
//
// While the call runs, a cancel ends it, and so does the end of maxDuration. A limit that is moved holds at once, and breaks
// nothing off that still fits. A call that ended because the operator shuts down is followed by a release.
func (e *Engine) Advance(ctx context.Context, s *State, specs Specs) (Step, error) {
	sp := specs.Spec()
	step, err := e.Settle(s, sp)
	if err != nil || len(step.Events) > 0 {
		return step, err
	}
	r, next := e.record(s, sp), step.Next
	switch {
	case next.Kind != ActionCallModel && next.Kind != ActionRunTools:
		return step, nil
	case s.Released:
		return step, errReleased
	case next.Kind == ActionRunTools && !s.turn.started: // an approval is used up by this alone, right before the calls are run by the next Advance
		r.add(Event{CallsStarted: &CallsStarted{CallIDs: callIDs(s.turn.reply.ToolCalls)}})
		return r.settle()
	}
	events, newest, cause := e.call(ctx, s, specs, sp, next)
	for _, ev := range events {
		r.add(ev)
	}
	r.sp = newest
	step, err = r.settle()
	if err == nil && errors.Is(cause, ErrShuttingDown) {
		r.release()
		step, err = r.settle()
	}
	step.Called = next.Kind == ActionCallModel
	return step, err
}

// call makes the call of an action. It gives its events, the newest spec, and why the call was broken off, nil if it was not.
func (e *Engine) call(ctx context.Context, s *State, specs Specs, sp *Spec, a Action) (events []Event, newest *Spec, cause error) {
	w := e.watch(ctx, s, specs, sp)
	defer w.stop()
	if a.Kind == ActionCallModel {
		events = e.callModel(w, a)
	} else {
		events = e.callTools(w.ctx, s, sp)
	}
	cause, newest = context.Cause(w.ctx), specs.Spec()
	if errors.Is(cause, ErrCancelled) && !newest.Cancel { // the spec that cancels may not have reached us, only its interrupt
		cancelled := *newest
		cancelled.Cancel, newest = true, &cancelled
	}
	return events, newest, cause
}

// recorder makes the events of one step.
type recorder struct {
	e      *Engine
	s      *State
	sp     *Spec
	events []Event
	err    error
}

func (e *Engine) record(s *State, sp *Spec) *recorder { return &recorder{e: e, s: s, sp: sp} }

// add stamps an event, folds it and adds it to the step. The first one tells how long the task has waited before.
func (r *recorder) add(ev Event) {
	if r.err != nil {
		return
	}
	ev.Version, ev.Seq, ev.Time, ev.Kind = EventVersion, r.s.Seq+1, r.e.Clock.Now().UTC(), kindOf(&ev)
	if len(r.events) == 0 {
		ev.Waited = r.s.sinceLast(ev.Time, r.sp.Waited)
	}
	if r.err = r.s.Apply(ev); r.err == nil {
		r.events = append(r.events, ev)
	}
}

// release records that the task is let go, unless it has not begun, has ended, was let go or waits for a human anyway.
func (r *recorder) release() {
	if s := r.s; s.Started() && s.End == nil && !s.Released && s.Question == nil && !s.Suspended {
		r.add(Event{Kind: KindReleased})
	}
}

// maxSettle bounds the events that may follow from one another without I/O. No state leads to that many; a fault that did
// would otherwise never end.
const maxSettle = 32

// settle records all that follows without I/O.
func (r *recorder) settle() (Step, error) {
	for range maxSettle {
		a := Decide(r.s, r.sp, r.e.Clock.Now())
		switch {
		case r.err != nil:
			return Step{}, r.err
		case a.Kind != ActionEmit:
			return Step{Events: r.events, Next: a}, nil
		}
		r.add(a.Event)
	}
	return Step{}, errors.New("the loop does not settle: " + string(r.events[len(r.events)-1].Kind))
}

func (e *Engine) backoff(failures int) time.Duration {
	if e.Backoff != nil {
		return e.Backoff(failures)
	}
	d := min(time.Second<<min(failures-1, 6), time.Minute)
	return d/2 + rand.N(d/2+1)
}
