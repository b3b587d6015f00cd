package loop_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

func opened(t *testing.T, e *loop.Engine, sp *loop.Spec) *loop.State {
	t.Helper()
	s := &loop.State{}
	if _, err := e.Open(s, sp, loop.Opened{Holder: "test", ToolDigests: map[string]string{"look": "d"}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func modelThat(reply *loop.Reply, err error) loop.Model {
	return loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) { return reply, err })
}

// An end is final: opening or finishing the task again adds no event.
func TestNothingFollowsTheEnd(t *testing.T) {
	e := &loop.Engine{Clock: looptest.NewClock()}
	s := opened(t, e, &loop.Spec{})
	step, err := e.Finish(s, &loop.Spec{}, loop.Finished{Reason: loop.ExitError, Cause: loop.CauseInternalError, Message: "It broke."})
	if err != nil || len(step.Events) != 1 || s.ExitReason() != loop.ExitError {
		t.Fatalf("%+v, %v", step, err)
	}
	seq, ended := s.Seq, s.EndedAt
	for what, do := range map[string]func() (loop.Step, error){
		"Finish":  func() (loop.Step, error) { return e.Finish(s, &loop.Spec{}, loop.Finished{Reason: loop.ExitCompleted}) },
		"Open":    func() (loop.Step, error) { return e.Open(s, &loop.Spec{}, loop.Opened{Holder: "other"}) },
		"Settle":  func() (loop.Step, error) { return e.Settle(s, &loop.Spec{Cancel: true}) },
		"Advance": func() (loop.Step, error) { return e.Advance(t.Context(), s, loop.FixedSpec(&loop.Spec{Cancel: true})) },
	} {
		step, err := do()
		if err != nil || len(step.Events) != 0 || step.Next.Kind != loop.ActionDone {
			t.Errorf("%s after the end: %+v, %v", what, step, err)
		}
	}
	if s.Seq != seq || s.ExitReason() != loop.ExitError || s.EndedAt != ended || s.Holder != "test" {
		t.Errorf("the end changed: %+v", s)
	}
}

// A journal with a gap and one of a newer operator are refused, not guessed at.
func TestFoldRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, events := range map[string][]loop.Event{
		"a gap":         {{Version: 1, Seq: 1, Opened: &loop.Opened{}}, {Version: 1, Seq: 3, Nudged: &loop.Nudged{}}},
		"twice":         {{Version: 1, Seq: 1, Opened: &loop.Opened{}}, {Version: 1, Seq: 1, Nudged: &loop.Nudged{}}},
		"a newer event": {{Version: loop.EventVersion + 1, Seq: 1, Opened: &loop.Opened{}}},
	} {
		if s, err := loop.Fold(events); err == nil || s != nil {
			t.Errorf("%s: %v, %v", name, s, err)
		}
		s := &loop.State{}
		var err error
		for i := range events {
			if err == nil {
				err = s.Apply(events[i])
			}
		}
		if err == nil {
			t.Errorf("%s: applied", name)
		}
	}
}

