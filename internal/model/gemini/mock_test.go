//go:build mockservers

package gemini

import (
	"reflect"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// mockFixtures are answers of aimock, an independently written server. It knows no thought signatures; those are tested
// with recorded shapes only.
const mockFixtures = `{"fixtures":[
	{"match":{"userMessage":"limited"},"response":{"error":{"message":"canary-body","type":"RESOURCE_EXHAUSTED"},"status":429,"retryAfter":7}},
	{"match":{"userMessage":"down"},"response":{"error":{"message":"canary-body","type":"UNAVAILABLE"},"status":503}},
	{"match":{"userMessage":"break"},"response":{"content":"This text will never be complete, because the server hangs up."},"truncateAfterChunks":3,"latency":20},
	{"match":{"userMessage":"no usage"},"response":{"content":"free of charge"}},
	{"match":{"userMessage":"long"},"response":{"content":"cut of","finishReason":"length","usage":{"input_tokens":3,"output_tokens":2}}},
	{"match":{"userMessage":"filtered"},"response":{"content":"I","finishReason":"content_filter","usage":{"input_tokens":3,"output_tokens":2}}},
	{"match":{"toolResultContains":"sunny"},"response":{"content":"TASK_COMPLETE: it is sunny","usage":{"input_tokens":40,"output_tokens":8}}},
	{"match":{"userMessage":"weather"},"response":{"content":"Let me look.","reasoning":"I need two places.","usage":{"input_tokens":20,"output_tokens":12},
		"toolCalls":[{"id":"c1","name":"weather","arguments":{"city":"Ulm"}},{"name":"weather","arguments":{"city":"Bonn"}}]}}
]}`

func TestMockServer(t *testing.T) {
	cfg := model.Config{Model: "gemini-2.5-flash", APIKey: modeltest.CanaryKey, Endpoint: modeltest.Aimock(t, mockFixtures),
		Parameters: model.Parameters{ReasoningEffort: "low"}}
	m := mustNew(t, cfg)

	t.Run("a turn with thoughts and two calls, and the turn after it", func(t *testing.T) {
		user := loop.UserText("weather please")
		first, n, err := modeltest.Ask(t, m, user)
		if err != nil {
			t.Fatal(err)
		}
		if len(first.ToolCalls) != 2 || first.ToolCalls[0].ID == first.ToolCalls[1].ID || first.ToolCalls[1].ID == "" {
			t.Fatalf("got calls %+v", first.ToolCalls)
		}
		second := first.ToolCalls[1].ID
		want := loop.Reply{
			Blocks:    []loop.Block{{Kind: loop.BlockReasoning, Text: "I need two places."}, text("Let me look.")},
			ToolCalls: []loop.ToolCall{{ID: "c1", Name: "weather", Arguments: `{"city":"Ulm"}`}, {ID: second, Name: "weather", Arguments: `{"city":"Bonn"}`}},
			Finish:    loop.FinishToolCalls, Usage: loop.Usage{InputTokens: 20, OutputTokens: 12, TotalTokens: 32},
		}
		want.ToolCalls[1].Opaque = first.ToolCalls[1].Opaque
		if !reflect.DeepEqual(*first, want) || n != 18+12+14+15 {
			t.Errorf("got  %+v (%d bytes)\nwant %+v", *first, n, want)
		}
		last, _, err := modeltest.Ask(t, m, user, assistant(first.Blocks, first.ToolCalls...), loop.Message{Role: loop.RoleTool, ToolResults: []loop.ToolResult{
			{CallID: "c1", Name: "weather", Content: "sunny"}, {CallID: second, Name: "weather", Content: "sunny"}}})
		if err != nil || !reflect.DeepEqual(last.Texts(), []string{"TASK_COMPLETE: it is sunny"}) || last.Finish != loop.FinishStop || last.Usage.TotalTokens != 48 {
			t.Errorf("got %+v, %v", last, err)
		}
	})
	for word, finish := range map[string]loop.FinishReason{"long": loop.FinishLength, "filtered": loop.FinishContentFilter} {
		t.Run("a reply that ended: "+word, func(t *testing.T) {
			if reply, _, err := modeltest.Ask(t, m, loop.UserText(word)); err != nil || reply.Finish != finish || reply.Usage.TotalTokens != 5 {
				t.Errorf("got %+v, %v", reply, err)
			}
		})
	}
	t.Run("a server without usage", func(t *testing.T) {
		if reply, _, err := modeltest.Ask(t, m, loop.UserText("no usage")); err != nil || reply.Usage.Reported() {
			t.Errorf("got %+v, %v", reply, err)
		}
	})
	t.Run("a mid-stream cut", func(t *testing.T) {
		reply, _, err := modeltest.Ask(t, m, loop.UserText("break"))
		if e := modeltest.WantModelError(t, err); !e.Retry || e.Cause != loop.CauseModelUnavailable {
			t.Errorf("got %+v", e)
		}
		if reply == nil || len(reply.Texts()) != 1 {
			t.Errorf("the part that arrived is lost: %+v", reply)
		}
	})
	t.Run("a 429 with Retry-After", func(t *testing.T) {
		_, _, err := modeltest.Ask(t, m, loop.UserText("limited"))
		if e := modeltest.WantModelError(t, err); e.Cause != loop.CauseModelRateLimited || !e.Retry || e.RetryAfter != 7*time.Second || e.Status != 429 {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("a server that is down", func(t *testing.T) {
		_, _, err := modeltest.Ask(t, m, loop.UserText("down"))
		if e := modeltest.WantModelError(t, err); e.Cause != loop.CauseModelUnavailable || !e.Retry || e.Status != 503 {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("a wrong key", func(t *testing.T) {
		cfg.APIKey = "wrong"
		_, _, err := modeltest.Ask(t, mustNew(t, cfg), loop.UserText("long"))
		if e := modeltest.WantModelError(t, err); e.Cause != loop.CauseModelAuthenticationFailed || e.Retry || e.Status != 401 {
			t.Errorf("got %+v", e)
		}
	})
}
