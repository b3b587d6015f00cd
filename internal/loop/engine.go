package loop

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Engine performs actions. It is safe for use by many tasks at once; a task's State is not.
type Engine struct {
	Clock Clock
	// Model answers turns, wrap-ups and compactions, Judge gives verdicts; a nil Judge means Model.
	Model Model
	Judge Model
	// Tools runs the calls of all tools but the built-in ones.
	Tools Toolbox
	// MaxParallelCalls bounds the tool calls of one reply that run at once; 0 means 8.
	MaxParallelCalls int
	// Fresh gives the spec as it is after a call, which may have taken long: what follows from the call is decided by that
	// one, and questions are asked of who has seen them. Nil for the one before.
	Fresh func() *Spec
	// Limits tells while tool calls run that maxDuration may have changed, and MaxDuration what it is now: a tool call is not
	// made again, so it is not broken off for a limit that was moved. Nil for one that does not move.
	Limits      <-chan struct{}
	MaxDuration func() time.Duration
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

// Open records that a holder took the journal over, with everything that follows from that without I/O.
// A task that has ended is not opened: no event follows its end.
func (e *Engine) Open(s *State, sp *Spec, opened Opened) (Step, error) {
	if s.End != nil {
		return Step{Next: done()}, nil
	}
	var events []Event
	if err := e.record(s, &events, Event{Opened: &opened}); err != nil {
		return Step{}, err
	}
	return e.settle(s, sp, events)
}

// Advance performs the next action: at most one model call or one set of tool calls, and everything that follows from it
// without further I/O. When there is something to record first (an answer, a suspension, that approved calls are about to
// run), it does only that.
//
// A *WaitError says that the model could not be called now; the step may hold an event all the same. ErrLostLease says that
// another holder runs the task: nothing that came of the call may be kept, and it leaves no events.
func (e *Engine) Advance(ctx context.Context, s *State, sp *Spec) (Step, error) {
	step, err := e.settle(s, sp, nil)
	if err != nil || len(step.Events) > 0 {
		return step, err
	}
	var events []Event
	switch step.Next.Kind {
	case ActionCallModel:
		events, err = e.callModel(ctx, s, sp, step.Next)
	case ActionRunTools:
		if !s.turn.started { // an approval is used up by this alone, right before the calls are run by the next Advance
			events = []Event{{CallsStarted: &CallsStarted{CallIDs: callIDs(s.turn.reply.ToolCalls)}}}
			break
		}
		events, err = e.callTools(ctx, s, sp)
	default:
		return step, nil
	}
	if err != nil {
		step, recordErr := e.waited(s, step.Next, err)
		return step, errors.Join(err, recordErr)
	}
	if e.Fresh != nil {
		sp = e.Fresh()
	}
	if errors.Is(context.Cause(ctx), ErrCancelled) && !sp.Cancel {
		cancelled := *sp // the spec that cancels may not have reached us yet, only its interrupt
		cancelled.Cancel = true
		sp = &cancelled
	}
	var recorded []Event
	for _, ev := range events {
		if err := e.record(s, &recorded, ev); err != nil {
			return Step{}, err
		}
	}
	called := step.Next.Kind == ActionCallModel
	step, err = e.settle(s, sp, recorded)
	step.Called = called
	return step, err
}

// waited notes, once for each opening, that nothing was under way: to wait for a model is no attempt at a turn.
func (e *Engine) waited(s *State, next Action, err error) (Step, error) {
	step := Step{Next: next}
	if wait := (*WaitError)(nil); !errors.As(err, &wait) || s.Attempts == 0 {
		return step, nil
	}
	err = e.record(s, &step.Events, Event{Kind: KindWaited})
	return step, err
}

// Settle records what follows from the spec and the time without I/O, such as an answer, a cancel or a limit.
func (e *Engine) Settle(s *State, sp *Spec) (Step, error) { return e.settle(s, sp, nil) }

// Seen records that spec.resumeInput held something else than was known when the open question was asked.
func (e *Engine) Seen(s *State, inputHash string) (Step, error) {
	var events []Event
	err := e.record(s, &events, Event{InputSeen: &InputSeen{InputHash: inputHash}})
	return Step{Events: events}, err
}

// Finish ends the task from outside the loop, such as for a spec that cannot be run. It changes nothing of a task that has
// ended.
func (e *Engine) Finish(s *State, f Finished) (Step, error) {
	if s.End != nil {
		return Step{Next: done()}, nil
	}
	var events []Event
	err := e.record(s, &events, Event{Finished: &f})
	return Step{Events: events, Next: done()}, err
}

// maxSettle bounds the events that may follow from one another without I/O. No state leads to that many; a fault that did
// would otherwise never end.
const maxSettle = 32

// settle records all that follows without I/O.
func (e *Engine) settle(s *State, sp *Spec, events []Event) (Step, error) {
	for range maxSettle {
		a := Decide(s, sp, e.Clock.Now())
		if a.Kind != ActionEmit {
			return Step{Events: events, Next: a}, nil
		}
		if err := e.record(s, &events, a.Event); err != nil {
			return Step{}, err
		}
	}
	return Step{}, errors.New("the loop does not settle: " + string(events[len(events)-1].Kind))
}

// record stamps an event, folds it and adds it to events.
func (e *Engine) record(s *State, events *[]Event, ev Event) error {
	ev.Version, ev.Seq, ev.Time = EventVersion, s.Seq+1, e.Clock.Now().UTC()
	ev.Kind = kindOf(&ev)
	if err := s.Apply(&ev); err != nil {
		return err
	}
	*events = append(*events, ev)
	return nil
}

func (e *Engine) backoff(failures int) time.Duration {
	if e.Backoff != nil {
		return e.Backoff(failures)
	}
	d := min(time.Second<<min(failures-1, 6), time.Minute)
	return d/2 + rand.N(d/2+1)
}

// withMovingLimit bounds ctx by what is left of the task's time, also when that changes.
func (e *Engine) withMovingLimit(ctx context.Context, s *State, sp *Spec) (context.Context, context.CancelFunc) {
	if e.MaxDuration == nil {
		return withTimeLimit(ctx, s, sp, e.Clock.Now())
	}
	limited, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for most := sp.MaxDuration; ; {
			var due <-chan time.Time
			if most > 0 {
				due = time.After(most - s.Active(e.Clock.Now()))
			}
			was, late := most, false
			select {
			case <-limited.Done():
				return
			case <-e.Limits:
			case <-due:
				late = true
			}
			if most = e.MaxDuration(); late && most == was {
				cancel(errTimeBudget)
				return
			}
		}
	}()
	return limited, func() {
		cancel(nil)
		<-over
	}
}

// withTimeLimit bounds ctx by what is left of the task's time.
func withTimeLimit(ctx context.Context, s *State, sp *Spec, now time.Time) (context.Context, context.CancelFunc) {
	if sp.MaxDuration <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, sp.MaxDuration-s.Active(now), errTimeBudget)
}
