package loop_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// errCrash: the operator died in a call. Nothing that came of it is kept.
var errCrash = errors.New("crash")

// biller bills each request whole, whatever becomes of it: its input, and a reply as long as the cap allows.
type biller struct {
	billed int64
	calls  int
	// uncapped is how long a reply is without a cap.
	uncapped int64
	// reply is what is said, crash whether the operator dies meanwhile.
	reply func(req *loop.Request) *loop.Reply
	crash func() bool
}

func (b *biller) Generate(_ context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
	b.calls++
	in, out := tokens(requestBytes(req)+separators(req), 4), b.uncapped
	if req.MaxOutputTokens > 0 {
		out = req.MaxOutputTokens
	}
	b.billed += in + out
	if b.crash != nil && b.crash() {
		return nil, errCrash
	}
	reply := b.reply(req)
	reply.Usage = loop.Usage{InputTokens: in, OutputTokens: out, TotalTokens: in + out}
	return reply, nil
}

// separators are what a request has around its texts. This provider bills them, so that the estimate of a request is exact or
// too high: here it is the replies that matter.
func separators(req *loop.Request) int {
	n := 16*len(req.Tools) + 12*len(req.Messages)
	for _, m := range req.Messages {
		n += 12 * (len(m.ToolCalls) + len(m.ToolResults))
	}
	return n
}

// An operator that crashes twice in each of three turns: what is counted is no less than what is billed, and says that it is
// an estimate.
func TestTwoCrashesInEachOfThreeTurns(t *testing.T) {
	for name, spec := range map[string]loop.Spec{
		"with a budget":            {MaxTokens: 60_000, ReplyTokens: 4000},
		"without one":              {ReplyTokens: 4000},
		"and without a cap at all": {},
	} {
		t.Run(name, func(t *testing.T) {
			b := &biller{uncapped: 900}
			turn := 0
			b.reply = func(*loop.Request) *loop.Reply {
				if turn++; turn == 3 {
					return says("TASK_COMPLETE: done")
				}
				return says("Working on.")
			}
			b.crash = func() bool { return b.calls%3 != 0 }
			c := &crasher{t: t, spec: spec, clock: looptest.NewClock(), model: b}
			c.open()
			for c.state.End == nil {
				if c.advance() == nil {
					continue
				}
				c.clock.Add(time.Minute)
				c.open()
			}
			u := c.state.Usage
			t.Logf("billed %d, counted %d", b.billed, u.Total())
			if c.state.ExitReason() != loop.ExitCompleted || b.calls != 9 || c.lost != 6 {
				t.Errorf("%q after %d calls, %d of them charged as lost", c.state.ExitReason(), b.calls, c.lost)
			}
			if u.Total() < b.billed || u.Total() > b.billed*3/2 || !u.Estimated {
				t.Errorf("%d tokens are billed, and %+v counted", b.billed, u)
			}
		})
	}
}

// crasher is a task whose operator may die at any point. It keeps what is in the journal, and nothing else.
type crasher struct {
	t       *testing.T
	spec    loop.Spec
	clock   *looptest.Clock
	model   loop.Model
	state   *loop.State
	journal []loop.Event
	lost    int
}

func (c *crasher) engine() *loop.Engine {
	return &loop.Engine{Clock: c.clock, Model: c.model, Backoff: func(int) time.Duration { return time.Second },
		Tools: loop.ToolboxFunc(func(context.Context, loop.ToolCall) loop.ToolResult { return loop.ToolResult{Content: "seen"} })}
}

func (c *crasher) append(step loop.Step, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	c.journal = append(c.journal, step.Events...)
}

func (c *crasher) open() {
	c.t.Helper()
	c.state = folded(c.t, c.journal)
	step, err := c.engine().Open(c.state, &c.spec, loop.Opened{Holder: "h"})
	c.append(step, err)
	if len(step.Events) > 0 && step.Events[0].Opened.Lost != nil {
		c.lost++
	}
}

