package openai

import (
	"reflect"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// Shapes of replies as public reports describe them, in bytes of our own. Each is named after where it was reported.
func TestRepliesOfTheFieldAreRead(t *testing.T) {
	const counted = `data: {"id":"cmpl-1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}` + "\n\n"
	hi := []loop.Block{text("hi")}
	usage := loop.Usage{InputTokens: 9, OutputTokens: 3, TotalTokens: 12}
	for source, tc := range map[string]struct {
		body   string
		blocks []loop.Block
		calls  []loop.ToolCall
		finish loop.FinishReason
		usage  loop.Usage
	}{
		"vercel/ai#5885: no index, and the arguments begin before the name": {
			body: calls(`{"id":"a","function":{"arguments":"{\"x\""}}`) + calls(`{"id":"b","function":{"arguments":"{\"y\""}}`) +
				calls(`{"id":"a","function":{"name":"add","arguments":":1}"}}`) + calls(`{"id":"b","function":{"name":"now","arguments":":2}"}}`) + chunk(`{}`, "tool_calls") + counted + done,
			calls: []loop.ToolCall{{ID: "a", Name: "add", Arguments: `{"x":1}`}, {ID: "b", Name: "now", Arguments: `{"y":2}`}}, finish: loop.FinishToolCalls, usage: usage},
		"SamSaffron/term-llm#314: no index, told apart by place": {
			body: calls(`{"id":"a","function":{"name":"add","arguments":""}},{"id":"b","function":{"name":"now","arguments":""}}`) +
				calls(`{"function":{"arguments":"{\"x\":1}"}},{"function":{"arguments":"{\"y\":2}"}}`) + chunk(`{}`, "tool_calls") + counted + done,
			calls: []loop.ToolCall{{ID: "a", Name: "add", Arguments: `{"x":1}`}, {ID: "b", Name: "now", Arguments: `{"y":2}`}}, finish: loop.FinishToolCalls, usage: usage},
		"danny-avila/LibreChat#13987: the arguments have another index than the call": {
			body: calls(`{"index":1,"id":"a","type":"function","function":{"name":"add","arguments":""}}`) +
				calls(`{"index":0,"function":{"arguments":"{\"x\":"}}`) + calls(`{"index":0,"function":{"arguments":"1}"}}`) + chunk(`{}`, "tool_calls") + counted + done,
			calls: []loop.ToolCall{{ID: "a", Name: "add", Arguments: `{"x":1}`}}, finish: loop.FinishToolCalls, usage: usage},
		"apache/maka#1976: two calls under one index": {
			body: calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{\"x\":1}"}}`) + calls(`{"index":0,"id":"b","function":{"name":"add","arguments":"{\"x\":2}"}}`) +
				chunk(`{}`, "stop") + counted + done,
			calls: []loop.ToolCall{{ID: "a", Name: "add", Arguments: `{"x":1}`}, {ID: "b", Name: "add", Arguments: `{"x":2}`}}, finish: loop.FinishToolCalls, usage: usage},
		"langwatch/tasks#700: a warning in place of a chunk": {
			body: chunk(`{"content":"hi"}`, "stop") + "data: {\"warning\":\"no counts were reported\"}\n\n" + done, blocks: hi, finish: loop.FinishStop},
		"meilisearch/meilisearch#6477: a first chunk without choices": {
			body:   `data: {"id":"","model":"","choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}` + "\n\n" + chunk(`{"content":"hi"}`, "stop") + counted + done,
			blocks: hi, finish: loop.FinishStop, usage: usage},
		"agentuniverse-ai/agentUniverse#772: null for choices, and for the last delta": {
			body: "data: {\"choices\":null}\n\n" + chunk(`{"content":"hi"}`, "") + chunk(`null`, "stop") + counted + done, blocks: hi, finish: loop.FinishStop, usage: usage},
		"vllm-project/vllm#27572: no finish reason at all": {
			body: chunk(`{"content":"hi"}`, "") + chunk(`{"content":""}`, "") + counted + done, blocks: hi, finish: loop.FinishStop, usage: usage},
	} {
		t.Run(source, func(t *testing.T) {
			f := serve(t, answer{body: tc.body})
			reply, err := generate(t, f.model(t))
			if err != nil || len(f.requests) != 1 {
				t.Fatalf("%v after %d requests", err, len(f.requests))
			}
			if want := (loop.Reply{Blocks: tc.blocks, ToolCalls: tc.calls, Finish: tc.finish, Usage: tc.usage, RequestID: "cmpl-1", Model: "m-1"}); !reflect.DeepEqual(*reply, want) {
				t.Errorf("got  %+v\nwant %+v", *reply, want)
			}
		})
	}
}
