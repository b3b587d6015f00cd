package gemini

import (
	"encoding/json"
	"reflect"
	"testing"

	"google.golang.org/genai"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// feed applies chunks as they look on the wire.
func feed(t *testing.T, s *stream, chunks ...string) (n int) {
	t.Helper()
	for _, c := range chunks {
		var r genai.GenerateContentResponse
		if err := json.Unmarshal([]byte(c), &r); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		n += s.apply(&r)
	}
	return n
}

const tail = `,"modelVersion":"gemini-x","responseId":"resp1"}`

// chunk is one piece of a stream, without finish reason and usage.
func chunk(parts string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[` + parts + `]},"index":0}]` + tail
}

// last ends a stream.
func last(parts, finish string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[` + parts + `]},"finishReason":"` + finish + `","index":0}],` +
		`"usageMetadata":{"promptTokenCount":30,"cachedContentTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":4,` +
		`"toolUsePromptTokenCount":2,"totalTokenCount":41}` + tail
}

var usage41 = loop.Usage{InputTokens: 32, CachedInputTokens: 10, OutputTokens: 9, TotalTokens: 41}

func TestStreamAssembles(t *testing.T) {
	for reason, tc := range map[string]struct {
		chunks []string
		blocks []loop.Block
		calls  []loop.ToolCall
		finish loop.FinishReason
		bytes  int
	}{
		"text in pieces is one block": {
			chunks: []string{chunk(`{"text":"TASK_COM"}`), chunk(`{"text":"PLETE: x"}`), last(`{"text":""}`, "STOP")},
			blocks: []loop.Block{text("TASK_COMPLETE: x")}, finish: loop.FinishStop, bytes: 16,
		},
		"a signature that ends the stream in an empty part signs the text before it": {
			chunks: []string{chunk(`{"text":"Hel"}`), chunk(`{"text":"lo"}`), last(`{"text":"","thoughtSignature":"AQ=="}`, "STOP")},
			blocks: []loop.Block{{Kind: loop.BlockText, Text: "Hello", Opaque: `gemini:{"signed":[{"from":0,"to":5,"signature":"AQ=="}]}`}},
			finish: loop.FinishStop, bytes: 5,
		},
		"a signed piece stays its own part within the block": {
			chunks: []string{chunk(`{"text":"ab"}`), chunk(`{"text":"cd","thoughtSignature":"AQ=="}`), last(`{"text":"ef"}`, "STOP")},
			blocks: []loop.Block{{Kind: loop.BlockText, Text: "abcdef", Opaque: `gemini:{"signed":[{"from":2,"to":4,"signature":"AQ=="}]}`}},
			finish: loop.FinishStop, bytes: 6,
		},
		"a signature without any text is dropped": {
			chunks: []string{last(`{"text":"","thoughtSignature":"AQ=="}`, "STOP")}, finish: loop.FinishStop,
		},
		"thoughts, a signed call and a second call": {
			chunks: []string{chunk(`{"text":"Hmm","thought":true}`),
				last(`{"functionCall":{"name":"ls","args":{"p":"<a>"}},"thoughtSignature":"AQ=="},{"functionCall":{"id":"own","name":"now","args":{}}}`, "STOP")},
			blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: "Hmm"}},
			calls: []loop.ToolCall{{ID: "resp1_0", Name: "ls", Arguments: `{"p":"<a>"}`, Opaque: `gemini:{"signature":"AQ==","made":true}`},
				{ID: "own", Name: "now", Arguments: `{}`}},
			finish: loop.FinishToolCalls, bytes: 3 + 11 + 2,
		},
		"the same id twice in a reply": {
			chunks: []string{last(`{"functionCall":{"id":"x","name":"f"}},{"functionCall":{"id":"x","name":"g"}}`, "STOP")},
			calls: []loop.ToolCall{{ID: "x", Name: "f", Arguments: `{}`},
				{ID: "resp1_1", Name: "g", Arguments: `{}`, Opaque: `gemini:{"made":true}`}},
			finish: loop.FinishToolCalls, bytes: 4,
		},
		"text around a call is two blocks, and the call remembers its place": {
			chunks: []string{chunk(`{"text":"a"}`), chunk(`{"functionCall":{"id":"c","name":"f"}}`), last(`{"text":"b"}`, "STOP")},
			blocks: []loop.Block{text("a"), text("b")},
			calls:  []loop.ToolCall{{ID: "c", Name: "f", Arguments: `{}`, Opaque: `gemini:{"after":1}`}},
			finish: loop.FinishToolCalls, bytes: 4,
		},
		"a malformed call ends the reply without calls, with a note to the model": {
			chunks: []string{chunk(`{"text":"a"}`), last(``, "MALFORMED_FUNCTION_CALL")},
			blocks: []loop.Block{text("a"), {Kind: loop.BlockReasoning, Text: noteMalformed, Opaque: `gemini:{"note":true}`}},
			finish: loop.FinishStop, bytes: 1,
		},
		"a call that was not offered is not run": {
			chunks: []string{last(`{"functionCall":{"id":"c","name":"f"}}`, "UNEXPECTED_TOOL_CALL")},
			blocks: []loop.Block{{Kind: loop.BlockReasoning, Text: noteUnexpected, Opaque: `gemini:{"note":true}`}},
			finish: loop.FinishStop, bytes: 2,
		},
		"parts of kinds that are not asked for are passed over": {
			chunks: []string{last(`{"executableCode":{"language":"PYTHON","code":"1"}},{"text":"a"}`, "STOP")},
			blocks: []loop.Block{text("a")}, finish: loop.FinishStop, bytes: 1,
		},
	} {
		t.Run(reason, func(t *testing.T) {
			var s stream
			if n := feed(t, &s, tc.chunks...); n != tc.bytes {
				t.Errorf("counted %d bytes, want %d", n, tc.bytes)
			}
			if !s.complete() {
				t.Error("the stream does not count as complete")
			}
			want := loop.Reply{Blocks: tc.blocks, ToolCalls: tc.calls, Finish: tc.finish, Usage: usage41, RequestID: "resp1", Model: "gemini-x"}
			if got := s.reply(); !reflect.DeepEqual(*got, want) {
				t.Errorf("got  %+v\nwant %+v", *got, want)
			}
		})
	}
}

