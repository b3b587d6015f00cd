package openai

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

func TestRequestsAreConverted(t *testing.T) {
	half, seed := 0.5, int64(7)
	cases := map[string]struct {
		cfg      model.Config
		features features
		req      loop.Request
		want     string // the request without the fields that all share
	}{
		"prompt and system": {
			req:  loop.Request{System: "be brief", Messages: []loop.Message{loop.UserText("hello")}},
			want: `{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello"}]}`,
		},
		"parameters": {
			cfg: model.Config{Parameters: model.Parameters{
				Temperature: &half, TopP: &half, FrequencyPenalty: &half, PresencePenalty: &half, Seed: &seed,
				StopSequences: []string{"END"}, ReasoningEffort: "low", MaxOutputTokens: 100,
			}},
			want: `{"temperature":0.5,"top_p":0.5,"frequency_penalty":0.5,"presence_penalty":0.5,"seed":7,
				"stop":["END"],"reasoning_effort":"low","max_tokens":100}`,
		},
		"the official API has another name for the cap": {
			features: features{completionTokens: true},
			req:      loop.Request{MaxOutputTokens: 9},
			want:     `{"max_completion_tokens":9}`,
		},
		"the request's smaller cap wins": {
			cfg:  model.Config{Parameters: model.Parameters{MaxOutputTokens: 100}},
			req:  loop.Request{MaxOutputTokens: 9},
			want: `{"max_tokens":9}`,
		},
		"the configuration's smaller cap wins": {
			cfg:  model.Config{Parameters: model.Parameters{MaxOutputTokens: 8}},
			req:  loop.Request{MaxOutputTokens: 9},
			want: `{"max_tokens":8}`,
		},
		"tools, one without schema": {
			req: loop.Request{Tools: []loop.ToolDefinition{
				{Name: "add", Description: "adds", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}`)},
				{Name: "now"},
			}},
			want: `{"tools":[
				{"type":"function","function":{"name":"add","description":"adds","parameters":{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}}},
				{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}]}`,
		},
		"an output schema": {
			req:  loop.Request{OutputSchema: json.RawMessage(`{"type":"object"}`)},
			want: `{"response_format":{"type":"json_schema","json_schema":{"name":"output","schema":{"type":"object"}}}}`,
		},
		"an output schema for a server that does not know it": {
			features: features{noResponseFormat: true},
			req:      loop.Request{OutputSchema: json.RawMessage(`{"type":"object"}`)},
			want:     `{}`,
		},
		"history with calls and results": {
			req: loop.Request{Messages: []loop.Message{
				{Role: loop.RoleAssistant,
					Blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: "hm"}, {Kind: loop.BlockText, Text: "one"}, {Kind: loop.BlockText, Text: "two"}},
					ToolCalls: []loop.ToolCall{
						{ID: "c1", Name: "add", Arguments: `{"a":1}`},
						{ID: "c2", Name: "now", Opaque: `{"google":{"thought_signature":"s"}}`},
					}},
				{Role: loop.RoleTool, ToolResults: []loop.ToolResult{{CallID: "c1", Content: "2"}, {CallID: "c2", Content: "noon", IsError: true}}},
			}},
			want: `{"messages":[
				{"role":"assistant","content":"one\n\ntwo","tool_calls":[
					{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}},
					{"id":"c2","type":"function","function":{"name":"now","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}]},
				{"role":"tool","tool_call_id":"c1","content":"2"},
				{"role":"tool","tool_call_id":"c2","content":"noon"}]}`,
		},
		"reasoning goes back to the servers that want it": {
			features: features{replayReasoning: true},
			req: loop.Request{Messages: []loop.Message{{Role: loop.RoleAssistant,
				Blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: "hm"}, {Kind: loop.BlockText, Text: "one"}}}}},
			want: `{"messages":[{"role":"assistant","content":"one","reasoning_content":"hm"}]}`,
		},
		"what the model made up is sent in a form that the API takes": {
			req: loop.Request{Messages: []loop.Message{{Role: loop.RoleAssistant, ToolCalls: []loop.ToolCall{
				{ID: "c1", Name: "fs.read file", Arguments: `{"a":`},
				{ID: "c2", Name: "", Arguments: `[1]`},
			}}}},
			want: `{"messages":[{"role":"assistant","tool_calls":[
				{"id":"c1","type":"function","function":{"name":"fs_read_file","arguments":"{\"malformed_arguments\":\"{\\\"a\\\":\"}"}},
				{"id":"c2","type":"function","function":{"name":"unknown","arguments":"{\"malformed_arguments\":\"[1]\"}"}}]}]}`,
		},
		"a reply of nothing but reasoning keeps its place": {
			req: loop.Request{Messages: []loop.Message{
				{Role: loop.RoleTool, ToolResults: []loop.ToolResult{{CallID: "c1", Content: "2"}}},
				{Role: loop.RoleAssistant, Blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: "hm"}}},
				loop.UserText("go on"),
			}},
			want: `{"messages":[{"role":"tool","tool_call_id":"c1","content":"2"},
				{"role":"assistant","content":"(no answer)"},{"role":"user","content":"go on"}]}`,
		},
		"an empty reply keeps its place": {
			req:  loop.Request{Messages: []loop.Message{{Role: loop.RoleAssistant, Blocks: []loop.Block{{Kind: loop.BlockText, Text: "\n"}}}}},
			want: `{"messages":[{"role":"assistant","content":"(no answer)"}]}`,
		},
		"reasoning that goes back is enough": {
			features: features{replayReasoning: true},
			req:      loop.Request{Messages: []loop.Message{{Role: loop.RoleAssistant, Blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: "hm"}}}}},
			want:     `{"messages":[{"role":"assistant","content":"","reasoning_content":"hm"}]}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.cfg.Model = "m"
			got := asMap(t, toParams(c.cfg, c.features, &c.req))
			for field, want := range map[string]any{"model": "m", "stream": true, "stream_options": map[string]any{"include_usage": true}} {
				if !reflect.DeepEqual(got[field], want) {
					t.Errorf("%s is %v, want %v", field, got[field], want)
				}
				delete(got, field)
			}
			var want map[string]any
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestStreamFieldsFollowTheFeatures(t *testing.T) {
	cases := map[string]struct {
		features        features
		stream, options bool
	}{
		"at first":               {features{}, true, true},
		"without stream_options": {features{noUsageInStream: true}, true, false},
		"without streaming":      {features{noStream: true}, false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := asMap(t, toParams(model.Config{Model: "m"}, c.features, &loop.Request{}))
			if (got["stream"] == true) != c.stream || (got["stream_options"] != nil) != c.options {
				t.Errorf("stream %v, stream_options %v", got["stream"], got["stream_options"])
			}
		})
	}
}

func asMap(t *testing.T, v any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}
