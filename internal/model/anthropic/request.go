package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// defaultMaxTokens caps a reply when nobody does: the API demands a cap.
const defaultMaxTokens = 8192

// toParams converts a request. Frequency and presence penalty and seed do not exist in this API and are left out.
func toParams(cfg model.Config, req *loop.Request) sdk.MessageNewParams {
	p := sdk.MessageNewParams{
		Model:         cfg.Model,
		MaxTokens:     maxTokens(req.MaxOutputTokens, cfg.Parameters.MaxOutputTokens),
		Messages:      toMessages(req.Messages),
		Tools:         toTools(req.Tools),
		StopSequences: cfg.Parameters.StopSequences,
	}
	if req.System != "" {
		p.System = []sdk.TextBlockParam{{Text: req.System}}
	}
	if t := cfg.Parameters.Temperature; t != nil {
		p.Temperature = param.NewOpt(*t)
	}
	if t := cfg.Parameters.TopP; t != nil {
		p.TopP = param.NewOpt(*t)
	}
	if len(p.Tools) == 0 { // the API refuses calls of tools that are not declared
		if p.Tools = toTools(model.HistoryTools(req.Messages)); len(p.Tools) > 0 {
			p.ToolChoice = sdk.ToolChoiceUnionParam{OfNone: &sdk.ToolChoiceNoneParam{}}
		}
	}
	if schema, ok := schemaObject(req.OutputSchema); ok {
		p.OutputConfig.Format = sdk.JSONOutputFormatParam{Schema: schema}
	}
	applyEffort(&p, cfg.Parameters.ReasoningEffort)
	if req.Purpose == loop.PurposeTurn {
		markCache(&p)
	}
	return p
}

// maxTokens is the smaller cap that is set.
func maxTokens(request, configured int64) int64 {
	if n := model.OutputCap(request, configured); n > 0 {
		return n
	}
	return defaultMaxTokens
}

// toMessages converts the conversation. Neighbours of the same role become one message, and what would be empty is left
// out: the API refuses empty content.
func toMessages(msgs []loop.Message) []sdk.MessageParam {
	var out []sdk.MessageParam
	for _, m := range msgs {
		role, content := sdk.MessageParamRoleUser, []sdk.ContentBlockParamUnion(nil)
		switch m.Role {
		case loop.RoleAssistant:
			role, content = sdk.MessageParamRoleAssistant, assistantContent(m)
		case loop.RoleTool:
			content = toolResults(m.ToolResults)
		default:
			content = texts(m.Blocks)
		}
		if len(content) == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Role == role {
			out[n-1].Content = append(out[n-1].Content, content...)
			continue
		}
		out = append(out, sdk.MessageParam{Role: role, Content: content})
	}
	return out
}

func texts(blocks []loop.Block) []sdk.ContentBlockParamUnion {
	var out []sdk.ContentBlockParamUnion
	for _, b := range blocks {
		if c, ok := blockContent(b); ok {
			out = append(out, c)
		}
	}
	return out
}

// blockContent converts one block. Reasoning goes back only where the API itself signed it.
func blockContent(b loop.Block) (sdk.ContentBlockParamUnion, bool) {
	if b.Kind == loop.BlockReasoning {
		m, ok := reasoningMark(b)
		switch {
		case !ok:
			return sdk.ContentBlockParamUnion{}, false
		case m.Type == typeRedacted:
			return sdk.NewRedactedThinkingBlock(m.Data), true
		}
		return sdk.NewThinkingBlock(m.Signature, b.Text), true
	}
	if strings.TrimSpace(b.Text) == "" {
		return sdk.ContentBlockParamUnion{}, false
	}
	return sdk.NewTextBlock(b.Text), true
}

// assistantContent puts each call back to its place among the blocks: thinking must return in the order it came.
func assistantContent(m loop.Message) []sdk.ContentBlockParamUnion {
	var out []sdk.ContentBlockParamUnion
	calls := m.ToolCalls
	for i, b := range m.Blocks {
		for len(calls) > 0 && callPlace(calls[0], len(m.Blocks)) <= i {
			out, calls = append(out, toolUse(calls[0])), calls[1:]
		}
		if c, ok := blockContent(b); ok {
			out = append(out, c)
		}
	}
	for _, c := range calls {
		out = append(out, toolUse(c))
	}
	return withoutLastThoughts(out)
}

