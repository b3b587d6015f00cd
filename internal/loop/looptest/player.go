package looptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// Player plays one scenario in process.
type Player struct {
	t        testing.TB
	sc       *Scenario
	fields   map[string]any
	spec     *loop.Spec
	tools    []Tool
	engine   *loop.Engine
	clock    *Clock
	journal  []loop.Event
	state    *loop.State
	next     loop.Action
	holders  int
	script   *Turn // the reply that is due, nil for none
	calls    []Call
	crashed  bool
	cancel   context.CancelCauseFunc
	toolRuns map[string]int
	modelRun int
}

// maxSteps bounds the steps that one turn of a scenario may lead to.
const maxSteps = 100

// Play plays a scenario and checks how it ends.
func Play(t testing.TB, sc *Scenario) *Player {
	p := &Player{
		t: t, sc: sc, clock: NewClock(), tools: sc.Tools, toolRuns: map[string]int{}, state: &loop.State{}, fields: sc.Spec,
	}
	p.engine = &loop.Engine{
		Clock: p.clock, Model: loop.ModelFunc(p.generate), Tools: loop.ToolboxFunc(p.call), MaxParallelCalls: 1,
		Backoff: func(n int) time.Duration { return time.Duration(n) * time.Second },
	}
	p.engine.Fresh = func() *loop.Spec { return p.spec }
	p.change(nil)
	p.open()
	for i := range sc.Turns {
		p.turn(i)
	}
	p.advance("the end", func() bool { return p.next.Kind == loop.ActionDone || p.next.Kind == loop.ActionWait })
	p.expect("at the end", &sc.Expect)
	return p
}

// Journal is what was journalled.
func (p *Player) Journal() []loop.Event { return p.journal }

// State is the state that the journal folds to.
func (p *Player) State() *loop.State { return p.state }

func (p *Player) turn(i int) {
	p.t.Helper()
	t := &p.sc.Turns[i]
	what := fmt.Sprintf("turn %d", i+1)
	if _, purpose := t.text(); purpose != "" {
		for range max(1, t.Times) {
			p.reply(what, t)
		}
		return
	}
	// What a user does between two replies comes when all calls of the first have run.
	p.advance(what, func() bool { return p.next.Kind != loop.ActionRunTools || t.Operator != "" })
	switch {
	case t.User != nil:
		p.change(t.User)
	case t.Tools != nil:
		p.tools = t.Tools
		p.change(nil)
	case t.Time != 0:
		p.clock.Add(t.Time)
		if i+1 < len(p.sc.Turns) && p.sc.Turns[i+1].Operator != "" {
			return // the operator is away meanwhile, and sees nothing of it
		}
	case t.Operator != "":
		p.reopen()
	}
	p.record(p.engine.Settle(p.state, p.spec))
	if t.Expect != nil {
		p.expect(what, t.Expect)
	}
}

// reply goes on until the model was asked for t.
func (p *Player) reply(what string, t *Turn) {
	p.t.Helper()
	p.script = t
	p.advance(what, func() bool { return p.script == nil })
}

// advance takes steps until it is time to stop. Time passes where the loop only waits to try again.
func (p *Player) advance(what string, enough func() bool) {
	p.t.Helper()
	for range maxSteps {
		if enough() {
			return
		}
		switch {
		case p.next.Kind == loop.ActionDone:
			p.t.Fatalf("%s is never asked for: the task has ended as %s (%s)", what, p.state.ExitReason(), p.state.End.Message)
		case p.next.Kind == loop.ActionWait && p.state.Failures == 0:
			p.t.Fatalf("%s is never asked for: the loop waits", what)
		case p.next.Kind == loop.ActionWait:
			p.clock.Add(p.next.Until.Sub(p.clock.Now()))
		}
		p.step()
	}
	p.t.Fatalf("%s: no end after %d steps", what, maxSteps)
}

func (p *Player) step() {
	p.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	p.cancel = cancel
	step, err := p.engine.Advance(ctx, p.state, p.spec)
	if errors.Is(err, loop.ErrLostLease) {
		err, p.crashed = nil, true
	}
	if p.crashed {
		p.crashed = false
		p.reopen()
		return
	}
	p.record(step, err)
}

