package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// noContent stands for a result without any: some providers refuse an empty one.
const noContent = "[the tool returned no content]"

// mapResult turns a server's result into the text that the model sees, of at most maxBytes. The structured content is taken
// from its JSON where there is one.
func mapResult(res *sdk.CallToolResult, structured json.RawMessage, maxBytes int, redact *strings.Replacer) loop.ToolResult {
	if res.NeedsInput() {
		return loop.ToolResult{IsError: true, Content: "The tool asks for further input in the middle of the call, " +
			"which this client cannot give. The call did not complete; its outcome is unknown."}
	}
	c := &clip{maxBytes: maxBytes, redact: redact}
	for _, block := range res.Content {
		c.add(blockText(block))
	}
	if structured := structuredText(res, structured); structured != "" {
		c.add(structured)
	}
	text := c.text()
	if text == "" {
		text = noContent
	}
	return loop.ToolResult{Content: text, IsError: res.IsError}
}

// errorResult is a failed call in our own words, with what the server said where that is part of them.
func errorResult(maxBytes int, redact *strings.Replacer, text string) loop.ToolResult {
	c := &clip{maxBytes: maxBytes, redact: redact}
	c.add(text)
	return loop.ToolResult{Content: c.text(), IsError: true}
}

func blockText(block sdk.Content) string {
	switch b := block.(type) {
	case *sdk.TextContent:
		return b.Text
	case *sdk.ImageContent:
		return notShown("image", "", b.MIMEType, len(b.Data))
	case *sdk.AudioContent:
		return notShown("audio", "", b.MIMEType, len(b.Data))
	case *sdk.ResourceLink:
		return linkText(b)
	case *sdk.EmbeddedResource:
		switch r := b.Resource; {
		case r == nil:
			return "[resource without content]"
		case len(r.Blob) > 0:
			return notShown("resource", r.URI, r.MIMEType, len(r.Blob))
		default:
			return fmt.Sprintf("[resource %s]\n%s", r.URI, r.Text)
		}
	}
	raw, err := json.Marshal(block)
	if err == nil {
		raw, err = normal(raw, unmarshalExact)
	}
	if err != nil {
		return "[content of a kind that is not shown]"
	}
	return string(raw)
}

func notShown(kind, uri, mimeType string, size int) string {
	return fmt.Sprintf("[%s, %d bytes, not shown]", words(kind, uri, mimeType), size)
}

func linkText(l *sdk.ResourceLink) string {
	out := "[" + words("resource link", l.Name, l.URI, l.MIMEType)
	if l.Size != nil {
		out += fmt.Sprintf(", %d bytes", *l.Size)
	}
	out += "]"
	if l.Description != "" {
		out += " " + l.Description
	}
	return out
}

// words joins those that are not empty.
func words(parts ...string) string {
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

// structuredText is the structured content as JSON, or nothing where a text block already says the same.
func structuredText(res *sdk.CallToolResult, raw json.RawMessage) string {
	if res.StructuredContent == nil {
		return ""
	}
	// Written anew in any case: an escape in the server's own JSON would hide a header's value from the redactor.
	text, err := marshal(res.StructuredContent)
	read := func(raw []byte, v *any) error { return json.Unmarshal(raw, v) }
	if len(raw) > 0 {
		read = unmarshalExact
		text, err = normal(raw, read)
	}
	if err != nil {
		return ""
	}
	for _, block := range res.Content {
		if t, ok := block.(*sdk.TextContent); ok {
			if same, err := normal([]byte(t.Text), read); err == nil && bytes.Equal(same, text) {
				return ""
			}
		}
	}
	return string(text)
}

// structuredIn is the structured content in a tool's result, nil when there is none.
func structuredIn(result json.RawMessage) json.RawMessage {
	var in struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if !bytes.Contains(result, []byte(`"structuredContent"`)) || json.Unmarshal(result, &in) != nil {
		return nil
	}
	return in.StructuredContent
}

// normal is JSON in the form that marshal gives it.
func normal(raw []byte, read func([]byte, *any) error) ([]byte, error) {
	var v any
	if err := read(raw, &v); err != nil {
		return nil, err
	}
	return marshal(v)
}

// unmarshalExact is json.Unmarshal that keeps numbers as they are written.
func unmarshalExact(raw []byte, v *any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// clip collects text up to a limit, and counts what it leaves out.
type clip struct {
	maxBytes int
	redact   *strings.Replacer
	kept     strings.Builder
	total    int
}

// add appends a piece on a line of its own. Secrets go before anything is cut, so that no half of one is left at the cut.
func (c *clip) add(piece string) {
	piece = strings.ToValidUTF8(piece, "\uFFFD")
	if c.redact != nil {
		piece = c.redact.Replace(piece)
	}
	if c.total > 0 && piece != "" {
		piece = "\n" + piece
	}
	c.total += len(piece)
	if room := c.maxBytes - c.kept.Len(); room > 0 {
		c.kept.WriteString(piece[:min(room, len(piece))])
	}
}

func (c *clip) text() string {
	if c.total <= c.maxBytes {
		return c.kept.String()
	}
	// The numbers need at most the digits of the total, so the note is at most this long.
	longest := len(cutNote(c.total, c.total))
	kept := atRune(c.kept.String(), max(0, c.maxBytes-longest))
	return kept + cutNote(len(kept), c.total)
}

func cutNote(shown, total int) string {
	return fmt.Sprintf("\n[cut: %d of %d bytes shown]", shown, total)
}

// atRune cuts s to at most n bytes, never within a rune.
func atRune(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
