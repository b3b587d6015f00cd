package mcp

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func resultOf(t *testing.T, raw string) *sdk.CallToolResult {
	t.Helper()
	res := new(sdk.CallToolResult)
	if err := json.Unmarshal([]byte(raw), res); err != nil {
		t.Fatalf("bad test data: %v", err)
	}
	return res
}

func TestResultMapping(t *testing.T) {
	tests := map[string]struct {
		reason  string
		raw     string
		want    string
		isError bool
	}{
		"Texts": {"blocks stand on lines of their own", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, "a\nb", false},
		"Error": {"isError is kept", `{"content":[{"type":"text","text":"disk full"}],"isError":true}`, "disk full", true},
		"Image": {"an image is a note of its decoded size", `{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}`, "[image image/png, 3 bytes, not shown]", false},
		"Audio": {"so is audio", `{"content":[{"type":"audio","mimeType":"audio/wav","data":"AAAA"}]}`, "[audio audio/wav, 3 bytes, not shown]", false},
		"ResourceLink": {
			"a link says what is known",
			`{"content":[{"type":"resource_link","uri":"file:///a","name":"a","mimeType":"text/plain","size":7,"description":"The a."}]}`,
			"[resource link a file:///a text/plain, 7 bytes] The a.", false,
		},
		"EmbeddedText": {"a text resource is inline", `{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"hello"}}]}`, "[resource file:///a]\nhello", false},
		"EmbeddedBlob": {
			"a blob is a note",
			`{"content":[{"type":"resource","resource":{"uri":"file:///a","mimeType":"application/pdf","blob":"AAAA"}}]}`,
			"[resource file:///a application/pdf, 3 bytes, not shown]", false,
		},
		"EmbeddedNothing":        {"a resource may be missing", `{"content":[{"type":"resource"}]}`, "[resource without content]", false},
		"StructuredAlone":        {"structured content is shown as JSON", `{"content":[],"structuredContent":{"b":1,"a":"<x>"}}`, `{"a":"<x>","b":1}`, false},
		"StructuredInText":       {"but not twice", `{"content":[{"type":"text","text":"{ \"a\": 1, \"b\": [2] }"}],"structuredContent":{"b":[2],"a":1}}`, `{ "a": 1, "b": [2] }`, false},
		"StructuredBesideText":   {"a text that says something else does not replace it", `{"content":[{"type":"text","text":"done"}],"structuredContent":{"a":1}}`, "done\n{\"a\":1}", false},
		"StructuredExact":        {"numbers stay as they are", `{"content":[],"structuredContent":{"id": 9007199254740993, "x": 1.50}}`, `{"id":9007199254740993,"x":1.50}`, false},
		"StructuredExactInText":  {"in the comparison too", `{"content":[{"type":"text","text":"{\"id\":9007199254740992}"}],"structuredContent":{"id":9007199254740993}}`, "{\"id\":9007199254740992}\n{\"id\":9007199254740993}", false},
		"StructuredTwiceInText":  {"one value and another are not that value", `{"content":[{"type":"text","text":"1 2"}],"structuredContent":1}`, "1 2\n1", false},
		"StructuredScalar":       {"any JSON value may be structured", `{"content":[],"structuredContent":false}`, "false", false},
		"Nothing":                {"no result is said to be none", `{"content":[]}`, noContent, false},
		"EmptyText":              {"an empty text is none", `{"content":[{"type":"text","text":""}]}`, noContent, false},
		"ContentOfSampling":      {"of another kind is shown what there is", `{"content":[{"type":"tool_use","name":"x"}]}`, `{"id":"","input":{},"name":"x","type":"tool_use"}`, false},
		"MidCallInputIsNotGiven": {"input in the middle of a call is not to be had", `{"content":[],"resultType":"input_required","inputRequests":{}}`, "The tool asks for further input in the middle of the call, which this client cannot give. The call did not complete; its outcome is unknown.", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := mapResult(resultOf(t, tc.raw), structuredIn([]byte(tc.raw)), 1000, nil)
			if got.Content != tc.want || got.IsError != tc.isError {
				t.Errorf("%s: got %q (error %v), want %q", tc.reason, got.Content, got.IsError, tc.want)
			}
		})
	}
}