func (p *Player) open() {
	p.t.Helper()
	p.holders++
	p.record(p.engine.Open(p.state, p.spec, loop.Opened{Holder: fmt.Sprintf("operator-%d", p.holders)}))
}

// reopen is what the next operator does: it knows the journal and nothing else.
func (p *Player) reopen() {
	p.t.Helper()
	p.state = p.fold()
	p.open()
}

// record appends a step's events to the journal, and folds it anew.
func (p *Player) record(step loop.Step, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	for i := range step.Events {
		p.journal = append(p.journal, throughJSON(p.t, &step.Events[i]))
	}
	p.next = step.Next
	SameState(p.t, p.state, p.fold())
}

func (p *Player) fold() *loop.State {
	p.t.Helper()
	s, err := loop.Fold(p.journal)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// SameState fails the test when two states differ in anything, hidden fields included.
func SameState(t testing.TB, live, folded *loop.State) {
	t.Helper()
	everything := cmp.Exporter(func(reflect.Type) bool { return true })
	if diff := cmp.Diff(live, folded, everything, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the journal does not fold to the live state (-live +folded):\n%s", diff)
	}
}

func throughJSON(t testing.TB, e *loop.Event) (out loop.Event) {
	t.Helper()
	text, err := json.Marshal(e)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (p *Player) change(changes map[string]any) {
	p.t.Helper()
	p.fields = merged(p.fields, changes)
	if p.fields["resumeInputID"] == "open" && p.state.Question != nil {
		p.fields["resumeInputID"] = p.state.Question.ID
	}
	sp, err := p.sc.loopSpec(p.fields, p.tools)
	if err != nil {
		p.t.Fatal(err)
	}
	p.spec = sp
}

// generate is the model.
func (p *Player) generate(ctx context.Context, req *loop.Request, onBytes func(int)) (*loop.Reply, error) {
	p.modelRun++
	t := p.script
	if t == nil {
		p.t.Fatalf("the loop asks for a reply that the scenario does not have: %s\n%s", req.Purpose, brief(requestText(req)))
	}
	if _, purpose := t.text(); purpose != req.Purpose {
		p.t.Fatalf("the loop asks for %s where the scenario has a reply for %s\n%s", req.Purpose, purpose, brief(requestText(req)))
	}
	p.look(t, req)
	p.script = nil
	if len(t.Calls) > 0 {
		p.calls = t.Calls
	}
	p.crashed = t.Crash
	p.clock.Add(t.Takes)
	if t.Meanwhile != nil {
		p.change(t.Meanwhile)
	}
	reply := t.reply()
	reply.Blocks = stream(ctx, reply.Blocks, t.Chunk, onBytes)
	if t.Interrupt != "" {
		p.cancel(interrupts[t.Interrupt])
	}
	if err := ctx.Err(); err != nil && !t.Whole {
		return reply, err
	}
	if t.Error != "" {
		e, known := modelErrors[t.Error]
		if !known {
			p.t.Fatalf("no error %q", t.Error)
		}
		e.RetryAfter = t.RetryAfter
		return reply, &e
	}
	return reply, nil
}

func (p *Player) look(t *Turn, req *loop.Request) {
	text := requestText(req)
	for _, want := range t.Sees {
		if !strings.Contains(text, want) {
			p.t.Errorf("the %s request does not contain %q:\n%s", req.Purpose, want, brief(text))
		}
	}
	for _, not := range t.SeesNot {
		if strings.Contains(text, not) {
			p.t.Errorf("the %s request contains %q:\n%s", req.Purpose, not, brief(text))
		}
	}
}

// brief is the end of a text, which is what matters of a request.
func brief(text string) string {
	const most = 3000
	if len(text) > most {
		return "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}

// call is the toolbox.
func (p *Player) call(_ context.Context, c loop.ToolCall) loop.ToolResult {
	p.toolRuns[c.Name]++
	ids := callIDs(p.calls)
	for i, s := range p.calls {
		if ids[i] != c.ID {
			continue
		}
		p.clock.Add(s.Takes)
		p.crashed = p.crashed || s.Crash && p.toolRuns[c.Name] == 1
		if s.Panic {
			panic("a tool panics")
		}
		return loop.ToolResult{Content: s.Result, IsError: s.IsError}
	}
	return loop.ToolResult{Content: "no such call in the scenario: " + c.ID, IsError: true}
}
