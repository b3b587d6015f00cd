package gemini

import (
	"encoding/json"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func assistant(blocks []loop.Block, calls ...loop.ToolCall) loop.Message {
	return loop.Message{Role: loop.RoleAssistant, Blocks: blocks, ToolCalls: calls}
}

func text(s string) loop.Block { return loop.Block{Kind: loop.BlockText, Text: s} }

func TestConversationConverts(t *testing.T) {
	for reason, tc := range map[string]struct {
		in   []loop.Message
		want string
	}{
		"user, model, results under output and error, and the nudge apart": {
			in: []loop.Message{
				loop.UserText("go"),
				assistant([]loop.Block{text("ok")}, loop.ToolCall{ID: "c1", Name: "ls", Arguments: `{"p":"/"}`}, loop.ToolCall{ID: "c2", Name: "ls"}),
				{Role: loop.RoleTool, ToolResults: []loop.ToolResult{{CallID: "c1", Name: "ls", Content: "a"}, {CallID: "c2", Name: "ls", Content: "no", IsError: true}}},
				loop.UserText("next"),
			},
			want: `[{"role":"user","parts":[{"text":"go"}]},
				{"role":"model","parts":[{"text":"ok"},{"functionCall":{"id":"c1","name":"ls","args":{"p":"/"}}},{"functionCall":{"id":"c2","name":"ls"}}]},
				{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"a"}}},
					{"functionResponse":{"id":"c2","name":"ls","response":{"error":"no"}}}]},
				{"role":"user","parts":[{"text":"next"}]}]`,
		},
		"an id that we made is not sent, neither with the call nor with its result": {
			in: []loop.Message{
				assistant(nil, loop.ToolCall{ID: "r_0", Name: "f", Opaque: `gemini:{"made":true}`}),
				{Role: loop.RoleTool, ToolResults: []loop.ToolResult{{CallID: "r_0", Name: "f", Content: "x"}}},
			},
			want: `[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},
				{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}}]}]`,
		},
		"signatures go back with the parts they came with, and calls to their place": {
			in: []loop.Message{assistant(
				[]loop.Block{
					{Kind: loop.BlockText, Text: "plain signed rest", Opaque: `gemini:{"signed":[{"from":6,"to":12,"signature":"AQ=="}]}`},
					text("after"),
				},
				loop.ToolCall{ID: "c1", Name: "f", Opaque: `gemini:{"signature":"Ag==","after":1}`})},
			want: `[{"role":"model","parts":[{"text":"plain "},{"text":"signed","thoughtSignature":"AQ=="},{"text":" rest"},
				{"functionCall":{"id":"c1","name":"f"},"thoughtSignature":"Ag=="},{"text":"after"}]}]`,
		},
		"thoughts go back only where they are signed": {
			in: []loop.Message{assistant([]loop.Block{
				{Kind: loop.BlockReasoning, Text: "unsigned"},
				{Kind: loop.BlockReasoning, Text: "signed", Opaque: `gemini:{"signed":[{"from":0,"to":6,"signature":"AQ=="}]}`},
				{Kind: loop.BlockReasoning, Text: "signed", Opaque: `anthropic:{"type":"thinking","signature":"s","bytes":6}`},
				text("x"),
			})},
			want: `[{"role":"model","parts":[{"text":"signed","thought":true,"thoughtSignature":"AQ=="},{"text":"x"}]}]`,
		},
		"marks that do not fit the text any more are dropped, the text is not": {
			in: []loop.Message{assistant([]loop.Block{
				{Kind: loop.BlockText, Text: "cut", Opaque: `gemini:{"signed":[{"from":0,"to":9,"signature":"AQ=="}]}`},
				{Kind: loop.BlockText, Text: "odd", Opaque: `gemini:{"signed":[{"from":2,"to":1,"signature":"AQ=="}]}`},
				{Kind: loop.BlockText, Text: "torn", Opaque: `gemini:{"sig`},
			})},
			want: `[{"role":"model","parts":[{"text":"cut"},{"text":"odd"},{"text":"torn"}]}]`,
		},
		"our note about a discarded call goes back as text": {
			in:   []loop.Message{assistant([]loop.Block{{Kind: loop.BlockReasoning, Text: "(note)", Opaque: `gemini:{"note":true}`}})},
			want: `[{"role":"model","parts":[{"text":"(note)"}]}]`,
		},
		"what is empty is left out": {
			in:   []loop.Message{loop.UserText("a"), assistant([]loop.Block{text(" ")}), loop.UserText("b")},
			want: `[{"role":"user","parts":[{"text":"a"}]},{"role":"user","parts":[{"text":"b"}]}]`,
		},
		"malformed arguments are shown to the model inside an object": {
			in:   []loop.Message{assistant(nil, loop.ToolCall{ID: "c", Name: "f", Arguments: `{"a":`})},
			want: `[{"role":"model","parts":[{"functionCall":{"id":"c","name":"f","args":{"malformed_arguments":"{\"a\":"}}}]}]`,
		},
	} {
		t.Run(reason, func(t *testing.T) { modeltest.WantJSON(t, toContents(tc.in), tc.want) })
	}
}

func TestConfigurationConverts(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	seed := int64(1) << 40
	schema := json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}`)
	for reason, tc := range map[string]struct {
		cfg  model.Config
		req  loop.Request
		want string
	}{
		"the smallest request leaves everything to the model": {want: `{"automaticContinuation":false}`},
		"all parameters": {
			cfg: model.Config{Parameters: model.Parameters{Temperature: f(0), TopP: f(0.9), FrequencyPenalty: f(0.5), PresencePenalty: f(0.25),
				Seed: &seed, StopSequences: []string{"END"}, MaxOutputTokens: 50}},
			req: loop.Request{System: "sys", MaxOutputTokens: 40},
			want: `{"automaticContinuation":false,"temperature":0,"topP":0.9,"frequencyPenalty":0.5,"presencePenalty":0.25,
				"seed":512,"stopSequences":["END"],"maxOutputTokens":40,"systemInstruction":{"parts":[{"text":"sys"}]}}`,
		},
		"tools with and without a schema": {
			req: loop.Request{Tools: []loop.ToolDefinition{{Name: "a", Description: "d", InputSchema: schema}, {Name: "b"}, {Name: "c", InputSchema: json.RawMessage(`{`)}}},
			want: `{"automaticContinuation":false,"tools":[{"functionDeclarations":[
				{"name":"a","description":"d","parametersJsonSchema":{"type":"object"}},{"name":"b"},{"name":"c"}]}]}`,
		},
		"an output schema without tools": {
			req:  loop.Request{OutputSchema: schema},
			want: `{"automaticContinuation":false,"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}`,
		},
		"an output schema with tools is not sent": {
			req:  loop.Request{OutputSchema: schema, Tools: []loop.ToolDefinition{{Name: "a"}}},
			want: `{"automaticContinuation":false,"tools":[{"functionDeclarations":[{"name":"a"}]}]}`,
		},
		"a cap above 32 bits": {
			cfg:  model.Config{Parameters: model.Parameters{MaxOutputTokens: 1 << 40}},
			want: `{"automaticContinuation":false,"maxOutputTokens":2147483647}`,
		},
	} {
		t.Run(reason, func(t *testing.T) { modeltest.WantJSON(t, toConfig(tc.cfg, &tc.req), tc.want) })
	}
}

