//go:build chaos

package chaos

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
	"github.com/agentloop-dev/agenttask-operator/test/harness"
)

// effects is a tool server whose side effects are counted.
type effects struct {
	mu    sync.Mutex
	bumps map[step]int
	looks int
}

type step struct {
	Task string `json:"task"`
	Step int    `json:"step"`
}

func newEffects() *effects { return &effects{bumps: map[step]int{}} }

func (e *effects) handler() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "effects", Version: "1"}, nil)
	text := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	mcp.AddTool(server, &mcp.Tool{Name: "bump", Description: "Has a side effect."},
		func(ctx context.Context, _ *mcp.CallToolRequest, in step) (*mcp.CallToolResult, any, error) {
			e.mu.Lock()
			e.bumps[in]++
			e.mu.Unlock()
			select { // the effect has happened, its result is still to come: the worst moment to be killed
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
			}
			return text("bumped"), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "look", Description: "Only reads.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *mcp.CallToolRequest, step) (*mcp.CallToolResult, any, error) {
			e.mu.Lock()
			e.looks++
			e.mu.Unlock()
			return text("seen"), nil, nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
}

// verify counts what became of every task, effect and journal.
func verify(t *testing.T, c *harness.Cluster, chat *fakechat.Server, e *effects) {
	t.Helper()
	ctx := t.Context()
	var list v1alpha1.AgentTaskList
	if err := c.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	store := transcript.NewKubernetes(c.Client)
	iterations, unknown, openings := 0, 0, 0
	for i := range list.Items {
		task := &list.Items[i]
		st := &task.Status
		if st.ExitReason != v1alpha1.ExitCompleted || st.Summary != task.Name+" is done" {
			t.Errorf("%s: %s %q, %s", task.Name, st.ExitReason, st.Summary, st.Message)
		}
		if int(*st.Iterations) != *turns {
			t.Errorf("%s: %d iterations, the script has %d", task.Name, *st.Iterations, *turns)
		}
		iterations += int(*st.Iterations)
		_, events, err := transcript.Load(ctx, store, transcript.RefOf(task))
		if err != nil {
			t.Errorf("%s: %v", task.Name, err)
			continue
		}
		state, err := loop.Fold(events)
		if err != nil {
			t.Errorf("%s: %v", task.Name, err)
			continue
		}
		if string(state.ExitReason()) != string(st.ExitReason) || state.Iterations != int64(*st.Iterations) || state.Usage.Total() != *st.Usage.TotalTokens {
			t.Errorf("%s: the journal says %s after %d turns and %d tokens, the status %s, %d, %d", task.Name,
				state.ExitReason(), state.Iterations, state.Usage.Total(), st.ExitReason, *st.Iterations, *st.Usage.TotalTokens)
		}
		opened, lost := count(events)
		openings, unknown = openings+opened, unknown+lost
	}
	twice := 0
	for s, n := range e.bumps {
		if n > 1 {
			twice++
			t.Errorf("the side effect of %s, step %d, happened %d times", s.Task, s.Step, n)
		}
	}
	want := *tasks * (*turns - 1)
	t.Logf("tasks %d, iterations %d (script: %d), model calls %d, journal openings %d", len(list.Items), iterations, *tasks**turns, chat.Calls(), openings)
	t.Logf("side effects %d of %d, twice %d, never %d; calls told to the model as unknown %d; reads %d", len(e.bumps), want, twice, want-len(e.bumps), unknown, e.looks)
}

// count tells how often the journal was opened, and how many calls were told to the model as failed.
func count(events []loop.Event) (opened, failed int) {
	for i := range events {
		switch ev := &events[i]; {
		case ev.Opened != nil:
			opened++
		case ev.ToolsReturned != nil:
			for _, r := range ev.ToolsReturned.Results {
				if r.IsError {
					failed++
				}
			}
		}
	}
	return opened, failed
}
