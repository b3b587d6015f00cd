//go:build mockservers

package openai

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// startAimock starts @copilotkit/aimock, which was written by others against OpenAI's wire format.
func startAimock(t *testing.T) loop.Model {
	t.Helper()
	fixtures, err := filepath.Abs("testdata/aimock.json")
	if err != nil {
		t.Fatal(err)
	}
	addr := modeltest.StartNode(t, modeltest.NodeServer{
		Script: "@copilotkit/aimock/dist/cli.js",
		Args:   []string{"-p", "$PORT", "-f", fixtures, "--strict", "--validate-on-load", "--chunk-size", "5"},
	})
	return newModel(t, "http://"+addr+"/v1")
}

func newModel(t *testing.T, endpoint string) loop.Model {
	t.Helper()
	m, err := New(model.Config{Model: "o3", Endpoint: endpoint, APIKey: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ask(t *testing.T, m loop.Model, text string) (*loop.Reply, int, error) {
	t.Helper()
	n := 0
	reply, err := m.Generate(t.Context(), &loop.Request{Messages: []loop.Message{loop.UserText(text)}}, func(more int) { n += more })
	return reply, n, err
}

func TestAimockAgentTurn(t *testing.T) {
	m := startAimock(t)
	req := &loop.Request{
		System:   "be brief",
		Messages: []loop.Message{loop.UserText("what is the weather?")},
		Tools: []loop.ToolDefinition{{Name: "weather", Description: "tells the weather",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`)}},
	}
	first, err := m.Generate(t.Context(), req, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(first.ToolCalls) != 2 || first.Finish != loop.FinishToolCalls || strings.Join(first.Texts(), "") != "Let me look." {
		t.Fatalf("got %+v", first)
	}
	for i, want := range []loop.ToolCall{
		{ID: "call_a", Name: "weather", Arguments: `{"city":"Zurich","unit":"celsius"}`},
		{ID: "call_b", Name: "weather", Arguments: `{"city":"Bern","unit":"celsius"}`},
	} {
		if first.ToolCalls[i] != want {
			t.Errorf("call %d is %+v, want %+v", i, first.ToolCalls[i], want)
		}
	}
	req.Messages = append(req.Messages,
		loop.Message{Role: loop.RoleAssistant, Blocks: first.Blocks, ToolCalls: first.ToolCalls},
		loop.Message{Role: loop.RoleTool, ToolResults: []loop.ToolResult{{CallID: "call_a", Content: "sunny"}, {CallID: "call_b", Content: "sunny"}}})
	second, err := m.Generate(t.Context(), req, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(second.Texts(), ""); got != "Both are sunny.\n\nTASK_COMPLETE: sunny" || second.Finish != loop.FinishStop {
		t.Errorf("got %+v", second)
	}
	if want := (loop.Usage{InputTokens: 120, OutputTokens: 9, TotalTokens: 129}); second.Usage != want {
		t.Errorf("usage %+v, want %+v", second.Usage, want)
	}
}

func TestAimockReasoningIsNoText(t *testing.T) {
	reply, n, err := ask(t, startAimock(t), "think")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(reply.Texts(), ""); got != "Done thinking." {
		t.Errorf("text %q", got)
	}
	if reply.Blocks[0].Kind != loop.BlockReasoning || reply.Blocks[0].Text != "TASK_COMPLETE: only a thought" {
		t.Errorf("blocks %+v", reply.Blocks)
	}
	if n != len("Done thinking.")+len("TASK_COMPLETE: only a thought") {
		t.Errorf("%d bytes counted", n)
	}
}

func TestAimockErrors(t *testing.T) {
	m := startAimock(t)
	for prompt, want := range map[string]struct {
		cause loop.Cause
		retry bool
		after time.Duration
	}{
		"too fast":    {loop.CauseModelRateLimited, true, 17 * time.Second},
		"too long":    {loop.CauseContextWindowExceeded, false, 0},
		"bad key":     {loop.CauseModelAuthenticationFailed, false, 0},
		"no fixture…": {loop.CauseModelUnavailable, true, 0}, // strict: 503
	} {
		_, _, err := ask(t, m, prompt)
		if e := wantError(t, err, want.cause, want.retry); e.RetryAfter != want.after {
			t.Errorf("%s: retry after %v, want %v", prompt, e.RetryAfter, want.after)
		}
	}
}

func TestAimockBreakKeepsWhatArrived(t *testing.T) {
	reply, _, err := ask(t, startAimock(t), "break")
	wantError(t, err, loop.CauseModelUnavailable, true)
	if reply == nil || !strings.HasPrefix(strings.Join(reply.Texts(), ""), "This ") {
		t.Errorf("partial reply %+v", reply)
	}
}

// @dwmkerr/mock-llm sends no usage, and reports errors as events of a stream with status 200.
func TestMockLLMWithoutUsage(t *testing.T) {
	addr := modeltest.StartNode(t, modeltest.NodeServer{
		Script: "@dwmkerr/mock-llm/dist/main.js", Env: []string{"HOST=127.0.0.1", "PORT=$PORT"}, Dir: t.TempDir(),
	})
	reply, n, err := ask(t, newModel(t, "http://"+addr+"/v1"), "an echo of many words, in several pieces")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(reply.Texts(), ""); got != "an echo of many words, in several pieces" || n != len(got) {
		t.Errorf("got %q, %d bytes", got, n)
	}
	if reply.Usage.Reported() || reply.Usage.Estimated {
		t.Errorf("usage %+v: the loop estimates, not the provider", reply.Usage)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = newModel(t, "http://"+addr+"/v1").Generate(ctx, &loop.Request{Messages: []loop.Message{loop.UserText(strings.Repeat("long ", 10_000))}},
		func(int) { cancel() })
	wantError(t, err, loop.CauseModelUnavailable, true)
}
