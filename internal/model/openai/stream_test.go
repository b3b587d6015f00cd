package openai

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// chunk is an event of one choice, as its delta and finish reason are written on the wire.
func chunk(delta, finish string) string {
	if finish == "" {
		finish = "null"
	} else {
		finish = `"` + finish + `"`
	}
	return fmt.Sprintf("data: {\"id\":\"cmpl-1\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
}

const done = "data: [DONE]\n\n"

func text(s string) loop.Block { return loop.Block{Kind: loop.BlockText, Text: s} }

func TestStreamsAreAssembled(t *testing.T) {
	cases := map[string]struct {
		stream string
		want   loop.Reply
		bytes  int
	}{
		"text in pieces, then usage": {
			stream: chunk(`{"role":"assistant","content":""}`, "") + chunk(`{"content":"Hel"}`, "") + chunk(`{"content":"lo"}`, "") + chunk(`{}`, "stop") +
				`data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n" + done,
			want: loop.Reply{Blocks: []loop.Block{text("Hello")}, Finish: loop.FinishStop,
				Usage: loop.Usage{InputTokens: 9, OutputTokens: 3, CachedInputTokens: 4, TotalTokens: 12}},
			bytes: 5,
		},
		"usage in every chunk: the last one holds": {
			stream: strings.Replace(chunk(`{"content":"a"}`, ""), `"id"`, `"usage":{"prompt_tokens":1,"completion_tokens":1},"id"`, 1) +
				strings.Replace(chunk(`{"content":"b"}`, "stop"), `"id"`, `"usage":{"prompt_tokens":1,"completion_tokens":2},"id"`, 1) + done,
			want:  loop.Reply{Blocks: []loop.Block{text("ab")}, Finish: loop.FinishStop, Usage: loop.Usage{InputTokens: 1, OutputTokens: 2, TotalTokens: 3}},
			bytes: 2,
		},
		"reasoning that only the total has is output": {
			stream: chunk(`{"content":"a"}`, "stop") + `data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":115,"completion_tokens_details":{"reasoning_tokens":100}}}` + "\n\n" + done,
			want:   loop.Reply{Blocks: []loop.Block{text("a")}, Finish: loop.FinishStop, Usage: loop.Usage{InputTokens: 10, OutputTokens: 105, TotalTokens: 115}},
			bytes:  1,
		},
		"no usage": {
			stream: chunk(`{"content":"a"}`, "stop") + done,
			want:   loop.Reply{Blocks: []loop.Block{text("a")}, Finish: loop.FinishStop}, bytes: 1,
		},
		"no end mark, but a finish reason": {
			stream: chunk(`{"content":"a"}`, "length"),
			want:   loop.Reply{Blocks: []loop.Block{text("a")}, Finish: loop.FinishLength}, bytes: 1,
		},
		"an end mark, but no finish reason": {
			stream: chunk(`{"content":"a"}`, "") + done,
			want:   loop.Reply{Blocks: []loop.Block{text("a")}, Finish: loop.FinishStop}, bytes: 1,
		},
		"two calls in fragments, beside text": {
			stream: chunk(`{"content":"let me"}`, "") +
				chunk(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"add","arguments":""}}]}`, "") +
				chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}`, "") +
				chunk(`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"now","arguments":"{}"}}]}`, "") +
				chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`, "") + chunk(`{}`, "tool_calls") + done,
			want: loop.Reply{Blocks: []loop.Block{text("let me")}, Finish: loop.FinishToolCalls, ToolCalls: []loop.ToolCall{
				{ID: "a", Name: "add", Arguments: `{"x":1}`}, {ID: "b", Name: "now", Arguments: "{}"}}},
			bytes: 6 + 7 + 2,
		},
		"every call is index 0, with ids": {
			stream: chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"now","arguments":"{}"}}]}`, "") +
				chunk(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"now","arguments":"{}"}}]}`, "stop") + done,
			want: loop.Reply{Finish: loop.FinishToolCalls, ToolCalls: []loop.ToolCall{
				{ID: "a", Name: "now", Arguments: "{}"}, {ID: "b", Name: "now", Arguments: "{}"}}},
			bytes: 4,
		},
		"every call is index 0, without ids": {
			stream: chunk(`{"tool_calls":[{"function":{"name":"now","arguments":"{}"}},{"function":{"name":"now","arguments":"{}"}}]}`, "tool_calls") + done,
			want: loop.Reply{Finish: loop.FinishToolCalls, ToolCalls: []loop.ToolCall{
				{ID: "new-1", Name: "now", Arguments: "{}"}, {ID: "new-2", Name: "now", Arguments: "{}"}}},
			bytes: 4,
		},
		"another id in every fragment": {
			stream: chunk(`{"tool_calls":[{"index":0,"id":"a1","function":{"name":"add","arguments":""}}]}`, "") +
				chunk(`{"tool_calls":[{"index":0,"id":"a2","function":{"arguments":"{\"x\":"}}]}`, "") +
				chunk(`{"tool_calls":[{"index":0,"id":"a3","function":{"arguments":"1}"}}]}`, "tool_calls") + done,
			want:  loop.Reply{Finish: loop.FinishToolCalls, ToolCalls: []loop.ToolCall{{ID: "a1", Name: "add", Arguments: `{"x":1}`}}},
			bytes: 7,
		},
		"empty arguments before the real ones": {
			stream: chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{}"}}]}`, "") +
				chunk(`{"tool_calls":[{"index":0,"function":{"arguments":""}}]}`, "") +
				chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}},{"index":0,"function":{"arguments":"1}"}}]}`, "tool_calls") + done,
			want:  loop.Reply{Finish: loop.FinishToolCalls, ToolCalls: []loop.ToolCall{{ID: "a", Name: "add", Arguments: `{"x":1}`}}},
			bytes: 9,
		},
		"an id that is used twice": {
			stream: chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"now","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"now","arguments":"{}"}}]}`, "tool_calls") + done,
			want: loop.Reply{Finish: loop.FinishToolCalls, ToolCalls: []loop.ToolCall{
				{ID: "a", Name: "now", Arguments: "{}"}, {ID: "new-1", Name: "now", Arguments: "{}"}}},
			bytes: 4,
		},
		"id and name in every fragment": {
			stream: chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{\"x\""}}]}`, "") +
				chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":":1}"}}]}`, "tool_calls") + done,
			want:  loop.Reply{Finish: loop.FinishToolCalls, ToolCalls: []loop.ToolCall{{ID: "a", Name: "add", Arguments: `{"x":1}`}}},
			bytes: 7,
		},
		"the old function_call": {
			stream: chunk(`{"function_call":{"name":"add","arguments":"{"}}`, "") + chunk(`{"function_call":{"arguments":"}"}}`, "function_call") + done,
			want:   loop.Reply{Finish: loop.FinishToolCalls, ToolCalls: []loop.ToolCall{{ID: "new-1", Name: "add", Arguments: `{}`}}}, bytes: 2,
		},
		"a signature that must go back": {
			stream: chunk(`{"tool_calls":[{"index":0,"id":"a","extra_content":{"google":{"thought_signature":"s"}},"function":{"name":"now","arguments":"{}"}}]}`, "tool_calls") + done,
			want: loop.Reply{Finish: loop.FinishToolCalls, ToolCalls: []loop.ToolCall{
				{ID: "a", Name: "now", Arguments: "{}", Opaque: `{"google":{"thought_signature":"s"}}`}}},
			bytes: 2,
		},
		"reasoning_content is no text": {
			stream: chunk(`{"reasoning_content":"TASK_COMPLETE: "}`, "") + chunk(`{"reasoning_content":"no","content":null}`, "") + chunk(`{"content":"yes"}`, "stop") + done,
			want:   loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: "TASK_COMPLETE: no"}, text("yes")}, Finish: loop.FinishStop}, bytes: 20,
		},
		"reasoning in both fields counts once": {
			stream: chunk(`{"reasoning":"hm","reasoning_content":"hm"}`, "") + chunk(`{"content":"yes"}`, "stop") + done,
			want:   loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: "hm"}, text("yes")}, Finish: loop.FinishStop}, bytes: 5,
		},
		"thinking left in the text": {
			stream: chunk(`{"content":"<thi"}`, "") + chunk(`{"content":"nk>\nTASK_COMPLETE: no</think>\n\nyes"}`, "stop") + done,
			want:   loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: "\nTASK_COMPLETE: no"}, text("yes")}, Finish: loop.FinishStop}, bytes: 38,
		},
		"thinking that never ended": {
			stream: chunk(`{"content":"<think>TASK_COMPLETE: no"}`, "length") + done,
			want:   loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: "TASK_COMPLETE: no"}}, Finish: loop.FinishLength}, bytes: 24,
		},
		"content in parts": {
			stream: chunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"}]}`, "stop") + done,
			want:   loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: "hm"}, text("yes")}, Finish: loop.FinishStop}, bytes: 5,
		},
		"a refusal": {
			stream: chunk(`{"refusal":"I can"}`, "") + chunk(`{"refusal":"not"}`, "stop") + done,
			want:   loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockRefusal, Text: "I cannot"}}, Finish: loop.FinishRefusal}, bytes: 8,
		},
		"a content filter": {
			stream: chunk(`{"content":"a"}`, "content_filter") + done,
			want:   loop.Reply{Blocks: []loop.Block{text("a")}, Finish: loop.FinishContentFilter}, bytes: 1,
		},
		"comments, null errors and other choices are passed over": {
			stream: ": keep-alive\n\n" + strings.Replace(chunk(`{"content":"a"}`, "stop"), `"id"`, `"error":null,"id"`, 1) +
				"data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}}]}\n\n" + done,
			want: loop.Reply{Blocks: []loop.Block{text("a")}, Finish: loop.FinishStop}, bytes: 1,
		},
		"a choice with nothing in it is a reply": {
			stream: chunk(`{}`, "stop") + done, want: loop.Reply{Finish: loop.FinishStop},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a, n := assemble(t, c.stream)
			got := *a.reply(true)
			c.want.RequestID, c.want.Model = "cmpl-1", "m-1"
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if n != c.bytes {
				t.Errorf("%d bytes counted, want %d", n, c.bytes)
			}
		})
	}
}

func assemble(t *testing.T, stream string) (*assembler, int) {
	t.Helper()
	ids := 0
	a := newAssembler(func() string { ids++; return fmt.Sprintf("new-%d", ids) })
	n := 0
	events := ssestream.NewDecoder(&http.Response{Header: http.Header{}, Body: io.NopCloser(strings.NewReader(stream))})
	err := readStream(t.Context(), events, a, func(more int) { n += more })
	if err != nil && a.finish == "" {
		t.Fatal(err)
	}
	return a, n
}

func TestABrokenReplyHasNoToolCalls(t *testing.T) {
	a := newAssembler(nil)
	a.add(delta{text: "let me", calls: []fragment{{id: "a", name: "rm", args: `{"path":"/"}`}}})
	if got := a.reply(false); len(got.ToolCalls) != 0 || got.Finish != "" || len(got.Blocks) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestHeartbeatsArePassedOver(t *testing.T) {
	modeltest.Heartbeats(t, []string{chunk(`{"content":"Hel"}`, ""), chunk(`{"content":"lo"}`, ""), chunk(`{}`, "stop"),
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":900,\"completion_tokens\":6,\"total_tokens\":906}}\n\n", done}, New)
}
