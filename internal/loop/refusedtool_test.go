package loop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// refuser is a model server that refuses the schemas of some tools, one a request. It calls one of them once it is asked without.
type refuser struct {
	refuses map[string]bool
	calls   string
	offered [][]string
}

func (r *refuser) Generate(_ context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
	var names []string
	for _, t := range req.Tools {
		names = append(names, t.Name)
	}
	r.offered = append(r.offered, names)
	for _, name := range names {
		if r.refuses[name] {
			return nil, &loop.ModelError{Cause: loop.CauseModelRequestInvalid, Status: 400, RefusedTool: name, Detail: "The schema of " + name + " was refused."}
		}
	}
	if r.calls != "" {
		call := loop.ToolCall{ID: "1", Name: r.calls, Arguments: "{}"}
		r.calls = ""
		return &loop.Reply{ToolCalls: []loop.ToolCall{call}, Finish: loop.FinishToolCalls}, nil
	}
	return &loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockText, Text: "TASK_COMPLETE: ok"}}, Finish: loop.FinishStop}, nil
}

// noTools fails the test when a tool is run.
type noTools struct{ *testing.T }

func (n noTools) Call(_ context.Context, c loop.ToolCall) loop.ToolResult {
	n.Errorf("%s was run", c.Name)
	return loop.ToolResult{}
}

func TestATaskGoesOnWithoutAToolWhoseSchemaIsRefused(t *testing.T) {
	many := map[string]bool{}
	for i := range 30 {
		many[fmt.Sprintf("bad__t%02d", i)] = true
	}
	for name, c := range map[string]struct {
		refuses  map[string]bool
		calls    string
		approval bool
		requests int
		cause    loop.Cause
	}{
		"none":                             {nil, "", false, 1, ""},
		"one":                              {map[string]bool{"bad__query": true}, "", false, 2, ""},
		"two, one after the other":         {map[string]bool{"bad__query": true, "bad__list": true}, "", false, 3, ""},
		"one that the model calls":         {map[string]bool{"bad__query": true}, "bad__query", false, 3, ""},
		"one that needs approval":          {map[string]bool{"bad__query": true}, "bad__query", true, 3, ""},
		"a built-in one ends the task":     {map[string]bool{loop.ToolTaskComplete: true}, "", false, 1, loop.CauseModelRequestInvalid},
		"so many that the server is wrong": {many, "", false, 21, loop.CauseModelRequestInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			sp := &loop.Spec{Retry: loop.Retry{MaxAttempts: 1}, Tools: []loop.ToolDefinition{{Name: "good__ping"}, {Name: "bad__query", RequireApproval: c.approval}, {Name: "bad__list"}}}
			if len(c.refuses) > 5 {
				for i := range 30 {
					sp.Tools = append(sp.Tools, loop.ToolDefinition{Name: fmt.Sprintf("bad__t%02d", i)})
				}
			}
			m := &refuser{refuses: c.refuses, calls: c.calls}
			e := &loop.Engine{Clock: looptest.NewClock(), Model: m, Tools: noTools{t}}
			s := opened(t, e, sp)
			var journal []loop.Event
			for range 60 {
				step, err := e.Advance(t.Context(), s, loop.FixedSpec(sp))
				if err != nil {
					t.Fatal(err)
				}
				if journal = append(journal, step.Events...); s.End != nil || s.Question != nil {
					break
				}
			}
			if s.End == nil || s.End.Cause != c.cause || c.cause == "" && s.End.Reason != loop.ExitCompleted {
				t.Fatalf("ended as %+v, asked %+v", s.End, s.Question)
			}
			if len(m.offered) != c.requests {
				t.Errorf("%d requests, want %d", len(m.offered), c.requests)
			}
			if last := strings.Join(m.offered[len(m.offered)-1], " "); c.cause == "" && (strings.Contains(last, "bad__query") == c.refuses["bad__query"] || !strings.Contains(last, "good__ping")) {
				t.Errorf("the last request offers %s", last)
			}
			var told []string
			for _, ev := range journal {
				if ev.ModelFailed != nil && ev.ModelFailed.RefusedTool != "" {
					told = append(told, ev.ModelFailed.RefusedTool)
				}
			}
			if len(told) != len(s.RefusedTools) || c.cause == "" && len(told) != len(c.refuses) {
				t.Errorf("the journal tells %q, the state has %v", told, s.RefusedTools)
			}
		})
	}
}
