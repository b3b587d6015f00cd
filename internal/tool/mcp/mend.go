package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// The SDK decodes a list of tools or a result as a whole: one entry of another shape than the protocol's, and all of it is lost. What
// follows reads them part by part.

// readList reads a page of a server's tools, each entry by itself: of an odd one what is decoration is left out, and one that cannot be
// called is left out whole. Odd names these. Rest is the page for the SDK, which needs the tools that ask for headers alone.
func readList(result json.RawMessage) (tools []listed, odd []string, rest json.RawMessage, err error) {
	var page struct {
		Tools      []json.RawMessage `json:"tools"`
		NextCursor json.RawMessage   `json:"nextCursor"`
	}
	if err := json.Unmarshal(result, &page); err != nil {
		return nil, nil, nil, err
	}
	out := struct {
		Tools      []json.RawMessage `json:"tools"`
		NextCursor string            `json:"nextCursor,omitempty"`
	}{Tools: []json.RawMessage{}, NextCursor: cursorOf(page.NextCursor)}
	for i, raw := range page.Tools {
		t, isOdd := readTool(raw)
		if isOdd {
			odd = append(odd, nameOf(t, i))
		}
		if t.Tool == nil {
			continue
		}
		if t.asksForHeaders = bytes.Contains(t.schema, []byte(`"x-mcp-header"`)); t.asksForHeaders {
			out.Tools = append(out.Tools, raw)
		}
		tools = append(tools, t)
	}
	rest, err = json.Marshal(out)
	return tools, odd, rest, err
}

// cursorOf is where the next page begins, empty for nowhere. Some servers count their pages in numbers.
func cursorOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	if _, err := strconv.ParseFloat(string(raw), 64); err == nil {
		return string(raw)
	}
	return ""
}

// readTool reads one entry. Its Tool is nil where it cannot be called: it has no name, or its schema is none of an object.
func readTool(raw json.RawMessage) (t listed, odd bool) {
	var entry struct {
		Name        json.RawMessage `json:"name"`
		Title       json.RawMessage `json:"title"`
		Description json.RawMessage `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
		Annotations json.RawMessage `json:"annotations"`
		Icons       json.RawMessage `json:"icons"`
	}
	tool := &sdk.Tool{}
	if json.Unmarshal(raw, &entry) != nil || !read(entry.Name, &tool.Name) || tool.Name == "" {
		return listed{}, true
	}
	t.name = tool.Name
	schema, ok := schemaIn(entry.InputSchema)
	if !ok {
		return t, true
	}
	var title string
	var icons []sdk.Icon
	odd = !read(entry.Description, &tool.Description) || !read(entry.Title, &title) || !read(entry.Icons, &icons)
	var annotations *sdk.ToolAnnotations
	if read(entry.Annotations, &annotations) {
		tool.Annotations = annotations
	} else {
		odd = true // and counts for nothing: what one hint should have said is not known
	}
	t.Tool, t.schema = tool, schema
	return t, odd
}

// read reads a field, and tells whether it has the type that it should have. One that is missing or null is left as it is.
func read(raw json.RawMessage, into any) bool {
	return len(raw) == 0 || json.Unmarshal(raw, into) == nil
}

// schemaIn is an input schema as JSON with sorted keys, nil where there is none. It is not ok where it is of no object: no call
// could satisfy it.
func schemaIn(raw json.RawMessage) (schema json.RawMessage, ok bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, true
	}
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		return nil, false
	}
	switch kind := fields["type"].(type) {
	case nil:
	case string:
		ok = kind != "object"
	case []any:
		ok = !slices.Contains(kind, any("object"))
	default:
		ok = true
	}
	if ok {
		return nil, false
	}
	schema, err := marshal(fields)
	return schema, err == nil
}

// nameOf names an odd entry for people.
func nameOf(t listed, i int) string {
	if t.name == "" {
		return fmt.Sprintf("entry %d", i+1)
	}
	return strconv.Quote(loop.Cut(loop.Visible(t.name), 100))
}

// oddNames names the first of the odd entries of a list, empty for none.
func oddNames(odd []string) string {
	const most = 5
	odd = slices.Compact(slices.Sorted(slices.Values(odd)))
	if len(odd) > most {
		odd = append(odd[:most:most], fmt.Sprintf("%d more", len(odd)-most))
	}
	return strings.Join(odd, ", ")
}

// mendResult reads a tool's result that the SDK cannot: each block by itself, and one that is of no known kind as its JSON. That the call
// has run and what it said must not get lost, or it is made again.
func mendResult(raw json.RawMessage) *sdk.CallToolResult {
	var fields struct {
		Content           json.RawMessage `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		IsError           json.RawMessage `json:"isError"`
	}
	res := &sdk.CallToolResult{}
	if json.Unmarshal(raw, &fields) != nil {
		fields.Content = raw
	}
	switch strings.ToLower(strings.Trim(string(fields.IsError), `"`)) {
	case "", "false", "null", "0":
	default:
		res.IsError = true
	}
	if len(fields.StructuredContent) > 0 && string(fields.StructuredContent) != "null" {
		_ = json.Unmarshal(fields.StructuredContent, &res.StructuredContent) // it came as JSON
	}
	var blocks []json.RawMessage
	if json.Unmarshal(fields.Content, &blocks) != nil && len(fields.Content) > 0 {
		blocks = []json.RawMessage{fields.Content}
	}
	for _, b := range blocks {
		if block := mendBlock(b); block != nil {
			res.Content = append(res.Content, block)
		}
	}
	return res
}

// mendBlock reads one block, nil for null.
func mendBlock(raw json.RawMessage) sdk.Content {
	var text string
	switch {
	case string(raw) == "null":
		return nil
	case json.Unmarshal(raw, &text) == nil:
		return &sdk.TextContent{Text: text}
	}
	var one sdk.CallToolResult
	if whole, err := json.Marshal(map[string]any{"content": []json.RawMessage{raw}}); err == nil && json.Unmarshal(whole, &one) == nil && len(one.Content) == 1 {
		return one.Content[0]
	}
	// Written anew: an escape in the server's own JSON would hide a header's value from the redactor.
	if as, err := normal(raw, unmarshalExact); err == nil {
		raw = as
	}
	return &sdk.TextContent{Text: string(raw)}
}

// mend notes the answer of a call, and makes it one that the SDK can read. It tells whether it changed it.
func (ex *exchange) mend(answer *jsonrpc.Response) (changed bool) {
	if ex == nil || answer.Error != nil {
		return false
	}
	var isList bool
	ex.set(func(ex *exchange) { isList = ex.method == methodList })
	if !isList {
		ex.set(func(ex *exchange) { ex.result = answer.Result })
		return false
	}
	tools, odd, rest, err := readList(answer.Result)
	if err != nil {
		return false
	}
	ex.set(func(ex *exchange) { ex.listed, ex.odd = tools, odd })
	answer.Result = rest
	return true
}
