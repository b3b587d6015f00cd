package loop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// aTurn is one turn, its spec and what the clock does meanwhile.
type aTurn struct {
	spec  loop.Spec
	reply loop.Reply
	lines []string
	takes time.Duration
}

// precedence lists all that can follow from one turn, the stronger first, with how to bring it about.
var precedence = []struct {
	outcome string
	why     string
	cause   func(*aTurn)
}{
	{"Cancelled", "cancel comes first, and interrupts", func(a *aTurn) { a.spec.Cancel = true }},
	{"Error ModelRefused", "a declined reply says nothing else", func(a *aTurn) { a.reply.Finish = loop.FinishRefusal }},
	{"NeedInput Approval", "the calls of a turn come before its signal", func(a *aTurn) {
		a.spec.Tools = []loop.ToolDefinition{{Name: "deploy", RequireApproval: true}}
		a.reply.ToolCalls = []loop.ToolCall{{ID: "c", Name: "deploy"}}
	}},
	{"NeedInput Question", "an agent with a question is not done", func(a *aTurn) { a.lines = append(a.lines, "NEED_INPUT: which?") }},
	{"Completed signalled", "a signal wins over every limit of its turn", func(a *aTurn) { a.lines = append(a.lines, "TASK_COMPLETE: done") }},
	{"TokenBudgetExceeded", "the first of the limits", func(a *aTurn) { a.spec.MaxTokens = 10_000; a.reply.Usage.InputTokens = 10_000 }},
	{"TimeBudgetExceeded", "the second of the limits", func(a *aTurn) { a.spec.MaxDuration = time.Hour; a.takes = time.Hour }},
	{"IterationCapReached", "the last of the limits", func(a *aTurn) { a.spec.MaxIterations = 1 }},
	{"Completed stopWhen", "it costs nothing, so it comes before the judge", func(a *aTurn) { a.spec.StopWhen = alwaysTrue }},
	{"Completed judge", "work that is done is not called stuck", func(a *aTurn) { a.spec.Strategy = loop.StrategyJudge }},
	{"NoProgress", "the last reason to end", func(a *aTurn) { a.spec.NoProgressTurns = 1 }},
	{"goes on", "nothing else", func(*aTurn) {}},
}

var alwaysTrue = mustPredicate("true")

func mustPredicate(expr string) *loop.Predicate {
	p, err := loop.CompilePredicate(expr)
	if err != nil {
		panic(err)
	}
	return p
}

// A turn that gives two reasons ends by the one that DESIGN lists first: every pair.
func TestPrecedenceOfEveryPair(t *testing.T) {
	// Where the strategy is Judge, a claim is nothing that ends the task by itself.
	exceptions := map[string]string{"Completed signalled + Completed judge": "Completed judge"}
	pairs := 0
	for i, first := range precedence {
		for _, second := range precedence[i+1:] {
			pairs++
			name := first.outcome + " + " + second.outcome
			t.Run(name, func(t *testing.T) {
				want := first.outcome
				if other, ok := exceptions[name]; ok {
					want = other
				}
				a := &aTurn{}
				// The weaker first: the order in which the reasons come about must not matter.
				second.cause(a)
				first.cause(a)
				if got := play(t, a); got != want {
					t.Errorf("a turn with %s and %s gives %s, want %s: %s", first.outcome, second.outcome, got, want, first.why)
				}
			})
		}
	}
	t.Logf("%d pairs", pairs)
}

// play runs one turn, and all that follows from it up to the next turn, and tells what came of it.
func play(t *testing.T, a *aTurn) string {
	t.Helper()
	clock := looptest.NewClock()
	a.reply.Blocks = []loop.Block{{Kind: loop.BlockText, Text: "Some text.\n\n" + strings.Join(a.lines, "\n\n")}}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	judged := false
	e := &loop.Engine{
		Clock: clock,
		Model: loop.ModelFunc(func(_ context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
			if req.Purpose == loop.PurposeJudge {
				judged = true
				return &loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockText, Text: "VERDICT: DONE"}}, Usage: loop.Usage{InputTokens: 1}}, nil
			}
			clock.Add(a.takes)
			if a.spec.Cancel { // it comes while the turn runs, and the reply is whole all the same
				cancel(loop.ErrCancelled)
			}
			return &a.reply, nil
		}),
		Tools: loop.ToolboxFunc(func(context.Context, loop.ToolCall) loop.ToolResult { return loop.ToolResult{Content: "ok"} }),
	}
	s := &loop.State{}
	spec := a.spec
	spec.Cancel = false
	step, err := e.Open(s, &spec, loop.Opened{Holder: "test"})
	for range 5 {
		if err != nil {
			t.Fatal(err)
		}
		over := s.Iterations == 1 && step.Next.Kind == loop.ActionCallModel && step.Next.Purpose == loop.PurposeTurn
		if step.Next.Kind == loop.ActionDone || step.Next.Kind == loop.ActionWait || over {
			return outcome(s, judged)
		}
		step, err = e.Advance(ctx, s, loop.FixedSpec(&spec))
	}
	t.Fatal("the turn has no end")
	return ""
}

func outcome(s *loop.State, judged bool) string {
	switch {
	case s.Question != nil:
		return fmt.Sprintf("%s %s", s.ExitReason(), s.Question.Kind)
	case s.End == nil:
		return "goes on"
	case s.End.Reason == loop.ExitCompleted && strings.Contains(s.End.Message, "stopWhen"):
		return "Completed stopWhen"
	case s.End.Reason == loop.ExitCompleted && judged:
		return "Completed judge"
	case s.End.Reason == loop.ExitCompleted:
		return "Completed signalled"
	}
	return strings.TrimSpace(string(s.End.Reason) + " " + string(s.End.Cause))
}
