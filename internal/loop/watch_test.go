package loop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// running is a call of one kind under way, in a bubble: what it does is the same for a model and for a tool.
type running struct {
	specs *looptest.Specs
	spec  loop.Spec
	calls int
	end   error         // why the call was broken off, nil when it was not
	took  time.Duration // from the task's start to its end
	state *loop.State
}

// eachKindOfCall runs the test for a task whose model call is the slow one, and for one whose tool call is.
func eachKindOfCall(t *testing.T, spec loop.Spec, slow func(*running, context.Context) error, check func(*testing.T, *running)) {
	for _, kind := range []string{"a model call", "a tool call"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &running{spec: spec}
				r.spec.Tools = []loop.ToolDefinition{{Name: "look"}}
				r.specs = looptest.NewSpecs(&r.spec)
				e := &loop.Engine{Clock: loop.ClockFunc(time.Now), Model: modelThat(calls("look"), nil)}
				if kind == "a model call" {
					e.Model = loop.ModelFunc(func(ctx context.Context, _ *loop.Request, _ func(int)) (*loop.Reply, error) {
						r.calls++
						r.end = slow(r, ctx)
						return says("TASK_COMPLETE: done"), r.end
					})
				}
				e.Tools = loop.ToolboxFunc(func(ctx context.Context, _ loop.ToolCall) loop.ToolResult {
					r.calls++
					r.end = slow(r, ctx)
					return loop.ToolResult{IsError: r.end != nil, Content: "seen"}
				})
				start := time.Now()
				r.state = opened(t, e, &r.spec)
				for r.calls == 0 {
					if _, err := e.Advance(t.Context(), r.state, r.specs); err != nil {
						t.Fatal(err)
					}
				}
				r.took = time.Since(start)
				check(t, r)
			})
		})
	}
}

// lasts is a call of that length, which ends with its context.
func lasts(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// change makes another spec the newest.
func (r *running) change(change func(*loop.Spec)) {
	sp := r.spec
	change(&sp)
	r.specs.Set(&sp)
}

// A limit that is moved while a call runs holds for that call, and breaks nothing off that still fits: what is broken off is
// paid for and gives nothing.
func TestARunningCallFollowsAMovedLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		moved, takes, ends time.Duration
		broken             bool
	}{
		"raised":                {moved: time.Hour, takes: 30 * time.Minute, ends: 30 * time.Minute},
		"removed":               {moved: 0, takes: 100 * time.Hour, ends: 100 * time.Hour},
		"raised, and too slow":  {moved: 20 * time.Minute, takes: time.Hour, ends: 20 * time.Minute, broken: true},
		"lowered, and it fits":  {moved: 6 * time.Minute, takes: 6*time.Minute - 1, ends: 6*time.Minute - 1},
		"lowered":               {moved: 6 * time.Minute, takes: time.Hour, ends: 6 * time.Minute, broken: true},
		"lowered below its use": {moved: time.Minute, takes: time.Hour, ends: 5 * time.Minute, broken: true},
		"left alone":            {moved: 10 * time.Minute, takes: time.Hour, ends: 10 * time.Minute, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			eachKindOfCall(t, loop.Spec{MaxDuration: 10 * time.Minute}, func(r *running, ctx context.Context) error {
				time.Sleep(5 * time.Minute)
				r.change(func(sp *loop.Spec) { sp.MaxDuration = tc.moved })
				return lasts(ctx, tc.takes-5*time.Minute)
			}, func(t *testing.T, r *running) {
				if r.took != tc.ends || (r.end != nil) != tc.broken || r.calls != 1 {
					t.Errorf("%d calls took %s (%v), want one of %s", r.calls, r.took, r.end, tc.ends)
				}
				if ended := r.state.ExitReason() == loop.ExitTimeBudgetExceeded; ended != tc.broken {
					t.Errorf("it ends as %q", r.state.ExitReason())
				}
			})
		})
	}
}

// A limit comes with a task that had none, too.
func TestARunningCallFollowsANewLimit(t *testing.T) {
	eachKindOfCall(t, loop.Spec{}, func(r *running, ctx context.Context) error {
		r.change(func(sp *loop.Spec) { sp.MaxDuration = time.Minute })
		return lasts(ctx, time.Hour)
	}, func(t *testing.T, r *running) {
		if r.took != time.Minute || r.state.ExitReason() != loop.ExitTimeBudgetExceeded {
			t.Errorf("after %s: %q", r.took, r.state.ExitReason())
		}
	})
}

