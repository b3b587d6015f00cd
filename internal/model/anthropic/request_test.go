package anthropic

import (
	"encoding/json"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// wire gives what params look like on the wire.
func wire(t *testing.T, v any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	return out
}

func assistant(blocks []loop.Block, calls ...loop.ToolCall) loop.Message {
	return loop.Message{Role: loop.RoleAssistant, Blocks: blocks, ToolCalls: calls}
}

func text(s string) loop.Block { return loop.Block{Kind: loop.BlockText, Text: s} }

func results(rs ...loop.ToolResult) loop.Message {
	return loop.Message{Role: loop.RoleTool, ToolResults: rs}
}

func TestMessagesConvert(t *testing.T) {
	thinking := loop.Block{Kind: loop.BlockReasoning, Text: "hm", Opaque: `anthropic:{"type":"thinking","signature":"sig","bytes":2}`}
	redacted := loop.Block{Kind: loop.BlockReasoning, Opaque: `anthropic:{"type":"redacted_thinking","data":"enc"}`}
	for reason, tc := range map[string]struct {
		in   []loop.Message
		want string
	}{
		"a user's text": {
			in:   []loop.Message{loop.UserText("hi")},
			want: `[{"role":"user","content":[{"type":"text","text":"hi"}]}]`,
		},
		"tool results are user content, and the nudge after them joins the same message": {
			in: []loop.Message{
				loop.UserText("go"),
				assistant([]loop.Block{text("ok")}, loop.ToolCall{ID: "t1", Name: "ls", Arguments: `{"p":"/"}`}, loop.ToolCall{ID: "t2", Name: "ls"}),
				results(loop.ToolResult{CallID: "t1", Content: "a"}, loop.ToolResult{CallID: "t2", Content: "no", IsError: true}),
				loop.UserText("next"),
			},
			want: `[{"role":"user","content":[{"type":"text","text":"go"}]},
				{"role":"assistant","content":[{"type":"text","text":"ok"},
					{"type":"tool_use","id":"t1","name":"ls","input":{"p":"/"}},{"type":"tool_use","id":"t2","name":"ls","input":{}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a"}]},
					{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[{"type":"text","text":"no"}]},
					{"type":"text","text":"next"}]}]`,
		},
		"an empty result has no content, because empty text is refused": {
			in:   []loop.Message{results(loop.ToolResult{CallID: "t1", Content: " \n"})},
			want: `[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}]`,
		},
		"blank text and empty messages are left out and their neighbours join": {
			in:   []loop.Message{loop.UserText("a"), assistant([]loop.Block{text(" ")}), loop.UserText("b")},
			want: `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
		},
		"signed and redacted thinking goes back unchanged and in order": {
			in: []loop.Message{assistant([]loop.Block{thinking, redacted, text("x")})},
			want: `[{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},
				{"type":"redacted_thinking","data":"enc"},{"type":"text","text":"x"}]}]`,
		},
		"thinking without our signature, or whose text was cut since, stays out": {
			in: []loop.Message{assistant([]loop.Block{
				{Kind: loop.BlockReasoning, Text: "hm"},
				{Kind: loop.BlockReasoning, Text: "hm", Opaque: `gemini:{"type":"thinking","signature":"s","bytes":2}`},
				{Kind: loop.BlockReasoning, Text: "h", Opaque: thinking.Opaque},
				{Kind: loop.BlockReasoning, Text: "hm", Opaque: `anthropic:{"type":"thi`},
				text("x"),
			})},
			want: `[{"role":"assistant","content":[{"type":"text","text":"x"}]}]`,
		},
		"a call returns to its place between blocks": {
			in: []loop.Message{assistant([]loop.Block{text("a"), thinking},
				loop.ToolCall{ID: "t1", Name: "f", Opaque: `anthropic:{"after":1}`}, loop.ToolCall{ID: "t2", Name: "f"})},
			want: `[{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"t1","name":"f","input":{}},
				{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"tool_use","id":"t2","name":"f","input":{}}]}]`,
		},
		"malformed arguments are shown to the model inside an object": {
			in: []loop.Message{assistant(nil, loop.ToolCall{ID: "t1", Name: "f", Arguments: `{"a":`}, loop.ToolCall{ID: "t2", Name: "f", Arguments: `[1]`})},
			want: `[{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"malformed_arguments":"{\"a\":"}},
				{"type":"tool_use","id":"t2","name":"f","input":{"malformed_arguments":"[1]"}}]}]`,
		},
		"a name and ids that the API does not take are replaced, in call and result alike": {
			in: []loop.Message{
				assistant(nil, loop.ToolCall{ID: "a_2", Name: "github:list issues"}, loop.ToolCall{ID: "a#2", Name: ""}, loop.ToolCall{ID: "a.2", Name: "ls"}),
				results(loop.ToolResult{CallID: "a.2", Content: "3"}, loop.ToolResult{CallID: "a_2", Content: "1"}, loop.ToolResult{CallID: "a#2", Content: "2"}),
			},
			want: `[{"role":"assistant","content":[{"type":"tool_use","id":"a_2","name":"github_list_issues","input":{}},
					{"type":"tool_use","id":"call_0f902cf93256f2de5ed7ff6c1b287144","name":"unknown","input":{}},
					{"type":"tool_use","id":"call_0baf0d14a1b0f3359aac9a05b4d27352","name":"ls","input":{}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_0baf0d14a1b0f3359aac9a05b4d27352","content":[{"type":"text","text":"3"}]},
					{"type":"tool_result","tool_use_id":"a_2","content":[{"type":"text","text":"1"}]},
					{"type":"tool_result","tool_use_id":"call_0f902cf93256f2de5ed7ff6c1b287144","content":[{"type":"text","text":"2"}]}]}]`,
		},
		"thinking that nothing follows stays out": {
			in:   []loop.Message{assistant([]loop.Block{text("a"), thinking, redacted, text(" ")})},
			want: `[{"role":"assistant","content":[{"type":"text","text":"a"}]}]`,
		},
		"a reply of thinking alone is no message": {
			in:   []loop.Message{loop.UserText("a"), assistant([]loop.Block{thinking})},
			want: `[{"role":"user","content":[{"type":"text","text":"a"}]}]`,
		},
		"a refusal is the assistant's text": {
			in:   []loop.Message{assistant([]loop.Block{{Kind: loop.BlockRefusal, Text: "no"}})},
			want: `[{"role":"assistant","content":[{"type":"text","text":"no"}]}]`,
		},
	} {
		t.Run(reason, func(t *testing.T) { modeltest.WantJSON(t, toMessages(tc.in), tc.want) })
	}
}

