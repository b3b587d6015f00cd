package loop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// aProvider is a model server with its own tokenizer and its own manners.
type aProvider struct {
	r         *rand.Rand
	clock     *looptest.Clock
	bytesIn   float64 // bytes a token
	bytesOut  float64
	chunk     int     // bytes that stream at once
	keepsCap  bool    // it honours the cap of the request
	thinks    bool    // it thinks up to its cap, which it bills and does not stream
	reports   string  // what usage it reports: all, parts, none
	failures  float64 // how many calls break off
	planned   loop.Action
	streamed  int64 // of the last call
	spent     int64 // what the provider would bill, over all calls
	overInput int64 // by how much the last call's input was underestimated
	overReply int64 // by how much the last call's output was
}

func tokens(bytes int, each float64) int64 { return int64(float64(bytes)/each) + 1 }

func (p *aProvider) Generate(ctx context.Context, req *loop.Request, onBytes func(int)) (*loop.Reply, error) {
	p.clock.Add(time.Duration(p.r.IntN(20)) * time.Second)
	in := tokens(requestBytes(req), p.bytesIn)
	reply := p.compose(req)
	text := reply.Blocks[0].Text
	most := len(text)
	if p.keepsCap && req.MaxOutputTokens > 0 {
		if most = min(most, int(float64(req.MaxOutputTokens-1)*p.bytesOut)); most < len(text) {
			reply.Finish, reply.ToolCalls = loop.FinishLength, nil
		}
	}
	breaks := -1
	if p.r.Float64() < p.failures {
		breaks = p.r.IntN(most + 1)
	}
	p.streamed = 0
	for int(p.streamed) < most && ctx.Err() == nil && (breaks < 0 || int(p.streamed) < breaks) {
		n := min(p.chunk, most-int(p.streamed))
		p.streamed += int64(n)
		onBytes(n)
	}
	if ctx.Err() != nil {
		reply.ToolCalls = nil // they would have come after the text
	}
	for _, c := range reply.ToolCalls {
		onBytes(len(c.Name) + len(c.Arguments))
		p.streamed += int64(len(c.Name) + len(c.Arguments))
	}
	reply.Blocks[0].Text = text[:min(len(text), int(p.streamed))]
	out := tokens(int(p.streamed), p.bytesOut)
	p.overReply = out - p.streamed/4
	if p.thinks {
		out = max(out, req.MaxOutputTokens)
	}
	p.spent += in + out
	p.overInput = in - p.planned.EstimatedInput
	switch {
	case breaks >= 0:
		return reply, &loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true, Detail: "Broken off."}
	case ctx.Err() != nil:
		return reply, ctx.Err()
	case p.reports == "all":
		reply.Usage = loop.Usage{InputTokens: in, OutputTokens: out, TotalTokens: in + out}
	case p.reports == "parts":
		reply.Usage = loop.Usage{InputTokens: in, OutputTokens: out}
	}
	return reply, nil
}

func (p *aProvider) compose(req *loop.Request) *loop.Reply {
	out := &loop.Reply{Finish: loop.FinishStop}
	text := strings.Repeat(pick(p.r, "words and more words ", "{}[]();\n", "x"), p.r.IntN(200))
	switch {
	case req.Purpose == loop.PurposeJudge:
		text += pick(p.r, "\nVERDICT: DONE", "\nVERDICT: MORE", "\nVERDICT: MORE", "")
	case req.Purpose == loop.PurposeTurn && p.r.IntN(4) == 0:
		out.Finish = loop.FinishToolCalls
		out.ToolCalls = []loop.ToolCall{{ID: "c", Name: pick(p.r, "look", "deploy", "magic"), Arguments: "{}"}}
	case req.Purpose == loop.PurposeTurn && p.r.IntN(12) == 0:
		text += pick(p.r, "\n\nTASK_COMPLETE: done", "\n\nNEED_INPUT: which?")
	}
	out.Blocks = []loop.Block{{Kind: loop.BlockText, Text: text}}
	return out
}

func requestBytes(req *loop.Request) int {
	n := len(req.System) + len(req.OutputSchema)
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.InputSchema)
	}
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			n += len(b.Text)
		}
		for _, c := range m.ToolCalls {
			n += len(c.Name) + len(c.Arguments)
		}
		for _, r := range m.ToolResults {
			n += len(r.Content)
		}
	}
	return n
}

