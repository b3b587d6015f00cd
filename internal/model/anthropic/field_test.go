package anthropic

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// Shapes of replies as public reports describe them, in bytes of our own. Each is named after where it was reported.
func TestRepliesOfTheFieldAreRead(t *testing.T) {
	usage := loop.Usage{InputTokens: 60, CachedInputTokens: 30, OutputTokens: 9, TotalTokens: 69}
	call := func(args string) []loop.ToolCall { return []loop.ToolCall{{ID: "t1", Name: "f", Arguments: args}} }
	begun := []string{evStart, evBlock("0", `{"type":"tool_use","id":"t1","name":"f","input":{}}`), evPiece("0", `{"type":"input_json_delta","partial_json":"{\"a\":"}`)}
	rest := []string{evPiece("0", `{"type":"input_json_delta","partial_json":"1}"}`), evEnd("0"), evDelta("tool_use", "9"), evStop}
	placed := call(`{"a":1}`)
	placed[0].Opaque = `anthropic:{"after":0}`
	for source, tc := range map[string]struct {
		answer http.HandlerFunc
		want   loop.Reply
	}{
		"sgl-project/sglang#24293: text within an open call": {
			events(append(append(begun[:3:3], evPiece("0", `{"type":"text_delta","text":"hi"}`)), rest...)...),
			loop.Reply{Blocks: []loop.Block{text("hi")}, ToolCalls: placed, Finish: loop.FinishToolCalls, Usage: usage, Model: "claude-x"}},
		"sgl-project/sglang#24293: thoughts within an open call": {
			events(append(append(begun[:3:3], evPiece("0", `{"type":"thinking_delta","thinking":"hm"}`)), rest...)...),
			loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: "hm"}}, ToolCalls: placed, Finish: loop.FinishToolCalls, Usage: usage, Model: "claude-x"}},
		"archestra-ai/archestra#5409: two values in the arguments of one call": {
			events(append(append(begun[:3:3], evPiece("0", `{"type":"input_json_delta","partial_json":"1}{\"b\":"}`)), rest...)...),
			loop.Reply{ToolCalls: call(`{"a":1}{"b":1}`), Finish: loop.FinishToolCalls, Usage: usage, Model: "claude-x"}},
		"karthink/gptel#1331: a last report without input": {
			events(append(append(begun[:3:3], rest[:2]...), `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9,"input_tokens":null,"cache_read_input_tokens":null}}`, evStop)...),
			loop.Reply{ToolCalls: call(`{"a":1}`), Finish: loop.FinishToolCalls, Usage: usage, Model: "claude-x"}},
		"SaladDay/cc-switch-cli#320: a start that lacks most fields": {
			events(`{"type":"message_start","message":{"id":"m","model":"claude-x","usage":{"input_tokens":60,"cache_read_input_tokens":0}}}`,
				evBlock("0", `{"type":"text","text":"hi"}`), evDelta("end_turn", "9"), evStop),
			loop.Reply{Blocks: []loop.Block{text("hi")}, Finish: loop.FinishStop, Model: "claude-x", Usage: loop.Usage{InputTokens: 60, OutputTokens: 9, TotalTokens: 69}}},
		"maximhq/bifrost#5169: thoughts in a block that was never begun": {
			events(evStart, evPiece("0", `{"type":"thinking_delta","thinking":"hm"}`), evBlock("1", `{"type":"text","text":""}`),
				evPiece("1", `{"type":"text_delta","text":"hi"}`), evEnd("1"), evDelta("end_turn", "9"), evStop),
			loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: "hm"}, text("hi")}, Finish: loop.FinishStop, Usage: usage, Model: "claude-x"}},
	} {
		t.Run(source, func(t *testing.T) {
			f := modeltest.Serve(t, tc.answer)
			reply, _, err := modeltest.Generate(t, mustNew(t, f.Config("claude-x")))
			if err != nil || f.Count() != 1 {
				t.Fatalf("%v after %d requests", err, f.Count())
			}
			tc.want.RequestID = "req_1"
			if !reflect.DeepEqual(*reply, tc.want) {
				t.Errorf("got  %+v\nwant %+v", *reply, tc.want)
			}
		})
	}
}