func TestRequestConverts(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	seed := int64(7)
	user := []loop.Message{loop.UserText("hi")}
	const hi = `"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]`
	for reason, tc := range map[string]struct {
		cfg  model.Config
		req  loop.Request
		want string
	}{
		"the smallest request has the default cap": {
			cfg: model.Config{Model: "m"}, req: loop.Request{Messages: user},
			want: `{"model":"m","max_tokens":8192,` + hi + `}`,
		},
		"parameters that the API knows are sent and others are not": {
			cfg: model.Config{Model: "m", Parameters: model.Parameters{Temperature: f(0), TopP: f(0.5), Seed: &seed,
				FrequencyPenalty: f(1), PresencePenalty: f(1), StopSequences: []string{"END"}, MaxOutputTokens: 50}},
			req:  loop.Request{Messages: user, MaxOutputTokens: 60},
			want: `{"model":"m","max_tokens":50,"temperature":0,"top_p":0.5,"stop_sequences":["END"],` + hi + `}`,
		},
		"tools keep their schema, and one without is any object": {
			cfg: model.Config{Model: "m"},
			req: loop.Request{Messages: user, Purpose: loop.PurposeJudge, Tools: []loop.ToolDefinition{
				{Name: "a", Description: "d", InputSchema: json.RawMessage(`{"properties":{"x":{"type":"integer"}},"$defs":{"y":{}},"additionalProperties":false}`)},
				{Name: "b"}, {Name: "c", InputSchema: json.RawMessage(`true`)},
			}},
			want: `{"model":"m","max_tokens":8192,` + hi + `,"tools":[
				{"name":"a","description":"d","input_schema":{"type":"object","properties":{"x":{"type":"integer"}},"$defs":{"y":{}},"additionalProperties":false}},
				{"name":"b","input_schema":{"type":"object"}},{"name":"c","input_schema":{"type":"object"}}]}`,
		},
		"a turn is marked for the prompt cache": {
			cfg: model.Config{Model: "m"},
			req: loop.Request{Messages: user, System: "sys", Purpose: loop.PurposeTurn},
			want: `{"model":"m","max_tokens":8192,"system":[{"type":"text","text":"sys","cache_control":{"type":"ephemeral"}}],
				"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}`,
		},
		"a call that happens once is not": {
			cfg:  model.Config{Model: "m"},
			req:  loop.Request{Messages: user, System: "sys", Purpose: loop.PurposeJudge},
			want: `{"model":"m","max_tokens":8192,"system":[{"type":"text","text":"sys"}],` + hi + `}`,
		},
		"an output schema is the output format": {
			cfg:  model.Config{Model: "m"},
			req:  loop.Request{Messages: user, OutputSchema: json.RawMessage(`{"type":"object"}`)},
			want: `{"model":"m","max_tokens":8192,` + hi + `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}`,
		},
		"without tools those of past calls are declared and may not be called": {
			cfg: model.Config{Model: "m"},
			req: loop.Request{Purpose: loop.PurposeWrapUp, Messages: []loop.Message{
				assistant(nil, loop.ToolCall{ID: "1", Name: "b"}, loop.ToolCall{ID: "2", Name: "a"}, loop.ToolCall{ID: "3", Name: "b"}),
			}},
			want: `{"model":"m","max_tokens":8192,"tool_choice":{"type":"none"},
				"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"b","input_schema":{"type":"object"}}],
				"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"b","input":{}},
					{"type":"tool_use","id":"2","name":"a","input":{}},{"type":"tool_use","id":"3","name":"b","input":{}}]}]}`,
		},
		"a past call's name that the API does not take is declared as it is sent": {
			cfg: model.Config{Model: "m"},
			req: loop.Request{Purpose: loop.PurposeWrapUp, Messages: []loop.Message{
				assistant(nil, loop.ToolCall{ID: "1", Name: "github:list issues"}, loop.ToolCall{ID: "2", Name: "github_list_issues"}),
			}},
			want: `{"model":"m","max_tokens":8192,"tool_choice":{"type":"none"},
				"tools":[{"name":"github_list_issues","input_schema":{"type":"object"}}],
				"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"github_list_issues","input":{}},
					{"type":"tool_use","id":"2","name":"github_list_issues","input":{}}]}]}`,
		},
	} {
		t.Run(reason, func(t *testing.T) { modeltest.WantJSON(t, wire(t, toParams(tc.cfg, &tc.req)), tc.want) })
	}
}

