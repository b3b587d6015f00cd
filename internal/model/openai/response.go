package openai

import (
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// readPlain reads a reply that came in one piece, whether asked for so or not. A gateway's error with status 200 is one too.
func readPlain(body []byte, a *assembler, onBytes func(int)) *loop.ModelError {
	if e, ok := model.ParseError(body); ok {
		return e.ModelError(0, nil, a.sent)
	}
	var completion sdk.ChatCompletion
	if err := json.Unmarshal(body, &completion); err != nil {
		return model.ErrorInvalidReply(0, "its reply is no JSON")
	}
	a.usage = toUsage(completion.Usage)
	a.model = completion.Model
	a.id = firstOf(a.id, printable(completion.ID))
	if len(completion.Choices) == 0 {
		return emptyReply()
	}
	d := fromChoice(completion.Choices[0])
	a.add(d)
	onBytes(d.size())
	if brokenOff[d.finish] {
		return model.ErrorFromStatus(0, nil, "server_error")
	}
	a.completed = true
	return nil
}

func emptyReply() *loop.ModelError {
	return model.ErrorInvalidReply(0, "its reply holds no choice")
}

func fromChoice(choice sdk.ChatCompletionChoice) delta {
	m := choice.Message
	d := delta{refusal: m.Refusal, finish: choice.FinishReason}
	d.text, d.reasoning = contentOf(m.Content, m.JSON.Content)
	d.reasoning += reasoningOf(m.JSON.ExtraFields)
	for i, c := range m.ToolCalls {
		d.calls = append(d.calls, fragment{
			index: int64(i), id: c.ID, name: c.Function.Name, args: c.Function.Arguments,
			opaque: extraOf(c.RawJSON()),
		})
	}
	//nolint:staticcheck // deprecated at OpenAI, and still what some older compatible servers send
	if f := m.FunctionCall; f.Name != "" || f.Arguments != "" {
		d.calls = append(d.calls, fragment{index: -1, name: f.Name, args: f.Arguments})
	}
	return d
}

// extraOf reads extra_content from a call: the SDK's union keeps no unknown fields.
func extraOf(raw string) string {
	var c struct {
		Extra json.RawMessage `json:"extra_content"`
	}
	if json.Unmarshal([]byte(raw), &c) != nil || !strings.HasPrefix(string(c.Extra), "{") {
		return ""
	}
	return string(c.Extra)
}

// toUsage normalises usage. Prompt tokens include the cached ones and completion tokens the reasoning, as we count too. Some
// compatible servers have the reasoning in the total alone.
func toUsage(u sdk.CompletionUsage) loop.Usage {
	out := loop.Usage{
		InputTokens:       max(u.PromptTokens, 0),
		OutputTokens:      max(u.CompletionTokens, 0),
		CachedInputTokens: max(u.PromptTokensDetails.CachedTokens, 0),
	}
	out.TotalTokens = max(u.TotalTokens, out.InputTokens+out.OutputTokens)
	if u.CompletionTokensDetails.ReasoningTokens > 0 {
		out.OutputTokens = out.TotalTokens - out.InputTokens
	}
	return out
}

// printable keeps an id that is fit for an event or a log line, and drops any other.
func printable(id string) string {
	if len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r < '!' || r > '~' }) {
		return ""
	}
	return id
}