// advance takes a step. It gives errCrash when the operator died in it: then nothing of it is in the journal.
func (c *crasher) advance() error {
	c.t.Helper()
	died := false
	e := c.engine()
	model := e.Model
	e.Model = loop.ModelFunc(func(ctx context.Context, req *loop.Request, onBytes func(int)) (*loop.Reply, error) {
		reply, err := model.Generate(ctx, req, onBytes)
		died = errors.Is(err, errCrash)
		return reply, err
	})
	step, err := e.Advance(c.t.Context(), c.state, loop.FixedSpec(&c.spec))
	if died {
		return errCrash
	}
	c.append(step, err)
	return nil
}

// Over random runs with crashes at any point, in a call, after it, and between two steps, counted is never less than billed,
// no run is billed more than its maxTokens, and where nobody crashed what is counted is what was billed.
func TestCountedIsNeverLessThanBilled(t *testing.T) {
	const runs = 500
	seed := uint64(time.Now().UnixNano())
	t.Logf("first seed %d", seed)
	crashed, exits := 0, map[string]int{}
	for n := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed+n, 0))
		c := randomCrasher(t, r)
		b := c.model.(*biller)
		calm := n%5 == 0
		crashes := c.play(r, calm)
		crashed += crashes
		exits[string(c.state.ExitReason())]++
		counted := folded(t, c.journal).Usage.Total()
		switch {
		case counted < b.billed:
			t.Errorf("seed %d: billed %d, counted %d", seed+n, b.billed, counted)
		case calm && (counted != b.billed || c.lost != 0 || c.state.Usage.Estimated):
			t.Errorf("seed %d: without a crash, billed %d, counted %d, and %d calls are charged as lost", seed+n, b.billed, counted, c.lost)
		case c.lost > crashes:
			t.Errorf("seed %d: %d crashes, and %d calls are charged as lost", seed+n, crashes, c.lost)
		case c.spec.MaxTokens > 0 && b.billed > c.spec.MaxTokens:
			t.Errorf("seed %d: billed %d of maxTokens %d", seed+n, b.billed, c.spec.MaxTokens)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d crashes, exits %v", crashed, exits)
	if crashed < runs || len(exits) < 3 {
		t.Errorf("%d crashes and exits %v show little", crashed, exits)
	}
}

func randomCrasher(t *testing.T, r *rand.Rand) *crasher {
	spec := loop.Spec{
		Prompt: "Do it.", MaxIterations: 12, MaxTokens: pick[int64](r, 0, 8000, 60_000, 300_000), ReplyTokens: pick[int64](r, 0, 50, 500),
		Strategy: pick(r, loop.StrategySignal, loop.StrategyJudge), OwnJudge: r.IntN(2) == 0, WrapUp: r.IntN(2) == 0,
		ContextWindowTokens: pick[int64](r, 0, 2500), MaxTurnAttempts: 50,
		Tools: []loop.ToolDefinition{{Name: "look"}, {Name: "read", Repeatable: true}, {Name: "deploy", RequireApproval: true}},
	}
	b := &biller{uncapped: 1000}
	b.reply = func(req *loop.Request) *loop.Reply {
		if req.Purpose == loop.PurposeJudge {
			return says(pick(r, "VERDICT: MORE", "VERDICT: MORE", "VERDICT: DONE"))
		}
		reply := says(fmt.Sprint("Step ", b.calls, strings.Repeat(" words", r.IntN(60)), pick(r, "", "", "", "", "\n\nTASK_COMPLETE: done", "\n\nNEED_INPUT: which?")))
		if req.Purpose == loop.PurposeTurn && r.IntN(3) == 0 {
			reply.ToolCalls = calls(pick(r, "look", "read", "deploy")).ToolCalls
		}
		return reply
	}
	return &crasher{t: t, spec: spec, clock: looptest.NewClock(), model: b}
}

