package looptest

import (
	"context"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/scripted"
)

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
	cancels := t.Meanwhile["cancel"] == true
	if t.Meanwhile != nil && !cancels {
		p.change(t.Meanwhile)
	}
	reply := t.reply()
	reply.Blocks = stream(ctx, reply.Blocks, t.Chunk, onBytes)
	if cancels {
		p.change(t.Meanwhile)
		<-ctx.Done() // the engine sees it while the call runs
	}
	if t.Interrupt != "" {
		p.cancel(interrupts[t.Interrupt])
	}
	if err := ctx.Err(); err != nil && !t.Whole {
		return reply, err
	}
	if t.Error != "" {
		known := scripted.Failures[t.Error]
		if known == nil {
			p.t.Fatalf("no error %q", t.Error)
		}
		e := *known
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