func TestSmallerOutputCapWins(t *testing.T) {
	for reason, tc := range map[string]struct{ request, configured, want int64 }{
		"neither":              {0, 0, 8192},
		"only the request's":   {10, 0, 10},
		"only the model's":     {0, 20, 20},
		"the request's":        {10, 20, 10},
		"the model's":          {30, 20, 20},
		"nonsense is no cap":   {-1, -5, 8192},
		"above the default is": {0, 64000, 64000},
	} {
		if got := maxTokens(tc.request, tc.configured); got != tc.want {
			t.Errorf("%s: got %d, want %d", reason, got, tc.want)
		}
	}
}

func TestReasoningEffortMapsToThinking(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	for reason, tc := range map[string]struct {
		model, effort string
		cap           int64
		topP          *float64
		want          string // thinking, output_config, temperature, top_p
	}{
		"unset leaves the model's default":         {model: "claude-sonnet-5", want: `{"temperature":0.5}`},
		"new models take an effort":                {model: "claude-opus-4-6", effort: "high", want: `{"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"}}`},
		"minimal is low there":                     {model: "claude-fable-5-1", effort: "minimal", want: `{"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}}`},
		"none switches them off":                   {model: "claude-sonnet-5-5", effort: "none", want: `{"thinking":{"type":"disabled"},"temperature":0.5}`},
		"none on old models is simply not asking":  {model: "claude-haiku-4-5", effort: "none", want: `{"temperature":0.5}`},
		"old models take a share of the cap":       {model: "claude-haiku-4-5-20251001", effort: "medium", cap: 10000, want: `{"thinking":{"type":"enabled","budget_tokens":5000}}`},
		"of at least 1024":                         {model: "claude-3-7-sonnet-20250219", effort: "minimal", cap: 2000, want: `{"thinking":{"type":"enabled","budget_tokens":1024}}`},
		"of at most 32000":                         {model: "claude-opus-4-1", effort: "high", cap: 64000, want: `{"thinking":{"type":"enabled","budget_tokens":32000}}`},
		"and none where the cap leaves no room":    {model: "claude-opus-4-1", effort: "high", cap: 1024, want: `{"temperature":0.5}`},
		"other makers' models take a budget":       {model: "glm-5", effort: "low", cap: 10000, want: `{"thinking":{"type":"enabled","budget_tokens":2000}}`},
		"a word that is not known changes nothing": {model: "claude-sonnet-5", effort: "extreme", want: `{"temperature":0.5}`},
		"a high top_p may stay beside thinking":    {model: "claude-opus-4-6", effort: "LOW", topP: f(0.97), want: `{"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"},"top_p":0.97}`},
		"a low one may not":                        {model: "claude-opus-4-6", effort: "low", topP: f(0.5), want: `{"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}}`},
	} {
		t.Run(reason, func(t *testing.T) {
			cfg := model.Config{Model: tc.model, Parameters: model.Parameters{
				ReasoningEffort: tc.effort, Temperature: f(0.5), TopP: tc.topP, MaxOutputTokens: tc.cap}}
			got := wire(t, toParams(cfg, &loop.Request{}))
			for _, k := range []string{"model", "max_tokens", "messages"} {
				delete(got, k)
			}
			modeltest.WantJSON(t, got, tc.want)
		})
	}
}

func TestVersionDecidesWhetherThinkingIsAdaptive(t *testing.T) {
	for name, want := range map[string]bool{
		"claude-3-5-sonnet-20241022": false, "claude-3-7-sonnet-latest": false, "claude-sonnet-4-20250514": false,
		"claude-opus-4-0": false, "claude-opus-4-1-20250805": false, "claude-sonnet-4-5": false, "claude-opus-4-5-20251101": false,
		"claude-opus-4-6": true, "claude-sonnet-4-6-20260301": true, "claude-opus-4-8": true, "claude-sonnet-5": true,
		"claude-mythos-preview": true, "claude-fable-5-1": true, "anthropic/claude-sonnet-4.5": false, "anthropic/claude-opus-4.7": true,
		"anthropic.claude-opus-4-6-v1": true, "us.anthropic.claude-sonnet-4-20250514-v1:0": false, "gpt-5": false, "": false,
	} {
		if got := thinksAdaptively(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