// withoutLastThoughts drops the thinking that nothing follows: the API refuses a message that ends with it, and a reply may
// have been nothing else.
func withoutLastThoughts(blocks []sdk.ContentBlockParamUnion) []sdk.ContentBlockParamUnion {
	for len(blocks) > 0 {
		if last := blocks[len(blocks)-1]; last.OfThinking == nil && last.OfRedactedThinking == nil {
			break
		}
		blocks = blocks[:len(blocks)-1]
	}
	return blocks
}

func callPlace(c loop.ToolCall, atEnd int) int {
	var m callMark
	if decodeMark(c.Opaque, &m) {
		return m.After
	}
	return atEnd
}

func toolUse(c loop.ToolCall) sdk.ContentBlockParamUnion {
	return sdk.NewToolUseBlock(acceptableID(c.ID), argumentsObject(c.Arguments), model.AcceptableToolName(c.Name))
}

var acceptableIDs = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// acceptableID is the id as it is where the API takes it, else one made of a hash, so that a call and its result get the
// same one and no other call does.
func acceptableID(id string) string {
	if acceptableIDs.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// argumentsObject gives the JSON object that the API demands. Arguments that are none are shown to the model as it wrote
// them, so that it can see its mistake.
func argumentsObject(args string) json.RawMessage {
	if strings.TrimSpace(args) == "" {
		return json.RawMessage(`{}`)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &object) == nil && object != nil {
		return json.RawMessage(args)
	}
	raw, _ := json.Marshal(map[string]string{"malformed_arguments": args}) // A map of strings always encodes.
	return raw
}

func toolResults(results []loop.ToolResult) []sdk.ContentBlockParamUnion {
	out := make([]sdk.ContentBlockParamUnion, 0, len(results))
	for _, r := range results {
		b := &sdk.ToolResultBlockParam{ToolUseID: acceptableID(r.CallID)}
		if r.IsError {
			b.IsError = param.NewOpt(true)
		}
		if strings.TrimSpace(r.Content) != "" { // An empty text is refused, no content is not.
			b.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: r.Content}}}
		}
		out = append(out, sdk.ContentBlockParamUnion{OfToolResult: b})
	}
	return out
}

func toTools(tools []loop.ToolDefinition) []sdk.ToolUnionParam {
	var out []sdk.ToolUnionParam
	for _, t := range tools {
		p := &sdk.ToolParam{Name: t.Name, InputSchema: inputSchema(t.InputSchema)}
		if t.Description != "" {
			p.Description = param.NewOpt(t.Description)
		}
		out = append(out, sdk.ToolUnionParam{OfTool: p})
	}
	return out
}

// anyObject is the schema of a tool that says nothing about its input. Its type is written out, because a schema that is
// all zero is left out of the request.
var anyObject = sdk.ToolInputSchemaParam{Type: "object"}

// inputSchema passes a tool's schema on as it is, but for the type, which must be object.
func inputSchema(raw json.RawMessage) sdk.ToolInputSchemaParam {
	schema, ok := schemaObject(raw)
	if !ok {
		return anyObject
	}
	schema["type"] = "object"
	return param.Override[sdk.ToolInputSchemaParam](schema)
}

// schemaObject decodes a JSON Schema and tells whether it is an object at all.
func schemaObject(raw json.RawMessage) (map[string]any, bool) {
	var schema map[string]any
	if len(raw) == 0 || json.Unmarshal(raw, &schema) != nil || schema == nil {
		return nil, false
	}
	return schema, true
}

// markCache asks the API to cache tools and system, and the conversation up to its last message: the next turn begins
// with the same. Calls that happen once are not marked, because a cache write costs more than plain input.
func markCache(p *sdk.MessageNewParams) {
	if n := len(p.System); n > 0 {
		p.System[n-1].CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	if len(p.Messages) == 0 {
		return
	}
	content := p.Messages[len(p.Messages)-1].Content
	if cc := content[len(content)-1].GetCacheControl(); cc != nil {
		*cc = sdk.NewCacheControlEphemeralParam()
	}
}
