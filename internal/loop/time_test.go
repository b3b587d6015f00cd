package loop_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// rig is a task that runs in a synctest bubble, where time passes only while everybody waits.
type rig struct {
	t     *testing.T
	spec  loop.Spec
	model func(context.Context, *loop.Request, func(int)) (*loop.Reply, error)
	tool  func(context.Context, loop.ToolCall) loop.ToolResult
	state *loop.State
	log   []loop.Event
	next  loop.Action
}

func (r *rig) engine() *loop.Engine {
	return &loop.Engine{
		Clock: loop.ClockFunc(time.Now), Model: loop.ModelFunc(r.model), Tools: loop.ToolboxFunc(r.tool),
		Backoff: func(int) time.Duration { return time.Second },
	}
}

// open lets a new holder take over: it knows the journal only.
func (r *rig) open() {
	r.t.Helper()
	s, err := loop.Fold(r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	r.state = s
	r.keep(r.engine().Open(s, &r.spec, loop.Opened{Holder: "test"}))
}

func (r *rig) keep(step loop.Step, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	r.log, r.next = append(r.log, step.Events...), step.Next
}

// run goes on until the task has ended or waits for a human, and sleeps where it waits for a time.
func (r *rig) run() {
	r.t.Helper()
	for range 50 {
		switch {
		case r.next.Kind == loop.ActionDone, r.next.Kind == loop.ActionWait && r.next.Until.IsZero():
			return
		case r.next.Kind == loop.ActionWait:
			time.Sleep(time.Until(r.next.Until))
		}
		r.keep(r.engine().Advance(r.t.Context(), r.state, loop.FixedSpec(&r.spec)))
	}
	r.t.Fatal("the task has no end")
}

func says(text string) *loop.Reply {
	return &loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockText, Text: text}}, Finish: loop.FinishStop}
}

func calls(name string) *loop.Reply {
	return &loop.Reply{ToolCalls: []loop.ToolCall{{ID: "c", Name: name}}, Finish: loop.FinishToolCalls}
}

// hang is a call that nothing but the end of its context ends.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// onlyHangsFor is a model that hangs for one purpose, and takes a minute for the others.
func onlyHangsFor(p loop.Purpose, otherwise string) func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
	return func(ctx context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
		if req.Purpose == p {
			return nil, hang(ctx)
		}
		time.Sleep(time.Minute)
		return says(otherwise), nil
	}
}

// hungCall is one way in which a task hangs, and how it ends.
type hungCall struct {
	why    string
	spec   loop.Spec
	model  func(context.Context, *loop.Request, func(int)) (*loop.Reply, error)
	tool   func(context.Context, loop.ToolCall) loop.ToolResult
	exit   loop.ExitReason
	output string
}

var hungCalls = map[string]hungCall{
	"a model call": {
		why: "a server that never answers", model: onlyHangsFor(loop.PurposeTurn, ""), exit: loop.ExitTimeBudgetExceeded,
	},
	"a model call that streams": {
		why: "what had arrived is kept",
		model: func(ctx context.Context, _ *loop.Request, onBytes func(int)) (*loop.Reply, error) {
			onBytes(7)
			time.Sleep(9 * time.Minute)
			return says("partial"), hang(ctx)
		},
		exit: loop.ExitTimeBudgetExceeded, output: "partial",
	},
	"a tool": {
		why: "a tool that never returns",
		model: func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
			time.Sleep(3 * time.Minute)
			return calls("slow"), nil
		},
		tool: func(ctx context.Context, _ loop.ToolCall) loop.ToolResult {
			_ = hang(ctx)
			return loop.ToolResult{Content: "interrupted", IsError: true}
		},
		exit: loop.ExitTimeBudgetExceeded,
	},
	"the judge": {
		why: "a judge is a call like any other", spec: loop.Spec{Strategy: loop.StrategyJudge},
		model: onlyHangsFor(loop.PurposeJudge, "the work"), exit: loop.ExitTimeBudgetExceeded, output: "the work",
	},
	"the wrap-up": {
		why: "it stays inside what is left, and the reason stays the limit's", spec: loop.Spec{WrapUp: true, MaxIterations: 1},
		model: onlyHangsFor(loop.PurposeWrapUp, "the work"), exit: loop.ExitIterationCapReached, output: "the work",
	},
	"a compaction": {
		why: "a compaction is a call like any other", spec: loop.Spec{ContextWindowTokens: 10},
		model: onlyHangsFor(loop.PurposeCompaction, "the work"), exit: loop.ExitTimeBudgetExceeded, output: "the work",
	},
	"the wait for a retry": {
		why: "a limit holds while the loop only waits",
		model: func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
			return nil, &loop.ModelError{Cause: loop.CauseModelRateLimited, Retry: true, RetryAfter: time.Hour, Detail: "Busy."}
		},
		exit: loop.ExitTimeBudgetExceeded,
	},
}

