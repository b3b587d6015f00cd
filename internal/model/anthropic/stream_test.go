package anthropic

import (
	"encoding/json"
	"reflect"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// feed applies events as they look on the wire.
func feed(t *testing.T, s *stream, events ...string) (n int) {
	t.Helper()
	for _, e := range events {
		var ev sdk.MessageStreamEventUnion
		if err := json.Unmarshal([]byte(e), &ev); err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		n += s.apply(ev)
	}
	return n
}

const (
	evStart = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],` +
		`"stop_reason":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":1}}}`
	evStop = `{"type":"message_stop"}`
)

func evDelta(stop string, out string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + stop + `","stop_sequence":null},"usage":{"output_tokens":` + out + `}}`
}

func evBlock(i, block string) string {
	return `{"type":"content_block_start","index":` + i + `,"content_block":` + block + `}`
}

func evPiece(i, delta string) string {
	return `{"type":"content_block_delta","index":` + i + `,"delta":` + delta + `}`
}

func evEnd(i string) string { return `{"type":"content_block_stop","index":` + i + `}` }

func TestStreamAssembles(t *testing.T) {
	usage := loop.Usage{InputTokens: 60, CachedInputTokens: 30, OutputTokens: 9, TotalTokens: 69}
	for reason, tc := range map[string]struct {
		events []string
		want   loop.Reply
		bytes  int
	}{
		"text in pieces": {
			events: []string{evStart, evBlock("0", `{"type":"text","text":""}`), `{"type":"ping"}`, evPiece("0", `{"type":"text_delta","text":"Hel"}`),
				evPiece("0", `{"type":"text_delta","text":"lo"}`), evEnd("0"), evDelta("end_turn", "9"), evStop},
			want:  loop.Reply{Blocks: []loop.Block{text("Hello")}, Finish: loop.FinishStop, Usage: usage, Model: "claude-x"},
			bytes: 5,
		},
		"thinking, its signature, redacted thinking, text and two calls in fragments": {
			events: []string{evStart,
				evBlock("0", `{"type":"thinking","thinking":"","signature":""}`), evPiece("0", `{"type":"thinking_delta","thinking":"Let "}`),
				evPiece("0", `{"type":"thinking_delta","thinking":"me"}`), evPiece("0", `{"type":"signature_delta","signature":"SIG"}`), evEnd("0"),
				evBlock("1", `{"type":"redacted_thinking","data":"ENC"}`), evEnd("1"),
				evBlock("2", `{"type":"text","text":""}`), evPiece("2", `{"type":"text_delta","text":"ok"}`), evEnd("2"),
				evBlock("3", `{"type":"tool_use","id":"t1","name":"ls","input":{}}`), evPiece("3", `{"type":"input_json_delta","partial_json":""}`),
				evPiece("3", `{"type":"input_json_delta","partial_json":"{\"p\":"}`), evPiece("3", `{"type":"input_json_delta","partial_json":"1}"}`), evEnd("3"),
				evBlock("4", `{"type":"tool_use","id":"t2","name":"now","input":{}}`), evEnd("4"),
				evDelta("tool_use", "9"), evStop},
			want: loop.Reply{
				Blocks: []loop.Block{
					{Kind: loop.BlockReasoning, Text: "Let me", Opaque: `anthropic:{"type":"thinking","signature":"SIG","bytes":6}`},
					{Kind: loop.BlockReasoning, Opaque: `anthropic:{"type":"redacted_thinking","data":"ENC"}`}, text("ok"),
				},
				ToolCalls: []loop.ToolCall{{ID: "t1", Name: "ls", Arguments: `{"p":1}`}, {ID: "t2", Name: "now", Arguments: `{}`}},
				Finish:    loop.FinishToolCalls, Usage: usage, Model: "claude-x"},
			bytes: 6 + 2 + 7,
		},
		"a call before a block remembers its place": {
			events: []string{evStart, evBlock("0", `{"type":"tool_use","id":"t1","name":"f","input":{}}`), evEnd("0"),
				evBlock("1", `{"type":"text","text":"after"}`), evEnd("1"), evDelta("tool_use", "9"), evStop},
			want: loop.Reply{Blocks: []loop.Block{text("after")},
				ToolCalls: []loop.ToolCall{{ID: "t1", Name: "f", Arguments: `{}`, Opaque: `anthropic:{"after":0}`}},
				Finish:    loop.FinishToolCalls, Usage: usage, Model: "claude-x"},
			bytes: 5,
		},
		"a compatible server: no start, whole input, no ids, twice the same id, end_turn with calls, no message_stop": {
			events: []string{
				evBlock("0", `{"type":"tool_use","name":"f","input":{"a":"<b>"}}`), evEnd("0"),
				evBlock("1", `{"type":"tool_use","id":"x","name":"f","input":{}}`), evEnd("1"),
				evBlock("2", `{"type":"tool_use","id":"x","name":"g","input":{}}`), evEnd("2"), evDelta("end_turn", "0")},
			want: loop.Reply{ToolCalls: []loop.ToolCall{{ID: "call_0", Name: "f", Arguments: `{"a":"<b>"}`},
				{ID: "x", Name: "f", Arguments: `{}`}, {ID: "call_2", Name: "g", Arguments: `{}`}}, Finish: loop.FinishToolCalls},
			bytes: len(`{"a":"<b>"}`),
		},
		"a whole input keeps numbers that no float holds, and none is an empty object": {
			events: []string{evStart, evBlock("0", `{"type":"tool_use","id":"t1","name":"f","input":{"id": 9007199254740993}}`), evEnd("0"),
				evBlock("1", `{"type":"tool_use","id":"t2","name":"f","input":null}`), evEnd("1"),
				evBlock("2", `{"type":"tool_use","id":"t3","name":"f"}`), evEnd("2"), evDelta("tool_use", "9"), evStop},
			want: loop.Reply{ToolCalls: []loop.ToolCall{{ID: "t1", Name: "f", Arguments: `{"id": 9007199254740993}`},
				{ID: "t2", Name: "f", Arguments: `{}`}, {ID: "t3", Name: "f", Arguments: `{}`}},
				Finish: loop.FinishToolCalls, Usage: usage, Model: "claude-x"},
			bytes: len(`{"id": 9007199254740993}`),
		},
		"a whole reply whose output was never counted has an estimate": {
			events: []string{evStart, evBlock("0", `{"type":"text","text":"twelve bytes"}`), evEnd("0"),
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, evStop},
			want: loop.Reply{Blocks: []loop.Block{text("twelve bytes")}, Finish: loop.FinishStop, Model: "claude-x",
				Usage: loop.Usage{InputTokens: 60, CachedInputTokens: 30, OutputTokens: 3, TotalTokens: 63, Estimated: true}},
			bytes: 12,
		},
		"pieces of a block that was never opened": {
			events: []string{evStart, evPiece("0", `{"type":"text_delta","text":"hi"}`), evPiece("1", `{"type":"input_json_delta","partial_json":"{}"}`),
				evDelta("end_turn", "9"), evStop},
			want:  loop.Reply{Blocks: []loop.Block{text("hi")}, Finish: loop.FinishStop, Usage: usage, Model: "claude-x"},
			bytes: 2,
		},
		"events, blocks and pieces that are not known are passed over": {
			events: []string{evStart, `{"type":"brand_new"}`, evBlock("0", `{"type":"server_tool_use","id":"s","name":"web_search","input":{}}`),
				evPiece("0", `{"type":"input_json_delta","partial_json":"{}"}`), evPiece("0", `{"type":"citations_delta","citation":{}}`), evEnd("0"),
				evDelta("pause_turn", "9"), evStop},
			want: loop.Reply{Finish: loop.FinishStop, Usage: usage, Model: "claude-x"},
		},
		"a refusal keeps its explanation apart from text": {
			events: []string{evStart, evBlock("0", `{"type":"text","text":"Well"}`), evEnd("0"),
				`{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"bio","explanation":"not that"}},"usage":{"output_tokens":9}}`, evStop},
			want: loop.Reply{Blocks: []loop.Block{text("Well"), {Kind: loop.BlockRefusal, Text: "not that"}},
				Finish: loop.FinishRefusal, Usage: usage, Model: "claude-x"},
			bytes: 4,
		},
		"running totals of input at the end replace those of the start": {
			events: []string{evStart, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":15,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":9}}`, evStop},
			want: loop.Reply{Finish: loop.FinishStop, Model: "claude-x",
				Usage: loop.Usage{InputTokens: 65, CachedInputTokens: 30, OutputTokens: 9, TotalTokens: 74}},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			var s stream
			if n := feed(t, &s, tc.events...); n != tc.bytes {
				t.Errorf("counted %d bytes, want %d", n, tc.bytes)
			}
			if !s.complete() {
				t.Error("the stream does not count as complete")
			}
			if got := s.reply(true); !reflect.DeepEqual(*got, tc.want) {
				t.Errorf("got  %+v\nwant %+v", *got, tc.want)
			}
		})
	}
}

func TestCutStreamKeepsTextAndWholeCallsAndEstimatesOutput(t *testing.T) {
	var s stream
	feed(t, &s, evStart, evBlock("0", `{"type":"text","text":""}`), evPiece("0", `{"type":"text_delta","text":"twelve bytes"}`), evEnd("0"),
		evBlock("1", `{"type":"tool_use","id":"t1","name":"f","input":{}}`), evEnd("1"),
		evBlock("2", `{"type":"tool_use","id":"t2","name":"f","input":{}}`), evPiece("2", `{"type":"input_json_delta","partial_json":"{\"a\":\""}`))
	if s.complete() {
		t.Error("a cut stream counts as complete")
	}
	want := loop.Reply{
		Blocks:    []loop.Block{text("twelve bytes")},
		ToolCalls: []loop.ToolCall{{ID: "t1", Name: "f", Arguments: "{}"}},
		Usage:     loop.Usage{InputTokens: 60, CachedInputTokens: 30, OutputTokens: 5, TotalTokens: 65, Estimated: true},
		Model:     "claude-x",
	}
	if got := s.reply(false); !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
}

func TestCutStreamWithoutAnyUsageReportsNone(t *testing.T) {
	var s stream
	feed(t, &s, evBlock("0", `{"type":"text","text":"some text"}`))
	if u := s.reply(false).Usage; u != (loop.Usage{}) {
		t.Errorf("got %+v, want nothing: the loop estimates the whole call", u)
	}
}

func TestStopReasonsMap(t *testing.T) {
	for stop, want := range map[string]loop.FinishReason{
		"end_turn": loop.FinishStop, "stop_sequence": loop.FinishStop, "max_tokens": loop.FinishLength, "tool_use": loop.FinishToolCalls,
		"pause_turn": loop.FinishStop, "refusal": loop.FinishRefusal, "model_context_window_exceeded": loop.FinishLength,
		"": loop.FinishStop, "brand_new": loop.FinishStop,
	} {
		if got := finishReason(sdk.StopReason(stop), false); got != want {
			t.Errorf("%q: got %s, want %s", stop, got, want)
		}
	}
	if got := finishReason("max_tokens", true); got != loop.FinishLength {
		t.Errorf("a reply cut by length with a call: got %s", got)
	}
}

func TestWholeMessageConvertsLikeItsStream(t *testing.T) {
	const body = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[
		{"type":"thinking","thinking":"hm","signature":"SIG"},{"type":"redacted_thinking","data":"ENC"},
		{"type":"text","text":"ok"},{"type":"tool_use","id":"t1","name":"ls","input":{"p":12345678901234567890}}],
		"stop_reason":"tool_use","stop_sequence":null,
		"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":9}}`
	var m sdk.Message
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
	want := loop.Reply{
		Blocks: []loop.Block{
			{Kind: loop.BlockReasoning, Text: "hm", Opaque: `anthropic:{"type":"thinking","signature":"SIG","bytes":2}`},
			{Kind: loop.BlockReasoning, Opaque: `anthropic:{"type":"redacted_thinking","data":"ENC"}`}, text("ok"),
		},
		ToolCalls: []loop.ToolCall{{ID: "t1", Name: "ls", Arguments: `{"p":12345678901234567890}`}},
		Finish:    loop.FinishToolCalls, Model: "claude-x",
		Usage: loop.Usage{InputTokens: 60, CachedInputTokens: 30, OutputTokens: 9, TotalTokens: 69},
	}
	if got := toReply(&m); !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
}

func TestReplyGoesBackAsItCame(t *testing.T) {
	var s stream
	feed(t, &s, evStart,
		evBlock("0", `{"type":"thinking","thinking":"","signature":""}`), evPiece("0", `{"type":"signature_delta","signature":"S0"}`), evEnd("0"),
		evBlock("1", `{"type":"tool_use","id":"t1","name":"f","input":{}}`), evPiece("1", `{"type":"input_json_delta","partial_json":"{\"a\":1}"}`), evEnd("1"),
		evBlock("2", `{"type":"thinking","thinking":"more","signature":"S2"}`), evEnd("2"),
		evBlock("3", `{"type":"tool_use","id":"t2","name":"g","input":{}}`), evEnd("3"), evDelta("tool_use", "9"), evStop)
	r := s.reply(true)
	modeltest.WantJSON(t, toMessages([]loop.Message{assistant(r.Blocks, r.ToolCalls...)}), `[{"role":"assistant","content":[
		{"type":"thinking","thinking":"","signature":"S0"},{"type":"tool_use","id":"t1","name":"f","input":{"a":1}},
		{"type":"thinking","thinking":"more","signature":"S2"},{"type":"tool_use","id":"t2","name":"g","input":{}}]}]`)
}

func TestHeartbeatsArePassedOver(t *testing.T) {
	for form, wire := range map[string]func(string) string{"named events": onWire, "bare data": func(e string) string { return "data: " + e + "\n\n" }} {
		t.Run(form, func(t *testing.T) {
			var evs []string
			for _, e := range hello {
				evs = append(evs, wire(e))
			}
			modeltest.Heartbeats(t, evs, New)
		})
	}
}
