package gemini

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// Shapes of replies as public reports describe them, in bytes of our own. Each is named after where it was reported.
func TestRepliesOfTheFieldAreRead(t *testing.T) {
	hi := []loop.Block{text("hi")}
	usage := loop.Usage{InputTokens: 107, OutputTokens: 40, TotalTokens: 147}
	const counted = `"usageMetadata":{"promptTokenCount":107,"candidatesTokenCount":31,"thoughtsTokenCount":9,"totalTokenCount":147}}`
	array := modeltest.Status(200, nil, `[{"candidates":[{"content":{"parts":[{"text":"h"}]}}]},`+"\r\n"+
		`{"candidates":[{"content":{"parts":[{"text":"i"}]},"finishReason":"STOP"}],`+counted+"\n]")
	for source, tc := range map[string]struct {
		answer http.HandlerFunc
		blocks []loop.Block
		calls  []loop.ToolCall
		finish loop.FinishReason
		usage  loop.Usage
	}{
		"envoyproxy/ai-gateway#2399: the end and the counts come in a chunk after the call": {
			answer: chunks(`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c","name":"f","args":{"a":1}}}]}}],"usageMetadata":{"trafficType":"ON_DEMAND"}}`,
				`{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}],`+counted),
			calls: []loop.ToolCall{{ID: "c", Name: "f", Arguments: `{"a":1}`}}, finish: loop.FinishToolCalls, usage: usage},
		"agentjido/req_llm#638: the last chunk has no content": {
			answer: chunks(`{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}`, `{"candidates":[{"finishReason":"STOP"}],`+counted),
			blocks: hi, finish: loop.FinishStop, usage: usage},
		"BerriAI/litellm#24442: a content without parts": {
			answer: chunks(`{"candidates":[{"content":{"role":"model"},"finishReason":"STOP"}],` + counted), finish: loop.FinishStop, usage: usage},
		"google/generative-ai-docs#235: no content where the cap was reached": {
			answer: chunks(`{"candidates":[{"finishReason":"MAX_TOKENS","index":0,"safetyRatings":[]}],` + counted), finish: loop.FinishLength, usage: usage},
		"agentjido/req_llm#944: an abort in one piece": {
			answer: modeltest.Status(200, nil, `{"candidates":[{"finishReason":"UNEXPECTED_TOOL_CALL","index":0}],`+counted),
			blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: noteUnexpected, Opaque: `gemini:{"note":true}`}}, finish: loop.FinishStop, usage: usage},
		"stakpak/agent#493: an array in place of events": {answer: array, blocks: hi, finish: loop.FinishStop, usage: usage},
	} {
		t.Run(source, func(t *testing.T) {
			f := modeltest.Serve(t, tc.answer)
			reply, _, err := modeltest.Generate(t, mustNew(t, f.Config("gemini-x")))
			if err != nil || f.Count() != 1 {
				t.Fatalf("%v after %d requests", err, f.Count())
			}
			if want := (loop.Reply{Blocks: tc.blocks, ToolCalls: tc.calls, Finish: tc.finish, Usage: tc.usage}); !reflect.DeepEqual(*reply, want) {
				t.Errorf("got  %+v\nwant %+v", *reply, want)
			}
		})
	}
}
