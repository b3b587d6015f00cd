package loop_test

import (
	"context"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// aTask is one task with a clock of its own, and the journal it leaves.
type aTask struct {
	t       *testing.T
	clock   *looptest.Clock
	engine  *loop.Engine
	spec    loop.Spec
	state   *loop.State
	journal []loop.Event
	next    loop.Action
	// takes is how long each model call lasts, reply and fails what it gives.
	takes time.Duration
	reply *loop.Reply
	fails error
}

func newTask(t *testing.T, spec loop.Spec) *aTask {
	a := &aTask{t: t, clock: looptest.NewClock(), spec: spec, state: &loop.State{}, reply: says("Working.")}
	a.engine = &loop.Engine{
		Clock:   a.clock,
		Backoff: func(int) time.Duration { return time.Minute },
		Model: loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
			a.clock.Add(a.takes)
			if a.fails != nil {
				return nil, a.fails
			}
			reply := *a.reply
			return &reply, nil
		}),
		Tools: loop.ToolboxFunc(func(context.Context, loop.ToolCall) loop.ToolResult { return loop.ToolResult{Content: "seen"} }),
	}
	a.open(loop.Opened{Holder: "one"})
	return a
}

// keep is what a controller does after each step: what was waited is told once.
func (a *aTask) keep(step loop.Step, err error) loop.Step {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
	if len(step.Events) > 0 {
		a.spec.Waited = 0
	}
	a.journal, a.next = append(a.journal, step.Events...), step.Next
	looptest.SameState(a.t, a.state, folded(a.t, a.journal))
	return step
}

func (a *aTask) advance() loop.Step {
	a.t.Helper()
	return a.keep(a.engine.Advance(a.t.Context(), a.state, loop.FixedSpec(&a.spec)))
}

func (a *aTask) settle() loop.Step { a.t.Helper(); return a.keep(a.engine.Settle(a.state, &a.spec)) }

// open lets a holder take the task over that knows its journal alone.
func (a *aTask) open(o loop.Opened) loop.Opened {
	a.t.Helper()
	a.state = folded(a.t, a.journal)
	step := a.keep(a.engine.Open(a.state, &a.spec, o))
	return *step.Events[0].Opened
}

func (a *aTask) release() { a.t.Helper(); a.keep(a.engine.Release(a.state, &a.spec)) }

// wait is time in which the task waits for a slot.
func (a *aTask) wait(d time.Duration) {
	a.clock.Add(d)
	a.spec.Waited += d
}

func (a *aTask) active(want time.Duration) {
	a.t.Helper()
	if got := a.spec.Active(a.state, a.clock.Now()); got != want {
		a.t.Errorf("active for %s, want %s", got, want)
	}
}