// The time budget is one deadline on every call: however a call hangs, the task ends at it, to the nanosecond.
func TestTimeBudgetInterruptsEveryHungCall(t *testing.T) {
	const limit = 10 * time.Minute
	for name, c := range hungCalls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{t: t, spec: c.spec, model: c.model, tool: c.tool}
				r.spec.MaxDuration, r.spec.Tools = limit, []loop.ToolDefinition{{Name: "slow"}}
				start := time.Now()
				r.open()
				r.run()
				if got := time.Since(start); got != limit {
					t.Errorf("the task ended after %s, want %s: %s", got, limit, c.why)
				}
				if r.state.ExitReason() != c.exit || r.state.Output != c.output {
					t.Errorf("exit %q with output %q, want %q with %q: %s", r.state.ExitReason(), r.state.Output, c.exit, c.output, c.why)
				}
				if got := r.state.Active(time.Now()); got != limit {
					t.Errorf("active for %s, want %s", got, limit)
				}
			})
		})
	}
}

// The clock stands still while a human is asked and while the task is suspended, and runs on over a restart.
func TestTimeBudgetOverPausesAndRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		turn := 0
		r := &rig{t: t, spec: loop.Spec{MaxDuration: 10 * time.Minute}}
		r.model = func(ctx context.Context, _ *loop.Request, _ func(int)) (*loop.Reply, error) {
			if turn++; turn == 1 {
				time.Sleep(2 * time.Minute)
				return says("NEED_INPUT: which?"), nil
			}
			return nil, hang(ctx)
		}
		r.open()
		r.run()
		time.Sleep(5 * time.Hour) // a human thinks
		r.open()                  // and an operator restarts meanwhile
		time.Sleep(5 * time.Hour)
		if got := r.state.Active(time.Now()); got != 2*time.Minute {
			t.Fatalf("active for %s while a human is asked, want 2m", got)
		}
		r.spec.ResumeInput, r.spec.Told, r.spec.Suspend = "that", r.state.Question.ID, true
		r.keep(r.engine().Settle(r.state, &r.spec))
		time.Sleep(5 * time.Hour) // suspended
		r.open()
		time.Sleep(5 * time.Hour)
		if got := r.state.Active(time.Now()); got != 2*time.Minute {
			t.Fatalf("active for %s while suspended, want 2m", got)
		}
		r.spec.Suspend = false
		r.keep(r.engine().Settle(r.state, &r.spec))
		time.Sleep(3 * time.Minute) // the operator is away
		r.open()
		r.run()
		if got, want := time.Since(start), 20*time.Hour+10*time.Minute; got != want {
			t.Errorf("the task ended after %s, want %s", got, want)
		}
		if r.state.ExitReason() != loop.ExitTimeBudgetExceeded {
			t.Errorf("exit %q, want TimeBudgetExceeded", r.state.ExitReason())
		}
	})
}

// An input timeout is exact, and needs no clock of the task's.
func TestInputTimeoutIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, spec: loop.Spec{InputTimeout: 36 * time.Hour, MaxDuration: time.Minute}}
		r.model = func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
			return says("NEED_INPUT: which?"), nil
		}
		start := time.Now()
		r.open()
		r.run()
		if got := time.Since(start); got != 36*time.Hour || r.state.ExitReason() != loop.ExitInputTimeout {
			t.Errorf("%s after %s, want InputTimeout after 36h", r.state.ExitReason(), got)
		}
	})
}