// play runs a task to its end, through operators that die or let it go. It tells how often one died.
func (c *crasher) play(r *rand.Rand, calm bool) (crashes int) {
	dies := func() bool { return !calm && r.IntN(4) == 0 }
	c.model.(*biller).crash = dies
	c.open()
	for range 300 {
		if c.state.End != nil {
			break
		}
		if q := c.state.Question; q != nil {
			c.spec.ResumeInput, c.spec.ResumeInputID = pick(r, "approve", "deny"), q.ID
		}
		err := c.advance()
		switch {
		case err == nil && dies(): // between two steps: what the step gave is in the journal
			err = errCrash
		case err == nil && r.IntN(4) == 0:
			c.append(c.engine().Release(c.state, &c.spec))
			c.clock.Add(time.Hour)
			c.open()
		}
		if err != nil {
			crashes++
			c.clock.Add(time.Duration(r.IntN(3600)) * time.Second)
			c.open()
		}
	}
	return crashes
}

// What may have been under way when an operator was lost, and what not.
func TestWhatIsChargedAsLost(t *testing.T) {
	budget := func(a *aTask) { a.spec.MaxTokens = 30_000 }
	fails := func(err *loop.ModelError) func(*aTask) {
		return func(a *aTask) { a.fails = err; a.advance(); a.fails = nil }
	}
	asks := func(tool string) func(*aTask) {
		return func(a *aTask) { a.reply = calls(tool); a.advance() }
	}
	for name, tc := range map[string]struct {
		why     string
		spec    loop.Spec
		before  []func(*aTask)
		purpose loop.Purpose // none: nothing was lost
		output  int64        // 0: whatever is left of maxTokens
	}{
		"a turn":                              {why: "its cap is the model's own", spec: loop.Spec{ReplyTokens: 2000}, purpose: loop.PurposeTurn, output: 2000},
		"a turn without a cap":                {why: "as long as any reply is to be expected", purpose: loop.PurposeTurn, output: 1024},
		"after a long reply":                  {why: "the next may be as long", before: []func(*aTask){func(a *aTask) { a.reply.Usage.OutputTokens = 7000; a.advance() }}, purpose: loop.PurposeTurn, output: 7000},
		"with a budget":                       {why: "the cap is what is left", before: []func(*aTask){budget}, purpose: loop.PurposeTurn},
		"with a budget and a cap":             {why: "the smaller one", spec: loop.Spec{ReplyTokens: 2000}, before: []func(*aTask){budget}, purpose: loop.PurposeTurn, output: 2000},
		"a cancel that came meanwhile":        {why: "the call did not wait for it", before: []func(*aTask){func(a *aTask) { a.spec.Cancel = true }}, purpose: loop.PurposeTurn, output: 1024},
		"a suspension that came meanwhile":    {why: "the call did not wait for it", before: []func(*aTask){func(a *aTask) { a.spec.Suspend = true }}, purpose: loop.PurposeTurn, output: 1024},
		"fewer turns that came meanwhile":     {why: "the call had begun", before: []func(*aTask){func(a *aTask) { a.spec.MaxIterations = 1 }}, purpose: loop.PurposeTurn, output: 1024},
		"a journal's cap that came meanwhile": {why: "the call had begun", before: []func(*aTask){func(a *aTask) { a.spec.MaxJournalBytes = 1 }}, purpose: loop.PurposeTurn, output: 1024},
		"fewer attempts that came meanwhile": {why: "the call had begun", before: []func(*aTask){fails(&loop.ModelError{Retry: true}), func(a *aTask) { a.spec.Retry.MaxAttempts = 1 }},
			purpose: loop.PurposeTurn, output: 1024},
		"a budget that was lowered to a word": {why: "no call is made for that", before: []func(*aTask){func(a *aTask) {
			a.spec.MaxTokens = a.state.Usage.Total() + a.next.EstimatedInput + 5
		}}, purpose: loop.PurposeTurn, output: 1024},
		"a budget that was lowered to nothing":  {why: "the call had another", before: []func(*aTask){func(a *aTask) { a.spec.MaxTokens = 1 }}, purpose: loop.PurposeTurn, output: 1024},
		"the judge":                             {why: "a call like any other", spec: loop.Spec{Strategy: loop.StrategyJudge, ReplyTokens: 300}, purpose: loop.PurposeJudge, output: 300},
		"a judge of its own":                    {why: "the cap is the task's model's", spec: loop.Spec{Strategy: loop.StrategyJudge, ReplyTokens: 300, OwnJudge: true}, purpose: loop.PurposeJudge, output: 1024},
		"a compaction":                          {why: "a call like any other", spec: loop.Spec{ContextWindowTokens: 10}, before: []func(*aTask){(*aTask).advanceOnce}, purpose: loop.PurposeCompaction, output: 1024},
		"a wrap-up":                             {why: "a call like any other", spec: loop.Spec{MaxIterations: 1, WrapUp: true}, purpose: loop.PurposeWrapUp, output: 1024},
		"it was let go":                         {why: "nothing was under way", before: []func(*aTask){(*aTask).release}},
		"it was told to stop":                   {why: "the call was broken off, and is accounted for", before: []func(*aTask){(*aTask).stop}},
		"a question is open":                    {why: "nothing goes on", before: []func(*aTask){func(a *aTask) { a.reply = says("NEED_INPUT: which?"); a.advance() }}},
		"an approval is open":                   {why: "nothing goes on", before: []func(*aTask){asks("deploy")}},
		"it is suspended":                       {why: "nothing goes on", before: []func(*aTask){func(a *aTask) { a.spec.Suspend = true; a.settle() }}},
		"it was suspended, and is to go on":     {why: "it has not gone on yet", before: []func(*aTask){func(a *aTask) { a.spec.Suspend = true; a.settle(); a.spec.Suspend = false }}},
		"a retry is due later":                  {why: "it has not been made", before: []func(*aTask){fails(&loop.ModelError{Retry: true, RetryAfter: time.Hour})}},
		"a retry was due":                       {why: "it may have been made", before: []func(*aTask){fails(&loop.ModelError{Retry: true})}, purpose: loop.PurposeTurn, output: 1024},
		"tools were to run":                     {why: "they cost no tokens", before: []func(*aTask){asks("look")}},
		"the turn that ends by the judge's yes": {why: "nothing comes after it", spec: loop.Spec{Strategy: loop.StrategyJudge}, before: []func(*aTask){func(a *aTask) { a.reply = says("VERDICT: DONE"); a.advance() }}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTask(t, tc.spec)
			a.spec.Tools = []loop.ToolDefinition{{Name: "look"}, {Name: "deploy", RequireApproval: true}}
			a.reply.Usage = loop.Usage{InputTokens: 500, OutputTokens: 20}
			a.advance()
			for _, do := range tc.before {
				do(a)
			}
			if a.state.End != nil {
				return // it is not opened at all
			}
			due, used := a.next, a.state.Usage.Total()
			a.clock.Add(10 * time.Minute)
			lost := a.open(loop.Opened{Holder: "two"}).Lost
			if (lost != nil) != (tc.purpose != "") {
				t.Fatalf("%+v is charged as lost: %s", lost, tc.why)
			}
			if lost == nil {
				if a.state.Usage.Total() != used {
					t.Errorf("%d tokens are counted, before it were %d", a.state.Usage.Total(), used)
				}
				return
			}
			output := tc.output
			if output == 0 {
				output = a.spec.MaxTokens - used - lost.Usage.InputTokens
			}
			if lost.Purpose != tc.purpose || lost.Usage.OutputTokens != output || !lost.Usage.Estimated || a.state.Usage.Total() != used+lost.Usage.Total() {
				t.Errorf("%+v is charged as lost, want %d tokens of output for a %s: %s", lost, output, tc.purpose, tc.why)
			}
			if due.Kind == loop.ActionCallModel && lost.Usage.InputTokens != due.EstimatedInput {
				t.Errorf("%d tokens of input are charged, the call was estimated at %d", lost.Usage.InputTokens, due.EstimatedInput)
			}
		})
	}
}

func (a *aTask) advanceOnce() { a.advance() }