// A task spends no more than maxTokens and the estimate's error of one call, whoever serves it: one that reports usage in
// whole, in part or never, honours the cap or not, breaks off now and then, and thinks as long as its cap allows.
func TestSpendIsBoundedOverRandomRuns(t *testing.T) {
	const runs = 1000
	seed := uint64(time.Now().UnixNano())
	t.Logf("first seed %d", seed)
	worst, worstOf, exits := int64(0), "", map[string]int{}
	for n := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed+n, 0))
		sp := randomSpec(r)
		sp.Cancel, sp.Suspend, sp.MaxTokens = false, false, 500+r.Int64N(30_000)
		sp.MaxIterations, sp.MaxDuration, sp.MaxJournalBytes = 100, 0, 0 // let the budget be what ends most
		run := &aRun{t: t, r: r, spec: sp}
		exits[run.play(n%10 == 0)]++
		over := run.state.Usage.Total() - sp.MaxTokens
		if p := run.provider; p.reports == "all" && p.failures == 0 {
			over = max(over, p.spent-sp.MaxTokens) // here it is known what the provider bills
		}
		if over > run.oneCallsError() {
			t.Errorf("seed %d: %d tokens over maxTokens %d, the last call's error is %d", seed+n, over, sp.MaxTokens, run.oneCallsError())
		}
		if over > worst {
			worst, worstOf = over, fmt.Sprintf("over maxTokens %d (the last call's input was misjudged by %d, its output by %d)",
				sp.MaxTokens, run.provider.overInput, run.provider.overReply)
		}
	}
	t.Logf("worst overshoot in %d runs: %d tokens %s", runs, worst, worstOf)
	t.Logf("exits: %v", exits)
	if exits[string(loop.ExitTokenBudgetExceeded)] < runs/10 {
		t.Errorf("hardly any run comes to its budget, so this shows nothing: %v", exits)
	}
}

// aRun is one task served by one provider.
type aRun struct {
	t        *testing.T
	r        *rand.Rand
	spec     *loop.Spec
	provider *aProvider
	state    *loop.State
}

// oneCallsError is by how much the last call can have been misjudged: its input, its output, and the chunk in flight.
func (a *aRun) oneCallsError() int64 {
	p := a.provider
	const aCall = 8 // bytes of the longest call, which arrives at once
	return max(0, p.overInput) + max(0, p.overReply) + int64(max(p.chunk, aCall))/2 + 2
}

// play runs the task to its end or to a question, if nobody answers, and tells its exit.
func (a *aRun) play(compare bool) string {
	r, clock := a.r, looptest.NewClock()
	a.provider = &aProvider{
		r: r, clock: clock, bytesIn: 2 + 4*r.Float64(), bytesOut: 2 + 4*r.Float64(), chunk: 1 + r.IntN(40),
		keepsCap: r.IntN(2) == 0, reports: pick(r, "all", "parts", "none"), failures: pick(r, 0, 0.1),
	}
	a.provider.thinks = a.provider.keepsCap && a.provider.reports != "none" && r.IntN(2) == 0
	e := &loop.Engine{
		Clock: clock, Model: a.provider, Backoff: func(int) time.Duration { return time.Second },
		Tools: loop.ToolboxFunc(func(context.Context, loop.ToolCall) loop.ToolResult {
			return loop.ToolResult{Content: strings.Repeat("result ", 3)}
		}),
	}
	a.state = &loop.State{}
	var journal []loop.Event
	step, err := e.Open(a.state, a.spec, loop.Opened{Holder: "test"})
	for range 400 {
		if err != nil {
			a.t.Fatal(err)
		}
		journal = append(journal, step.Events...)
		if compare {
			folded, err := loop.Fold(journal)
			if err != nil {
				a.t.Fatal(err)
			}
			looptest.SameState(a.t, a.state, folded)
		}
		q := a.state.Question
		switch next := step.Next; {
		case q != nil && a.spec.ResumeInput != "" && a.spec.ResumeInputID != q.ID:
			a.spec.ResumeInputID = q.ID // it is answered
		case next.Kind == loop.ActionDone, next.Kind == loop.ActionWait && next.Until.IsZero():
			oneEnd(a.t, journal)
			return string(a.state.ExitReason())
		case next.Kind == loop.ActionWait:
			clock.Add(next.Until.Sub(clock.Now()))
		case next.Kind == loop.ActionCallModel:
			a.provider.planned = next
		}
		step, err = e.Advance(a.t.Context(), a.state, loop.FixedSpec(a.spec))
	}
	a.t.Fatal("the task has no end")
	return ""
}
