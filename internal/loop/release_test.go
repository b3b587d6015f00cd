package loop_test

import (
	"context"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// stop breaks a call off as the operator shuts down.
func (a *aTask) stop() {
	ctx, cancel := context.WithCancelCause(a.t.Context())
	model := a.engine.Model
	defer func() { a.engine.Model = model }()
	a.engine.Model = loop.ModelFunc(func(ctx context.Context, _ *loop.Request, _ func(int)) (*loop.Reply, error) {
		cancel(loop.ErrShuttingDown)
		<-ctx.Done()
		return says("half of"), ctx.Err()
	})
	a.keep(a.engine.Advance(ctx, a.state, loop.FixedSpec(&a.spec)))
}

// A task that was let go is opened before its next call, or the call would be charged to nobody if it were lost.
func TestATaskThatWasLetGoIsOpenedBeforeItsNextCall(t *testing.T) {
	for name, tc := range map[string]struct{ letGo func(*aTask) }{
		"by its holder":   {(*aTask).release},
		"as it shut down": {(*aTask).stop},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTask(t, loop.Spec{})
			tc.letGo(a)
			calls := a.state.Usage
			step, err := a.engine.Advance(a.t.Context(), a.state, loop.FixedSpec(&a.spec))
			if err == nil || len(step.Events) != 0 || step.Called || a.state.Usage != calls {
				t.Fatalf("%+v, %v", step, err)
			}
			a.release() // once is enough
			a.spec.Suspend = true
			a.settle() // what needs no call goes on
			a.spec.Suspend = false
			a.open(loop.Opened{Holder: "two"})
			a.advance()
			released := 0
			for _, e := range a.journal {
				if e.Kind == loop.KindReleased {
					released++
				}
			}
			if released != 1 || a.state.Iterations != 1 || a.state.Attempts != 0 {
				t.Errorf("%d releases, %d turns, %d attempts", released, a.state.Iterations, a.state.Attempts)
			}
		})
	}
}

// Restarts of operators that let their tasks go bring no task nearer to being given up, and cost it nothing.
func TestRestartsAreNoCrashes(t *testing.T) {
	a := newTask(t, loop.Spec{MaxTurnAttempts: 2, MaxTokens: 50_000})
	for range 10 {
		a.release()
		a.clock.Add(time.Hour)
		a.open(loop.Opened{Holder: "next"})
	}
	if a.state.Attempts != 0 || a.state.Usage.Total() != 0 {
		t.Errorf("%d attempts, %+v", a.state.Attempts, a.state.Usage)
	}
	a.active(0)
}

// Two operators that work on the same task take it from one another. That is no crash, however often; but each may have had
// a call under way, which is charged.
func TestRivalsAreNoCrashes(t *testing.T) {
	a := newTask(t, loop.Spec{MaxTurnAttempts: 3})
	for n := range 20 {
		a.clock.Add(15 * time.Second)
		if o := a.open(loop.Opened{Holder: "rival", Rival: true}); o.Lost == nil || !o.Rival {
			t.Fatalf("taking it back for the %dth time: %+v", n, o)
		}
	}
	if a.state.End != nil || a.state.Attempts != 0 || !a.state.Usage.Estimated {
		t.Errorf("%d attempts, %+v, end %+v", a.state.Attempts, a.state.Usage, a.state.End)
	}
	a.active(20 * 15 * time.Second)
}