func TestResultIsCutAtARuneAndSaysSo(t *testing.T) {
	text := strings.Repeat("é", 100)
	res := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	got := mapResult(res, nil, 61, nil).Content
	kept, note, ok := strings.Cut(got, "\n")
	if !ok || note != "[cut: 30 of 200 bytes shown]" || kept != strings.Repeat("é", 15) {
		t.Errorf("got %q", got)
	}
	if len(got) > 61 {
		t.Errorf("%d bytes are more than the limit", len(got))
	}
	if whole := mapResult(res, nil, 200, nil).Content; whole != text {
		t.Errorf("a result of just the limit was cut: %q", whole)
	}
}

func TestResultNeverShowsAHeadersValue(t *testing.T) {
	redact := redactor(map[string]string{"Authorization": "Bearer tok-0123456789", "X-Key": "key-abcdefghij", "X-Short": "true"})
	res := &sdk.CallToolResult{
		Content: []sdk.Content{
			&sdk.TextContent{Text: "Authorization: Bearer tok-0123456789, token tok-0123456789, true"},
			&sdk.ResourceLink{URI: "https://h/?k=key-abcdefghij"},
		},
		StructuredContent: map[string]any{"key": "key-abcdefghij"},
	}
	for _, limit := range []int{1000, 70, 40} {
		got := mapResult(res, nil, limit, redact).Content
		for _, secret := range []string{"tok-0", "key-a"} {
			if strings.Contains(got, secret) {
				t.Errorf("limit %d: %q shows a secret", limit, got)
			}
		}
	}
	if got := mapResult(res, nil, 1000, redact).Content; !strings.Contains(got, "true") {
		t.Errorf("a short value, which is a word and no secret, was taken out: %q", got)
	}
}

func TestEscapesHideNoHeadersValue(t *testing.T) {
	const raw = `{"content":[],"structuredContent":{"key":"key\u002dabc\/defghij"}}`
	redact := redactor(map[string]string{"X-Key": "key-abc/defghij"})
	got := mapResult(resultOf(t, raw), structuredIn([]byte(raw)), 1000, redact).Content
	if got != `{"key":"[redacted]"}` {
		t.Errorf("got %q", got)
	}
}

// The old rounding holds where there is no JSON to read the content from: a text that says the same is still found.
func TestStructuredContentWithoutItsJSONIsNotShownTwice(t *testing.T) {
	res := resultOf(t, `{"content":[{"type":"text","text":"{\"x\": 1.0}"}],"structuredContent":{"x":1.0}}`)
	if got := mapResult(res, nil, 1000, nil).Content; got != `{"x": 1.0}` {
		t.Errorf("got %q", got)
	}
}

func FuzzMapResult(f *testing.F) {
	for _, seed := range []string{
		`{"content":[{"type":"text","text":"hello"}],"structuredContent":{"a":1},"isError":true}`,
		`{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"resource","resource":{"uri":"a","blob":"AA=="}}]}`,
		`{"content":[{"type":"resource_link","uri":"a","name":"b","size":-1},{"type":"text","text":"sécret-0123456789"}]}`,
		`{"content":[],"resultType":"input_required"}`,
	} {
		f.Add([]byte(seed), uint16(64))
		f.Add([]byte(seed), uint16(8))
	}
	const secret = "sécret-0123456789"
	redact := redactor(map[string]string{"Authorization": "Bearer " + secret})
	f.Fuzz(func(t *testing.T, raw []byte, limit uint16) {
		res := new(sdk.CallToolResult)
		if json.Unmarshal(raw, res) != nil {
			// What the SDK cannot read never gets here; what it can hold, does.
			res.Content = []sdk.Content{&sdk.TextContent{Text: string(raw)}}
		}
		got := mapResult(res, structuredIn(raw), int(limit), redact)
		again := mapResult(res, structuredIn(raw), int(limit), redact)
		switch {
		case got != again:
			t.Errorf("not a function: %q, %q", got.Content, again.Content)
		case !utf8.ValidString(got.Content):
			t.Errorf("%q is no UTF-8", got.Content)
		case got.Content == "":
			t.Error("no content")
		case strings.Contains(got.Content, secret):
			t.Errorf("%q shows the secret", got.Content)
		case got.IsError != (res.IsError || res.NeedsInput()):
			t.Errorf("IsError is %v", got.IsError)
		case !res.NeedsInput() && got.Content != noContent && len(got.Content) > max(int(limit), 100):
			t.Errorf("%d bytes are more than %d", len(got.Content), limit)
		}
	})
}
