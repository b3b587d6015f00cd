package looptest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
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
	specs    *Specs
	told     string        // the question that the status shows
	waited   time.Duration // since the last event
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
		t: t, sc: sc, clock: NewClock(), tools: sc.Tools, toolRuns: map[string]int{}, state: &loop.State{}, fields: sc.Spec, specs: NewSpecs(nil),
	}
	p.engine = &loop.Engine{
		Clock: p.clock, Model: loop.ModelFunc(p.generate), Tools: loop.ToolboxFunc(p.call), MaxParallelCalls: 1,
		Backoff: func(n int) time.Duration { return time.Duration(n) * time.Second },
	}
	p.change(nil)
	p.open(false)
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
	case t.Early != nil:
		p.told = "" // the status is not written yet
		p.change(t.Early)
	case t.Tools != nil:
		p.tools = t.Tools
		p.change(nil)
	case t.Time != 0:
		if i+1 < len(p.sc.Turns) && p.sc.Turns[i+1].Operator != "" {
			p.leave(p.sc.Turns[i+1].Operator)
			p.clock.Add(t.Time)
			return // the operator is away meanwhile, and sees nothing of it
		}
		p.clock.Add(t.Time)
	case t.Waits != 0:
		p.clock.Add(t.Waits)
		p.waited += t.Waits
		p.observe(*p.specs.Spec())
	case t.Operator != "":
		p.reopen(t.Operator)
	}
	p.record(p.engine.Settle(p.state, p.specs.Spec()))
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
	if p.state.Released {
		p.open(false) // the operator was told to stop, so this is the next one
	}
	step, err := p.engine.Advance(ctx, p.state, p.specs)
	if p.crashed {
		p.crashed = false
		p.reopen("crashes")
		return
	}
	p.record(step, err)
}

func (p *Player) open(rival bool) {
	p.t.Helper()
	p.holders++
	p.record(p.engine.Open(p.state, p.specs.Spec(), loop.Opened{Holder: fmt.Sprintf("operator-%d", p.holders), Rival: rival, Alone: true}))
}

// reopen is what the next operator does: it knows the journal and nothing else.
func (p *Player) reopen(how string) {
	p.t.Helper()
	p.leave(how)
	p.state = p.fold()
	p.open(how == "rival")
}

// leave is how an operator goes: one that is told to stop lets its tasks go.
func (p *Player) leave(how string) {
	p.t.Helper()
	if how == "restarts" && !p.state.Released {
		p.record(p.engine.Release(p.state, p.specs.Spec()))
	}
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
	if len(step.Events) > 0 {
		p.waited = 0
	}
	if q := p.state.Question; q != nil {
		p.told = q.ID
	}
	p.observe(*p.specs.Spec())
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
	p.observe(*sp)
}

// observe adds to a spec what a controller finds beside it.
func (p *Player) observe(sp loop.Spec) {
	sp.Told, sp.Waited = p.told, p.waited
	p.specs.Set(&sp)
}
