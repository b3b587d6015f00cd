//go:build mockservers

package anthropic

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// mockFixtures are answers of aimock, an independently written server. It checks requests in strict mode, that signed
// thinking returns with tool results among it.
const mockFixtures = `{"fixtures":[
	{"match":{"userMessage":"limited"},"response":{"error":{"message":"canary-body","type":"rate_limit_error"},"status":429,"retryAfter":7}},
	{"match":{"userMessage":"overloaded"},"response":{"error":{"message":"canary-body","type":"overloaded_error"},"status":529}},
	{"match":{"userMessage":"break"},"response":{"content":"This text will never be complete, because the server hangs up."},"truncateAfterChunks":6,"latency":20},
	{"match":{"userMessage":"no usage"},"response":{"content":"free of charge"}},
	{"match":{"userMessage":"long"},"response":{"content":"cut of","finishReason":"length","usage":{"input_tokens":3,"output_tokens":2}}},
	{"match":{"toolResultContains":"sunny"},"response":{"content":"TASK_COMPLETE: it is sunny","usage":{"input_tokens":40,"output_tokens":8}}},
	{"match":{"userMessage":"weather"},"response":{"content":"Let me look.","reasoning":"I need two places.","reasoningSignature":"SIGNED",
		"redactedThinking":["ENCRYPTED"],"usage":{"input_tokens":20,"output_tokens":12},
		"toolCalls":[{"id":"toolu_1","name":"weather","arguments":{"city":"Ulm"}},{"id":"toolu_2","name":"weather","arguments":{"city":"Bonn"}}]}}
]}`

func TestMockServer(t *testing.T) {
	cfg := model.Config{Model: "claude-haiku-4-5", APIKey: modeltest.CanaryKey, Endpoint: modeltest.Aimock(t, mockFixtures),
		Parameters: model.Parameters{ReasoningEffort: "low"}}
	m := mustNew(t, cfg)

	t.Run("a turn with thinking and two calls, and the turn after it", func(t *testing.T) {
		user := loop.UserText("weather please")
		first, n, err := modeltest.Ask(t, m, user)
		if err != nil {
			t.Fatal(err)
		}
		want := loop.Reply{
			Blocks: []loop.Block{
				{Kind: loop.BlockReasoning, Opaque: `anthropic:{"type":"redacted_thinking","data":"ENCRYPTED"}`},
				{Kind: loop.BlockReasoning, Text: "I need two places.", Opaque: `anthropic:{"type":"thinking","signature":"SIGNED","bytes":18}`},
				text("Let me look."),
			},
			ToolCalls: []loop.ToolCall{{ID: "toolu_1", Name: "weather", Arguments: `{"city":"Ulm"}`}, {ID: "toolu_2", Name: "weather", Arguments: `{"city":"Bonn"}`}},
			Finish:    loop.FinishToolCalls, Model: "claude-haiku-4-5",
			Usage: loop.Usage{InputTokens: 20, OutputTokens: 12, TotalTokens: 32},
		}
		want.RequestID = first.RequestID
		if !reflect.DeepEqual(*first, want) || first.RequestID == "" || n != 18+12+14+15 {
			t.Errorf("got  %+v (%d bytes)\nwant %+v", *first, n, want)
		}
		second, _, err := modeltest.Ask(t, m, user, assistant(first.Blocks, first.ToolCalls...),
			results(loop.ToolResult{CallID: "toolu_1", Name: "weather", Content: "sunny"}, loop.ToolResult{CallID: "toolu_2", Name: "weather", Content: "sunny"}))
		if err != nil || !reflect.DeepEqual(second.Texts(), []string{"TASK_COMPLETE: it is sunny"}) || second.Finish != loop.FinishStop || second.Usage.TotalTokens != 48 {
			t.Errorf("got %+v, %v", second, err)
		}
		if _, _, err := modeltest.Ask(t, m, user, assistant(first.Blocks, first.ToolCalls...),
			results(loop.ToolResult{CallID: "toolu_1", Name: "weather", Content: "sunny"}, loop.ToolResult{CallID: "toolu_2", Name: "weather", Content: "sunny"}),
			assistant(second.Blocks), loop.UserText("long")); err != nil {
			t.Errorf("the turn after the calls: %v", err)
		}
	})
	lost := []loop.Message{loop.UserText("weather"), assistant(nil, loop.ToolCall{ID: "toolu_1", Name: "weather"}),
		results(loop.ToolResult{CallID: "toolu_1", Name: "weather", Content: "sunny"})}
	t.Run("calls whose thinking was lost go on without", func(t *testing.T) {
		if _, _, err := modeltest.Ask(t, m, lost...); err != nil {
			t.Error(err)
		}
	})
	t.Run("after them the server refuses it, so the first test proves that it came back", func(t *testing.T) {
		_, _, err := modeltest.Ask(t, m, append(slices.Clone(lost), assistant([]loop.Block{text("sunny")}), loop.UserText("long"))...)
		if e := modeltest.WantModelError(t, err); e.Cause != loop.CauseModelRequestInvalid || e.Retry {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("a reply cut by length", func(t *testing.T) {
		if reply, _, err := modeltest.Ask(t, m, loop.UserText("long")); err != nil || reply.Finish != loop.FinishLength {
			t.Errorf("got %+v, %v", reply, err)
		}
	})
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
	t.Run("an overloaded server", func(t *testing.T) {
		_, _, err := modeltest.Ask(t, m, loop.UserText("overloaded"))
		if e := modeltest.WantModelError(t, err); e.Cause != loop.CauseModelUnavailable || !e.Retry || e.Status != 529 {
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
