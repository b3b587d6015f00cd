package loop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// capsOf plays one turn, with a judge if the strategy asks for it, and gives the output caps of the requests.
func capsOf(t *testing.T, sp *loop.Spec) (caps []int64) {
	t.Helper()
	model := loop.ModelFunc(func(_ context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
		caps = append(caps, req.MaxOutputTokens)
		return &loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockText, Text: "TASK_COMPLETE: done"}}, Usage: loop.Usage{InputTokens: 1000, OutputTokens: 1}}, nil
	})
	e := &loop.Engine{Clock: looptest.NewClock(), Model: model}
	s := opened(t, e, sp)
	for range 2 {
		if _, err := e.Advance(t.Context(), s, loop.FixedSpec(sp)); err != nil {
			t.Fatal(err)
		}
	}
	return caps
}

// With maxTokens every call has a cap, whichever it is of what is left and the model's own.
func TestOutputCaps(t *testing.T) {
	judged := loop.StrategySignalThenJudge
	for name, c := range map[string]struct {
		why  string
		spec loop.Spec
		want func(caps []int64) bool
	}{
		"a large budget has one":   {"no single call may use it up", loop.Spec{MaxTokens: 200_000}, func(c []int64) bool { return c[0] == 32<<10 }},
		"a middling one is one":    {"hidden reasoning is held by nothing else", loop.Spec{MaxTokens: 20_000}, func(c []int64) bool { return c[0] > 15_000 && c[0] < 20_000 }},
		"a small remainder is one": {"the reply must fit it", loop.Spec{MaxTokens: 3000}, func(c []int64) bool { return c[0] > 0 && c[0] < 3000 }},
		"the model's own stays":    {"it is less", loop.Spec{MaxTokens: 200_000, ReplyTokens: 8000}, func(c []int64) bool { return c[0] == 8000 }},
		"it is lowered":            {"what is left is less", loop.Spec{MaxTokens: 6000, ReplyTokens: 8000}, func(c []int64) bool { return c[0] > 0 && c[0] < 6000 }},
		"no budget, no cap":        {"nobody asked for one", loop.Spec{}, func(c []int64) bool { return c[0] == 0 }},
		"a judge of its own": {
			"the cap is the task's model's", loop.Spec{ReplyTokens: 200, OwnJudge: true, Strategy: judged},
			func(c []int64) bool { return c[0] == 200 && c[1] == 0 },
		},
		"a judge of its own, with a budget": {
			"its tokens count like any other", loop.Spec{MaxTokens: 9000, ReplyTokens: 200, OwnJudge: true, Strategy: judged},
			func(c []int64) bool { return c[0] == 200 && c[1] > 1000 && c[1] < 8000 },
		},
		"a judge that is the same model": {
			"it has its cap", loop.Spec{MaxTokens: 9000, ReplyTokens: 200, Strategy: judged},
			func(c []int64) bool { return c[0] == 200 && c[1] == 200 },
		},
	} {
		if caps := capsOf(t, &c.spec); !c.want(caps) {
			t.Errorf("%s: the requests have the caps %v: %s", name, caps, c.why)
		}
	}
}

// thinks is a model that thinks for so many tokens, which are billed and not streamed, and then says a word. It may keep the
// cap of its request, or not.
func thinks(n int64, text string, keeps bool) loop.Model {
	return loop.ModelFunc(func(_ context.Context, req *loop.Request, onBytes func(int)) (*loop.Reply, error) {
		reply := says(text)
		out := n
		if keeps && req.MaxOutputTokens > 0 && n > req.MaxOutputTokens {
			out, reply = req.MaxOutputTokens, &loop.Reply{Finish: loop.FinishLength}
		}
		for _, b := range reply.Blocks {
			onBytes(len(b.Text))
		}
		reply.Usage = loop.Usage{InputTokens: tokens(requestBytes(req), 4), OutputTokens: out}
		return reply, nil
	})
}

// Reasoning that is billed but not streamed passes a budget by the estimate's error of one call; by more only where the server
// does not keep caps, and then by that one call, which the end says.
func TestHiddenReasoningIsHeldByTheBudget(t *testing.T) {
	const thought, budget = 100_000, 5000
	for name, tc := range map[string]struct {
		keeps bool
		text  string
		most  int64
		exit  loop.ExitReason
		tells bool
	}{
		"a server that keeps caps":              {true, "One.", budget, loop.ExitTokenBudgetExceeded, false},
		"one that does not":                     {false, "One.", thought + budget, loop.ExitTokenBudgetExceeded, true},
		"one that does not, and the work is in": {false, "TASK_COMPLETE: done", thought + budget, loop.ExitCompleted, true},
	} {
		t.Run(name, func(t *testing.T) {
			sp := &loop.Spec{MaxTokens: budget}
			e := &loop.Engine{Clock: looptest.NewClock(), Model: thinks(thought, tc.text, tc.keeps)}
			s := opened(t, e, sp)
			for s.End == nil {
				if _, err := e.Advance(t.Context(), s, loop.FixedSpec(sp)); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d tokens of maxTokens %d: %s", s.Usage.Total(), budget, s.End.Message)
			if s.Usage.Total() > tc.most || s.ExitReason() != tc.exit {
				t.Errorf("%q with %d tokens", s.ExitReason(), s.Usage.Total())
			}
			if tells := strings.Contains(s.End.Message, "output tokens and took 100000: its model server does not keep the cap"); tells != tc.tells {
				t.Errorf("it says %q", s.End.Message)
			}
		})
	}
}

// The end blames a server for what it did, and for nothing else.
func TestTheEndBlamesOnlyAServerThatPassedTheBudget(t *testing.T) {
	reply := func(out int64) *loop.Reply {
		r := says("One.")
		r.Usage = loop.Usage{InputTokens: 1000, OutputTokens: out}
		return r
	}
	for name, tc := range map[string]struct {
		why     string
		spec    loop.Spec
		replies []*loop.Reply
	}{
		"the budget is not passed": {"the cap was the model's own", loop.Spec{MaxTokens: 50_000, ReplyTokens: 100, MaxIterations: 1}, []*loop.Reply{reply(500)}},
		"there is no budget":       {"nobody was promised anything", loop.Spec{ReplyTokens: 100, MaxIterations: 1}, []*loop.Reply{reply(500)}},
		"an estimate":              {"it is ours, and may be wrong", loop.Spec{MaxTokens: 2000}, []*loop.Reply{says(strings.Repeat("x", 10_000))}},
		"input alone passed it":    {"there is no cap for input", loop.Spec{MaxTokens: 2000}, []*loop.Reply{{Usage: loop.Usage{InputTokens: 90_000, OutputTokens: 10}}}},
		"another call did":         {"the last one kept its cap", loop.Spec{MaxTokens: 3000, ReplyTokens: 10, MaxIterations: 3}, []*loop.Reply{reply(20), {Usage: loop.Usage{InputTokens: 90_000, OutputTokens: 10}}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			e := &loop.Engine{Clock: looptest.NewClock(), Model: loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
				n++
				return tc.replies[n-1], nil
			})}
			s := opened(t, e, &tc.spec)
			for s.End == nil {
				if _, err := e.Advance(t.Context(), s, loop.FixedSpec(&tc.spec)); err != nil {
					t.Fatal(err)
				}
			}
			if strings.Contains(s.End.Message, "does not keep") {
				t.Errorf("%s, but it says %q", tc.why, s.End.Message)
			}
		})
	}
}