// A kind of event that this version does not know, of a schema that it does, changes nothing.
func TestFoldIgnoresUnknownKinds(t *testing.T) {
	s, err := loop.Fold([]loop.Event{{Version: 1, Seq: 1, Kind: "Other"}, {Seq: 2, ToolsReturned: &loop.ToolsReturned{}}})
	if err != nil || s.Seq != 2 || s.Started() || !s.BetweenTurns() || s.ExitReason() != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

// Errors that no provider should give are tried again, and never show what is in them.
func TestUnknownModelErrorsAreRetried(t *testing.T) {
	below := errors.New("Bearer sk-secret")
	for name, c := range map[string]struct {
		err   error
		cause loop.Cause
	}{
		"no reply and no error": {nil, loop.CauseModelReplyInvalid},
		"any error":             {below, loop.CauseModelUnavailable},
		"a model error":         {&loop.ModelError{Cause: loop.CauseModelRateLimited, Retry: true, Status: 429, Detail: "Busy.", Err: below}, loop.CauseModelRateLimited},
	} {
		e := &loop.Engine{Clock: looptest.NewClock(), Model: modelThat(nil, c.err)}
		s := opened(t, e, &loop.Spec{})
		step, err := e.Advance(t.Context(), s, loop.FixedSpec(&loop.Spec{}))
		if err != nil || !step.Called {
			t.Fatal(err)
		}
		f := s.LastFailure
		if f == nil || f.Cause != c.cause || !f.Retry || strings.Contains(f.Message, "secret") || step.Next.Kind != loop.ActionWait {
			t.Errorf("%s: %+v, then %+v", name, f, step.Next)
		}
	}
	if !errors.Is(&loop.ModelError{Err: below}, below) {
		t.Error("the error below is lost")
	}
}

// Without a backoff of its own the engine waits from half a second up to a minute.
func TestBackoffGrowsAndIsBounded(t *testing.T) {
	sp := &loop.Spec{Retry: loop.Retry{MaxAttempts: 20}}
	clock := looptest.NewClock()
	e := &loop.Engine{Clock: clock, Model: modelThat(nil, errors.New("down"))}
	s := opened(t, e, sp)
	for n := range 15 {
		step, err := e.Advance(t.Context(), s, loop.FixedSpec(sp))
		if err != nil {
			t.Fatal(err)
		}
		want := min(time.Second<<n, time.Minute)
		if got := step.Next.Until.Sub(clock.Now()); got < want/2 || got > want {
			t.Errorf("after failure %d it waits %s, want %s to %s", n+1, got, want/2, want)
		}
		clock.Add(step.Next.Until.Sub(clock.Now()))
	}
}

// The judge may be a model of its own, and counts its calls by itself.
func TestJudgeOfItsOwn(t *testing.T) {
	var seen []int
	e := &loop.Engine{Clock: looptest.NewClock(), Model: modelThat(says("work"), nil)}
	e.Judge = loop.ModelFunc(func(_ context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
		seen = append(seen, req.Sequence)
		return says("VERDICT: MORE"), nil
	})
	sp := &loop.Spec{Strategy: loop.StrategyJudge, MaxIterations: 3}
	s := opened(t, e, sp)
	for range 6 {
		if _, err := e.Advance(t.Context(), s, loop.FixedSpec(sp)); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 2 || seen[0] != 0 || seen[1] != 1 || s.ExitReason() != loop.ExitIterationCapReached {
		t.Errorf("the judge saw %v, exit %q", seen, s.ExitReason())
	}
}

// Calls of one reply run at once up to the limit, and their results come in the order of the calls.
func TestParallelCallsAreBoundedAndOrdered(t *testing.T) {
	for limit, want := range map[int]int64{0: 8, 3: 3} {
		synctest.Test(t, func(t *testing.T) {
			var running, most atomic.Int64
			reply := &loop.Reply{}
			for i := range 20 {
				reply.ToolCalls = append(reply.ToolCalls, loop.ToolCall{ID: string(rune('a' + i)), Name: "look"})
			}
			e := &loop.Engine{Clock: loop.ClockFunc(time.Now), Model: modelThat(reply, nil), MaxParallelCalls: limit}
			e.Tools = loop.ToolboxFunc(func(_ context.Context, c loop.ToolCall) loop.ToolResult {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Duration('z'-c.ID[0]) * time.Second) // the first takes longest
				running.Add(-1)
				return loop.ToolResult{CallID: "forged", Name: "forged", Content: c.ID}
			})
			sp := &loop.Spec{Tools: []loop.ToolDefinition{{Name: "look"}}}
			s := opened(t, e, sp)
			for range 2 {
				if _, err := e.Advance(t.Context(), s, loop.FixedSpec(sp)); err != nil {
					t.Fatal(err)
				}
			}
			results := s.Messages[len(s.Messages)-1].ToolResults
			for i, r := range results {
				if want := string(rune('a' + i)); r.CallID != want || r.Content != want || r.Name != "look" {
					t.Errorf("result %d is %+v", i, r)
				}
			}
			if most.Load() != want || len(results) != 20 {
				t.Errorf("%d ran at once, want %d", most.Load(), want)
			}
		})
	}
}

// A task whose engine has no tools is told so, and goes on.
func TestNoToolboxAtAll(t *testing.T) {
	e := &loop.Engine{Clock: looptest.NewClock(), Model: modelThat(calls("look"), nil)}
	for name, sp := range map[string]*loop.Spec{"no tools": {}, "a tool without a toolbox": {Tools: []loop.ToolDefinition{{Name: "look"}}}} {
		s := opened(t, e, sp)
		for range 2 {
			if _, err := e.Advance(t.Context(), s, loop.FixedSpec(sp)); err != nil {
				t.Fatal(err)
			}
		}
		if r := s.Messages[1].ToolResults; len(r) != 1 || !r[0].IsError {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A tool that comes to need approval after the model asked for it is not run without.
func TestApprovalThatComesLateHolds(t *testing.T) {
	ran := false
	e := &loop.Engine{Clock: looptest.NewClock(), Model: modelThat(calls("deploy"), nil), Tools: loop.ToolboxFunc(
		func(context.Context, loop.ToolCall) loop.ToolResult { ran = true; return loop.ToolResult{} })}
	sp := &loop.Spec{Tools: []loop.ToolDefinition{{Name: "deploy"}}}
	s := opened(t, e, sp)
	for range 2 {
		if _, err := e.Advance(t.Context(), s, loop.FixedSpec(sp)); err != nil {
			t.Fatal(err)
		}
		sp.Tools = []loop.ToolDefinition{{Name: "deploy", RequireApproval: true}} // its definition changed meanwhile
	}
	if r := s.Messages[1].ToolResults; ran || len(r) != 1 || !strings.Contains(r[0].Content, "Call it again to ask") {
		t.Errorf("ran: %t, results %+v", ran, r)
	}
}

// Text that is no UTF-8 comes back from the journal as the live state has it.
func TestBrokenTextFoldsToTheLiveState(t *testing.T) {
	broken, done := "bad \xff text", "TASK_COMPLETE: ok"
	looptest.Play(t, &looptest.Scenario{
		Tools: []looptest.Tool{{Name: "look"}},
		Turns: []looptest.Turn{
			{Agent: &broken, Reply: looptest.Reply{Calls: []looptest.Call{
				{ID: "\xfe", Name: "look", Arguments: "{\"a\":\"\xff\"}", Result: "\xff"}, {Name: "lo\xffok"},
			}}},
			{Agent: &broken, Reply: looptest.Reply{Error: "Unavailable"}},
			{Agent: &done},
		},
		Expect: looptest.Expect{Exit: "Completed"},
	})
}

func TestWhatFollowsFromACallIsDecidedByTheSpecAsItIsThen(t *testing.T) {
	specs := looptest.NewSpecs(&loop.Spec{MaxIterations: 1})
	e := &loop.Engine{Clock: looptest.NewClock()}
	e.Model = loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
		specs.Set(&loop.Spec{MaxIterations: 2}) // a user was faster than the model
		return &loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockText, Text: "Half of it."}}}, nil
	})
	s := opened(t, e, specs.Spec())
	if _, err := e.Advance(t.Context(), s, specs); err != nil {
		t.Fatal(err)
	}
	if s.End != nil {
		t.Errorf("it ended by a limit that was raised meanwhile: %s", s.End.Message)
	}
}