func TestFinishReasonsMap(t *testing.T) {
	for reason, want := range map[string]loop.FinishReason{
		"STOP": loop.FinishStop, "MAX_TOKENS": loop.FinishLength, "SAFETY": loop.FinishContentFilter,
		"PROHIBITED_CONTENT": loop.FinishContentFilter, "BLOCKLIST": loop.FinishContentFilter, "SPII": loop.FinishContentFilter,
		"RECITATION": loop.FinishContentFilter, "LANGUAGE": loop.FinishContentFilter, "MALFORMED_FUNCTION_CALL": loop.FinishStop,
		"OTHER": loop.FinishStop, "BRAND_NEW": loop.FinishStop,
	} {
		if got := finishReason(genai.FinishReason(reason), false); got != want {
			t.Errorf("%s: got %s, want %s", reason, got, want)
		}
	}
	if got := finishReason("FUNCTION_CALL", true); got != loop.FinishToolCalls {
		t.Errorf("an unknown reason with calls: got %s", got)
	}
}

func TestUsageIsNormalised(t *testing.T) {
	for reason, tc := range map[string]struct {
		in   *genai.GenerateContentResponseUsageMetadata
		want loop.Usage
	}{
		"none":           {nil, loop.Usage{}},
		"all kinds":      {&genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 30, ToolUsePromptTokenCount: 2, CachedContentTokenCount: 10, CandidatesTokenCount: 5, ThoughtsTokenCount: 4, TotalTokenCount: 41}, usage41},
		"without total":  {&genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 3, CandidatesTokenCount: 4}, loop.Usage{InputTokens: 3, OutputTokens: 4, TotalTokens: 7}},
		"total is given": {&genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 3, TotalTokenCount: 9}, loop.Usage{InputTokens: 3, TotalTokens: 9}},
	} {
		if got := toUsage(tc.in); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", reason, got, tc.want)
		}
	}
}

func TestCutStreamKeepsWhatArrivedAndEstimatesOutput(t *testing.T) {
	var s stream
	feed(t, &s, `{"candidates":[{"content":{"parts":[{"text":"twelve bytes"}]}}],"usageMetadata":{"promptTokenCount":30,"totalTokenCount":30}`+tail)
	if s.complete() {
		t.Error("a cut stream counts as complete")
	}
	want := loop.Reply{Blocks: []loop.Block{text("twelve bytes")}, RequestID: "resp1", Model: "gemini-x",
		Usage: loop.Usage{InputTokens: 30, OutputTokens: 3, TotalTokens: 33, Estimated: true}}
	if got := s.reply(); !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
	s = stream{}
	feed(t, &s, chunk(`{"text":"twelve bytes"}`))
	if u := s.reply().Usage; u != (loop.Usage{}) {
		t.Errorf("without any report: got %+v, want nothing: the loop estimates the whole call", u)
	}
}

func TestReplyGoesBackAsItCame(t *testing.T) {
	var s stream
	feed(t, &s, chunk(`{"text":"let me","thought":true}`), chunk(`{"text":"ab"},{"text":"cd","thoughtSignature":"AQ=="}`),
		chunk(`{"functionCall":{"name":"f","args":{"n":1}},"thoughtSignature":"Ag=="}`), last(`{"functionCall":{"id":"own","name":"g"}},{"text":"end"}`, "STOP"))
	r := s.reply()
	modeltest.WantJSON(t, toContents([]loop.Message{assistant(r.Blocks, r.ToolCalls...)}), `[{"role":"model","parts":[
		{"text":"ab"},{"text":"cd","thoughtSignature":"AQ=="},{"functionCall":{"name":"f","args":{"n":1}},"thoughtSignature":"Ag=="},
		{"functionCall":{"id":"own","name":"g"}},{"text":"end"}]}]`)
}
