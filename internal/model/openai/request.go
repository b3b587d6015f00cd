package openai

import (
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// toParams converts a request.
func toParams(cfg model.Config, f features, req *loop.Request) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{
		Model:           cfg.Model,
		Messages:        toMessages(f, req),
		Tools:           toTools(req.Tools),
		ReasoningEffort: shared.ReasoningEffort(cfg.Parameters.ReasoningEffort),
	}
	if len(p.Tools) == 0 && f.historyTools {
		if p.Tools = toTools(model.HistoryTools(req.Messages)); len(p.Tools) > 0 && !f.noToolChoice {
			p.ToolChoice = sdk.ChatCompletionToolChoiceOptionUnionParam{OfAuto: sdk.String("none")}
		}
	}
	if f.noEffort && len(p.Tools) > 0 {
		p.ReasoningEffort = shared.ReasoningEffortNone
	}
	tune := cfg.Parameters
	p.Temperature = optional(tune.Temperature)
	p.TopP = optional(tune.TopP)
	p.FrequencyPenalty = optional(tune.FrequencyPenalty)
	p.PresencePenalty = optional(tune.PresencePenalty)
	p.Seed = optional(tune.Seed)
	if len(tune.StopSequences) > 0 {
		p.Stop = sdk.ChatCompletionNewParamsStopUnion{OfStringArray: tune.StopSequences}
	}
	if limit := model.OutputCap(req.MaxOutputTokens, tune.MaxOutputTokens); limit > 0 {
		if f.completionTokens {
			p.MaxCompletionTokens = sdk.Int(limit)
		} else {
			p.MaxTokens = sdk.Int(limit)
		}
	}
	if len(req.OutputSchema) > 0 && !f.noResponseFormat {
		p.ResponseFormat = toResponseFormat(req.OutputSchema)
	}
	if !f.noStream {
		// The SDK sets this field itself only in the call that hides the end of the stream from us.
		p.SetExtraFields(map[string]any{"stream": true})
		if !f.noUsageInStream {
			p.StreamOptions = sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)}
		}
	}
	return p
}

func optional[T comparable](v *T) param.Opt[T] {
	if v == nil {
		return param.Opt[T]{}
	}
	return param.NewOpt(*v)
}

func toResponseFormat(schema json.RawMessage) sdk.ChatCompletionNewParamsResponseFormatUnion {
	return sdk.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		// Not strict: that allows only a part of JSON Schema. The loop checks the reply itself.
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "output", Schema: schema},
	}}
}

func toTools(tools []loop.ToolDefinition) []sdk.ChatCompletionToolUnionParam {
	var out []sdk.ChatCompletionToolUnionParam
	for _, t := range tools {
		def := shared.FunctionDefinitionParam{Name: t.Name, Parameters: toParameters(t.InputSchema)}
		if t.Description != "" {
			def.Description = sdk.String(t.Description)
		}
		out = append(out, sdk.ChatCompletionFunctionTool(def))
	}
	return out
}

// toParameters gives a schema the form that every server takes: an object that names its properties, if only none.
func toParameters(schema json.RawMessage) shared.FunctionParameters {
	var p shared.FunctionParameters
	if json.Unmarshal(schema, &p) != nil || p == nil {
		p = shared.FunctionParameters{}
	}
	if p["type"] == nil {
		p["type"] = "object"
	}
	if p["properties"] == nil {
		p["properties"] = map[string]any{}
	}
	return p
}

func toMessages(f features, req *loop.Request) []sdk.ChatCompletionMessageParamUnion {
	var out []sdk.ChatCompletionMessageParamUnion
	if req.System != "" {
		out = append(out, sdk.SystemMessage(req.System))
	}
	for _, m := range req.Messages {
		switch m.Role {
		case loop.RoleAssistant:
			out = append(out, toAssistant(f, m))
		case loop.RoleTool:
			for _, r := range m.ToolResults {
				out = append(out, sdk.ToolMessage(r.Content, r.CallID))
			}
		default:
			if n := len(out); f.parted && n > 0 && out[n-1].OfTool != nil {
				out = append(out, sdk.AssistantMessage(noAnswer))
			}
			out = append(out, sdk.UserMessage(joined(m, loop.BlockText)))
		}
	}
	return out
}

// noAnswer stands for a reply that was nothing but reasoning. Mistral refuses an assistant's message without content, and
// without the message a user's one after a tool's; templates of other models insist on roles that take turns.
const noAnswer = "(no answer)"

func toAssistant(f features, m loop.Message) sdk.ChatCompletionMessageParamUnion {
	var a sdk.ChatCompletionAssistantMessageParam
	// A refusal goes back as text: few servers know the field.
	text := joined(m, loop.BlockText, loop.BlockRefusal)
	reasoning := joined(m, loop.BlockReasoning)
	if !f.replayReasoning {
		reasoning = ""
	}
	if strings.TrimSpace(text) == "" && len(m.ToolCalls) == 0 && reasoning == "" {
		text = noAnswer
	}
	if text != "" || len(m.ToolCalls) == 0 {
		a.Content.OfString = sdk.String(text)
	}
	for _, c := range m.ToolCalls {
		a.ToolCalls = append(a.ToolCalls, toToolCall(c))
	}
	if reasoning != "" {
		a.SetExtraFields(map[string]any{"reasoning_content": reasoning})
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &a}
}

func toToolCall(c loop.ToolCall) sdk.ChatCompletionMessageToolCallUnionParam {
	call := &sdk.ChatCompletionMessageFunctionToolCallParam{
		ID: c.ID,
		Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
			Name: model.AcceptableToolName(c.Name), Arguments: acceptableArguments(c.Arguments),
		},
	}
	if json.Valid([]byte(c.Opaque)) {
		call.SetExtraFields(map[string]any{extraContent: json.RawMessage(c.Opaque)})
	}
	return sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: call}
}

// extraContent is where Gemini's compatible endpoint puts the signature of a thought, and wants it back.
const extraContent = "extra_content"

// acceptableArguments makes the arguments of an earlier call a JSON object, for servers that parse them.
func acceptableArguments(args string) string {
	if strings.TrimSpace(args) == "" {
		return "{}"
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &object) == nil && object != nil {
		return args
	}
	wrapped, err := json.Marshal(map[string]string{"malformed_arguments": args})
	if err != nil {
		return "{}"
	}
	return string(wrapped)
}

// joined is the text of a message's blocks of some kinds, with a blank line between blocks.
func joined(m loop.Message, kinds ...loop.BlockKind) string {
	var parts []string
	for _, b := range m.Blocks {
		for _, k := range kinds {
			if b.Kind == k && b.Text != "" {
				parts = append(parts, b.Text)
			}
		}
	}
	return strings.Join(parts, "\n\n")
}
