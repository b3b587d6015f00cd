package anthropic

import (
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestThinkingIsNotBegunWithinARowOfCalls(t *testing.T) {
	temperature := 0.5
	const on, off = `{"thinking":{"type":"enabled","budget_tokens":5000}}`, `{"temperature":0.5}`
	const adaptive = `{"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"medium"}}`
	thought := loop.Block{Kind: loop.BlockReasoning, Text: "hm", Opaque: `anthropic:{"type":"thinking","signature":"sig","bytes":2}`}
	redacted := loop.Block{Kind: loop.BlockReasoning, Opaque: `anthropic:{"type":"redacted_thinking","data":"enc"}`}
	lost := loop.Block{Kind: loop.BlockReasoning}
	user, nudge := loop.UserText("go"), loop.UserText("go on")
	call := func(id string, blocks ...loop.Block) loop.Message {
		return assistant(blocks, loop.ToolCall{ID: id, Name: "f"})
	}
	done := func(id string) loop.Message { return results(loop.ToolResult{CallID: id, Content: "x"}) }
	for reason, tc := range map[string]struct {
		model string // claude-haiku-4-5 where empty
		msgs  []loop.Message
		want  string
	}{
		"a first turn thinks":                              {msgs: []loop.Message{user}, want: on},
		"a call with thinking goes on with it":             {msgs: []loop.Message{user, call("1", thought), done("1")}, want: on},
		"redacted thinking is thinking":                    {msgs: []loop.Message{user, call("1", redacted), done("1")}, want: on},
		"a call without any does not begin":                {msgs: []loop.Message{user, call("1"), done("1")}, want: off},
		"nor one whose thoughts the journal had no room":   {msgs: []loop.Message{user, call("1", lost, text("ok")), done("1")}, want: off},
		"nor one that is followed by a nudge":              {msgs: []loop.Message{user, call("1"), done("1"), nudge}, want: off},
		"thinking once is enough for a row of calls":       {msgs: []loop.Message{user, call("1", thought), done("1"), call("2"), done("2")}, want: on},
		"thinking before the row is none in it":            {msgs: []loop.Message{user, call("1", thought), done("1"), assistant([]loop.Block{text("ok")}), nudge, call("2"), done("2")}, want: off},
		"a reply without calls ends the row":               {msgs: []loop.Message{user, call("1"), done("1"), assistant([]loop.Block{text("ok")}), nudge}, want: on},
		"newer models begin when they like":                {model: "claude-opus-4-6", msgs: []loop.Message{user, call("1"), done("1")}, want: adaptive},
		"other makers' models, which sign nothing, do too": {model: "glm-5", msgs: []loop.Message{user, call("1", lost), done("1")}, want: on},
	} {
		t.Run(reason, func(t *testing.T) {
			cfg := model.Config{Model: tc.model, Parameters: model.Parameters{ReasoningEffort: "medium", Temperature: &temperature, MaxOutputTokens: 10000}}
			if cfg.Model == "" {
				cfg.Model = "claude-haiku-4-5"
			}
			got := wire(t, toParams(cfg, &loop.Request{Messages: tc.msgs, Tools: []loop.ToolDefinition{{Name: "f"}}}))
			for _, k := range []string{"model", "max_tokens", "messages", "tools"} {
				delete(got, k)
			}
			modeltest.WantJSON(t, got, tc.want)
		})
	}
}

func TestASmallCapIsAValidRequest(t *testing.T) {
	thought := loop.Block{Kind: loop.BlockReasoning, Text: "hm", Opaque: `anthropic:{"type":"thinking","signature":"sig","bytes":2}`}
	redacted := loop.Block{Kind: loop.BlockReasoning, Opaque: `anthropic:{"type":"redacted_thinking","data":"enc"}`}
	row := []loop.Message{loop.UserText("go"), assistant([]loop.Block{thought, redacted}, loop.ToolCall{ID: "1", Name: "f"}),
		results(loop.ToolResult{CallID: "1", Content: "x"})}
	const call, budget = `{"type":"tool_use","id":"1","name":"f","input":{}}`, `"thinking":{"type":"enabled","budget_tokens":1024}`
	for reason, tc := range map[string]struct {
		model string
		cap   int64
		want  string // of thinking, and of what the model said
	}{
		"no room for thoughts: none are begun, none are shown": {"claude-haiku-4-5", 900, `{"said":[` + call + `]}`},
		"the least budget leaves nothing for an answer":        {"claude-haiku-4-5", 1024, `{"said":[` + call + `]}`},
		"one token more is a valid request": {"claude-haiku-4-5", 1025, `{` + budget + `,"said":[
			{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"redacted_thinking","data":"enc"},` + call + `]}`},
		"newer models have no budget": {"claude-opus-4-6", 900, `{"thinking":{"type":"adaptive","display":"summarized"},"said":[
			{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"redacted_thinking","data":"enc"},` + call + `]}`},
	} {
		t.Run(reason, func(t *testing.T) {
			cfg := model.Config{Model: tc.model, Parameters: model.Parameters{ReasoningEffort: "high"}}
			got := wire(t, toParams(cfg, &loop.Request{Messages: row, Tools: []loop.ToolDefinition{{Name: "f"}}, MaxOutputTokens: tc.cap}))
			if got["max_tokens"] != float64(tc.cap) {
				t.Errorf("max_tokens is %v", got["max_tokens"])
			}
			out := map[string]any{"said": got["messages"].([]any)[1].(map[string]any)["content"]}
			if got["thinking"] != nil {
				out["thinking"] = got["thinking"]
			}
			modeltest.WantJSON(t, out, tc.want)
		})
	}
}
