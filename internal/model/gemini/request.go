package gemini

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"

	"google.golang.org/genai"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// toConfig converts everything of a request but its conversation.
func toConfig(cfg model.Config, req *loop.Request) *genai.GenerateContentConfig {
	p := cfg.Parameters
	out := &genai.GenerateContentConfig{
		Temperature:      float(p.Temperature),
		TopP:             float(p.TopP),
		FrequencyPenalty: float(p.FrequencyPenalty),
		PresencePenalty:  float(p.PresencePenalty),
		StopSequences:    p.StopSequences,
		MaxOutputTokens:  int32(model.OutputCap(req.MaxOutputTokens, p.MaxOutputTokens)),
		Tools:            toTools(req.Tools),
		// The SDK would otherwise reconnect by itself. Only the loop retries.
		AutomaticContinuation: genai.Ptr(false),
	}
	if p.Seed != nil {
		// The API takes 32 bits. The same seed always folds to the same value, which is all that a seed must do.
		out.Seed = genai.Ptr(int32(*p.Seed % math.MaxInt32))
	}
	if req.System != "" {
		out.SystemInstruction = &genai.Content{Parts: []*genai.Part{{Text: req.System}}}
	}
	out.ThinkingConfig = thinkingFor(cfg.Model, p.ReasoningEffort, out.MaxOutputTokens)
	// Not every model takes a reply schema together with tools.
	if schema, ok := schemaObject(req.OutputSchema); ok && len(out.Tools) == 0 {
		setSchema(out, schema)
	}
	return out
}

// setSchema asks for JSON of a schema, and with nil for plain text again.
func setSchema(c *genai.GenerateContentConfig, schema map[string]any) {
	if schema == nil {
		c.ResponseMIMEType, c.ResponseJsonSchema = "", nil
		return
	}
	c.ResponseMIMEType, c.ResponseJsonSchema = "application/json", schema
}

func float(v *float64) *float32 {
	if v == nil {
		return nil
	}
	return genai.Ptr(float32(*v))
}

func toTools(tools []loop.ToolDefinition) []*genai.Tool {
	if len(tools) == 0 {
		return nil
	}
	declarations := make([]*genai.FunctionDeclaration, 0, len(tools))
	for _, t := range tools {
		d := &genai.FunctionDeclaration{Name: t.Name, Description: t.Description}
		if schema, ok := schemaObject(t.InputSchema); ok {
			d.ParametersJsonSchema = schema
		}
		declarations = append(declarations, d)
	}
	return []*genai.Tool{{FunctionDeclarations: declarations}}
}

// schemaObject decodes a JSON Schema and tells whether it is an object at all. The name of the dialect is taken out,
// because the API knows only the words of the schema itself.
func schemaObject(raw json.RawMessage) (map[string]any, bool) {
	var schema map[string]any
	if len(raw) == 0 || json.Unmarshal(raw, &schema) != nil || schema == nil {
		return nil, false
	}
	delete(schema, "$schema")
	return schema, true
}

// toContents converts the conversation. What would be empty is left out: the API refuses parts without data. Messages
// are not joined, because the results of a call must be the content right after it.
func toContents(msgs []loop.Message) []*genai.Content {
	var out []*genai.Content
	made := map[string]bool{} // ids of calls that the API does not know
	for _, m := range msgs {
		role, parts := string(genai.RoleUser), []*genai.Part(nil)
		switch m.Role {
		case loop.RoleAssistant:
			for _, c := range m.ToolCalls {
				made[c.ID] = callMarkOf(c).Made
			}
			role, parts = string(genai.RoleModel), modelParts(m)
		case loop.RoleTool:
			parts = responses(m.ToolResults, made)
		default:
			for _, b := range m.Blocks {
				parts = append(parts, blockParts(b)...)
			}
		}
		if len(parts) > 0 {
			out = append(out, &genai.Content{Role: role, Parts: parts})
		}
	}
	return out
}

// modelParts puts each call back to its place among the blocks: signatures must return where they were.
func modelParts(m loop.Message) []*genai.Part {
	var out []*genai.Part
	calls := m.ToolCalls
	for i, b := range m.Blocks {
		for len(calls) > 0 && callPlace(calls[0], len(m.Blocks)) <= i {
			out, calls = append(out, callPart(calls[0])), calls[1:]
		}
		out = append(out, blockParts(b)...)
	}
	for _, c := range calls {
		out = append(out, callPart(c))
	}
	return out
}

func callPlace(c loop.ToolCall, atEnd int) int {
	if m := callMarkOf(c); m.After != nil {
		return *m.After
	}
	return atEnd
}

// blockParts gives a block back as the parts it came in. Thoughts go back only where they were signed: the API needs no
// more, and they cost input.
func blockParts(b loop.Block) []*genai.Part {
	m := markOf(b)
	if m.Within {
		return nil
	}
	thought := b.Kind == loop.BlockReasoning && !m.Note && m.Whole == ""
	whole := cmp.Or(m.Whole, b.Text)
	var out []*genai.Part
	plain := func(text string) {
		if !thought && strings.TrimSpace(text) != "" {
			out = append(out, &genai.Part{Text: text})
		}
	}
	end := 0
	for _, s := range m.Signed {
		plain(whole[end:s.From])
		out = append(out, &genai.Part{Text: whole[s.From:s.To], Thought: thought, ThoughtSignature: s.Signature})
		end = s.To
	}
	plain(whole[end:])
	return out
}

func callPart(c loop.ToolCall) *genai.Part {
	m := callMarkOf(c)
	call := &genai.FunctionCall{Name: c.Name, Args: argumentsObject(c.Arguments)}
	if !m.Made {
		call.ID = c.ID
	}
	return &genai.Part{FunctionCall: call, ThoughtSignature: m.Signature}
}

// argumentsObject gives the object that the API demands. Arguments that are none are shown to the model as it wrote them,
// so that it can see its mistake.
func argumentsObject(args string) map[string]any {
	if strings.TrimSpace(args) == "" {
		return map[string]any{}
	}
	var object map[string]any
	if json.Unmarshal([]byte(args), &object) == nil && object != nil {
		return object
	}
	return map[string]any{"malformed_arguments": args}
}

// responses gives results under the two keys that the API names for this.
func responses(results []loop.ToolResult, made map[string]bool) []*genai.Part {
	out := make([]*genai.Part, 0, len(results))
	for _, r := range results {
		key := "output"
		if r.IsError {
			key = "error"
		}
		resp := &genai.FunctionResponse{Name: r.Name, Response: map[string]any{key: r.Content}}
		if !made[r.CallID] {
			resp.ID = r.CallID
		}
		out = append(out, &genai.Part{FunctionResponse: resp})
	}
	return out
}