func TestReasoningEffortMapsToThinking(t *testing.T) {
	for reason, tc := range map[string]struct {
		model, effort string
		cap           int32
		want          string
	}{
		"unset leaves the model's default":     {model: "gemini-3-pro", want: `null`},
		"a word that is not known too":         {model: "gemini-3-pro", effort: "extreme", want: `null`},
		"new models take a level":              {model: "gemini-3-flash-preview", effort: "Medium", want: `{"includeThoughts":true,"thinkingLevel":"MEDIUM"}`},
		"and cannot be switched off":           {model: "gemini-3-flash", effort: "none", want: `{"thinkingLevel":"MINIMAL"}`},
		"names without a version are the new":  {model: "gemini-flash-latest", effort: "high", want: `{"includeThoughts":true,"thinkingLevel":"HIGH"}`},
		"older models take a budget":           {model: "models/gemini-2.5-pro", effort: "high", want: `{"includeThoughts":true,"thinkingBudget":24576}`},
		"of at most half of the cap":           {model: "gemini-2.5-flash", effort: "high", cap: 4000, want: `{"includeThoughts":true,"thinkingBudget":2000}`},
		"but not less than all models take":    {model: "gemini-2.5-flash", effort: "low", cap: 100, want: `{"includeThoughts":true,"thinkingBudget":512}`},
		"none switches them off":               {model: "gemini-2.5-flash", effort: "none", cap: 100, want: `{"thinkingBudget":0}`},
		"a later version that begins like one": {model: "gemini-20", effort: "low", want: `{"includeThoughts":true,"thinkingLevel":"LOW"}`},
	} {
		t.Run(reason, func(t *testing.T) { modeltest.WantJSON(t, thinkingFor(tc.model, tc.effort, tc.cap), tc.want) })
	}
}