// Nobody but the engine watches for a cancel, and it ends the call at once. Everything else waits for the call's end.
func TestWhatEndsARunningCall(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*loop.Spec)
		ends   error
	}{
		"cancel":           {func(sp *loop.Spec) { sp.Cancel = true }, loop.ErrCancelled},
		"suspend":          {func(sp *loop.Spec) { sp.Suspend = true }, nil},
		"fewer turns":      {func(sp *loop.Spec) { sp.MaxIterations = 1 }, nil},
		"fewer tokens":     {func(sp *loop.Spec) { sp.MaxTokens = 1 }, nil},
		"an answer":        {func(sp *loop.Spec) { sp.ResumeInput = "yes" }, nil},
		"a spec that errs": {func(sp *loop.Spec) { sp.Held = true }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			eachKindOfCall(t, loop.Spec{}, func(r *running, ctx context.Context) error {
				time.Sleep(time.Minute)
				r.change(tc.change)
				return lasts(ctx, time.Minute)
			}, func(t *testing.T, r *running) {
				want := 2 * time.Minute
				if tc.ends != nil {
					want = time.Minute
				}
				cancelled := r.state.ExitReason() == loop.ExitCancelled
				if !errors.Is(r.end, tc.ends) || r.took != want || cancelled != (tc.ends != nil) {
					t.Errorf("after %s: %v, and the task is %q", r.took, r.end, r.state.ExitReason())
				}
			})
		})
	}
}

// A cancel that is taken back once it has broken a call off is a cancel all the same: what it ended is gone.
func TestACancelThatBrokeACallOffHolds(t *testing.T) {
	eachKindOfCall(t, loop.Spec{}, func(r *running, ctx context.Context) error {
		r.change(func(sp *loop.Spec) { sp.Cancel = true })
		defer r.change(func(*loop.Spec) {})
		return lasts(ctx, time.Hour)
	}, func(t *testing.T, r *running) {
		if r.state.ExitReason() != loop.ExitCancelled {
			t.Errorf("the task is %q", r.state.ExitReason())
		}
	})
}

// maxTokens is what the spec says at each chunk that streams.
func TestAStreamIsCutByTheBudgetOfTheMoment(t *testing.T) {
	const chunk = 400 // bytes, about 100 tokens
	for name, tc := range map[string]struct {
		moved       int64
		finish      loop.FinishReason
		least, most int64
		exit        loop.ExitReason
	}{
		"left alone": {moved: 10_000, finish: loop.FinishCut, least: 10_000, most: 10_101, exit: loop.ExitTokenBudgetExceeded},
		"raised":     {moved: 100_000, finish: loop.FinishStop, least: 20_000, most: 25_000},
		"removed":    {moved: 0, finish: loop.FinishStop, least: 20_000, most: 25_000},
		"lowered":    {moved: 5000, finish: loop.FinishCut, least: 5000, most: 5101, exit: loop.ExitTokenBudgetExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			spec := loop.Spec{MaxTokens: 10_000}
			specs := looptest.NewSpecs(&spec)
			e := &loop.Engine{Clock: looptest.NewClock(), Model: loop.ModelFunc(func(ctx context.Context, _ *loop.Request, onBytes func(int)) (*loop.Reply, error) {
				text := ""
				for n := range 200 {
					if n == 20 {
						moved := spec
						moved.MaxTokens = tc.moved
						specs.Set(&moved)
					}
					text += strings.Repeat("x", chunk)
					if onBytes(chunk); ctx.Err() != nil {
						return says(text), ctx.Err()
					}
				}
				return says(text), nil
			})}
			s := opened(t, e, &spec)
			step, err := e.Advance(t.Context(), s, specs)
			if err != nil {
				t.Fatal(err)
			}
			if got := step.Events[0].ModelReplied.Reply.Finish; got != tc.finish || s.ExitReason() != tc.exit {
				t.Errorf("the reply is %q and the task %q, want %q and %q", got, s.ExitReason(), tc.finish, tc.exit)
			}
			if n := s.Usage.Total(); n < tc.least || n > tc.most {
				t.Errorf("%d tokens, want %d to %d", n, tc.least, tc.most)
			}
		})
	}
}

// When the call has ended, nothing watches any more: the bubble would not end while a goroutine is left in it.
func TestTheWatchEndsWithItsCall(t *testing.T) {
	eachKindOfCall(t, loop.Spec{MaxDuration: time.Hour}, func(_ *running, ctx context.Context) error {
		return lasts(ctx, time.Second)
	}, func(t *testing.T, r *running) {
		if r.took != time.Second || r.end != nil {
			t.Errorf("after %s: %v", r.took, r.end)
		}
	})
}
