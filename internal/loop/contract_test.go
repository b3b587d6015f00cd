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

// Providers refuse a result that names no call of theirs.
func TestEveryResultNamesItsCall(t *testing.T) {
	scenarios, err := looptest.Load("testdata/scenarios")
	if err != nil {
		t.Fatal(err)
	}
	for i := range scenarios {
		var calls []loop.ToolCall
		for _, e := range looptest.Play(t, &scenarios[i]).Journal() {
			if e.ModelReplied != nil {
				calls = e.ModelReplied.Reply.ToolCalls
			}
			if e.CallsStarted != nil && len(e.CallsStarted.CallIDs) != len(calls) {
				t.Errorf("%s: %v of %v begin", scenarios[i].Name, e.CallsStarted.CallIDs, calls)
			}
			if e.ToolsReturned == nil {
				continue
			}
			for n, r := range e.ToolsReturned.Results {
				if r.CallID != calls[n].ID || r.Name != calls[n].Name {
					t.Errorf("%s: result %d is %+v, of call %+v", scenarios[i].Name, n, r, calls[n])
				}
			}
		}
	}
}

func TestAWaitForARetryEndsWithTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, spec: loop.Spec{MaxDuration: 10 * time.Minute}, model: func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
			time.Sleep(3 * time.Minute)
			return nil, &loop.ModelError{Cause: loop.CauseModelRateLimited, Retry: true, RetryAfter: time.Hour, Detail: "Busy."}
		}}
		start := time.Now()
		r.open()
		r.run()
		if got := time.Since(start); got != 10*time.Minute {
			t.Errorf("ended after %s", got)
		}
	})
}

func TestWhatAModelAndItsToolsAreGiven(t *testing.T) {
	var tools []string
	var calls []loop.ToolCall
	var seq []int
	n := 0
	e := &loop.Engine{Clock: looptest.NewClock(), Backoff: func(int) time.Duration { return 0 }, Model: loop.ModelFunc(func(_ context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
		tools = nil
		for _, d := range req.Tools {
			tools = append(tools, d.Name)
		}
		seq = append(seq, req.Sequence)
		if n++; n == 1 {
			return nil, errors.New("down")
		}
		return &loop.Reply{ToolCalls: []loop.ToolCall{{ID: "a", Name: "look"}, {ID: "b", Name: "look", Arguments: "null"}}}, nil
	}), Tools: loop.ToolboxFunc(func(_ context.Context, c loop.ToolCall) loop.ToolResult {
		calls = append(calls, c)
		return loop.ToolResult{Content: strings.Repeat("x\xff", 200<<10)}
	}), MaxParallelCalls: 1}
	sp := &loop.Spec{Tools: []loop.ToolDefinition{{Name: "look"}, {Name: "todo"}}}
	s := opened(t, e, sp)
	var last loop.Step
	for range 3 {
		step, err := e.Advance(t.Context(), s, loop.FixedSpec(sp))
		if err != nil {
			t.Fatal(err)
		}
		last = step
	}
	if got := strings.Join(tools, " "); got != "task_complete need_input todo look" {
		t.Errorf("tools %s", got)
	}
	if len(seq) != 2 || seq[1] != 1 {
		t.Errorf("sequence %v", seq)
	}
	for _, c := range calls {
		if c.Arguments != "{}" {
			t.Errorf("arguments %q", c.Arguments)
		}
	}
	size := 0
	for _, r := range last.Events[0].ToolsReturned.Results {
		size += len(r.Content)
		if strings.Contains(r.Content, "\xff") {
			t.Error("broken text is kept")
		}
	}
	if size > 512<<10 {
		t.Errorf("%d bytes", size)
	}
}

// An answer is in the journal before anything follows from it.
func TestAStepThatHasSomethingToRecordDoesOnlyThat(t *testing.T) {
	e := &loop.Engine{Clock: looptest.NewClock(), Model: modelThat(says("NEED_INPUT: which?"), nil)}
	sp := &loop.Spec{}
	s := opened(t, e, sp)
	if _, err := e.Advance(t.Context(), s, loop.FixedSpec(sp)); err != nil {
		t.Fatal(err)
	}
	sp.ResumeInput, sp.Told = "that", s.Question.ID
	step, err := e.Advance(t.Context(), s, loop.FixedSpec(sp))
	if err != nil || step.Called || len(step.Events) != 1 || step.Events[0].Answered == nil {
		t.Errorf("%+v, %v", step, err)
	}
}

// A provider bills what it has read, also when its answer never came.
func TestARequestThatWasSentIsCharged(t *testing.T) {
	for sent, charged := range map[bool]bool{true: true, false: false} {
		e := &loop.Engine{Clock: looptest.NewClock(), Model: modelThat(nil, &loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true, Sent: sent})}
		sp := &loop.Spec{Prompt: strings.Repeat("x", 3000)}
		s := opened(t, e, sp)
		step, err := e.Advance(t.Context(), s, loop.FixedSpec(sp))
		if err != nil {
			t.Fatal(err)
		}
		if u := s.Usage; (u.InputTokens >= 1000) != charged || u.Estimated != charged || u.OutputTokens != 0 {
			t.Errorf("sent %v: %+v after %+v", sent, u, step.Events)
		}
	}
}
