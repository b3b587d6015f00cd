package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/genai"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// What the model is told, as its own last words, when the API threw its function call away. The loop cannot answer a call
// that it never saw.
const (
	noteMalformed  = "(My function call was malformed, so it was not run.)"
	noteUnexpected = "(I called a function although none was offered, so it was not run.)"
	noteTooMany    = "(I called functions too often in one reply, so none was run.)"
)

// discarded are the finish reasons of replies whose calls the API threw away.
var discarded = map[genai.FinishReason]string{
	genai.FinishReasonMalformedFunctionCall: noteMalformed,
	genai.FinishReasonUnexpectedToolCall:    noteUnexpected,
	genai.FinishReasonTooManyToolCalls:      noteTooMany,
}

// finishReason maps a finish reason. Discarded calls are an ordinary end without calls: the loop goes on with a nudge.
// Reasons that are not known yet are an ordinary end too.
func finishReason(r genai.FinishReason, calls bool) loop.FinishReason {
	switch r {
	case genai.FinishReasonMaxTokens:
		return loop.FinishLength
	case genai.FinishReasonSafety, genai.FinishReasonProhibitedContent, genai.FinishReasonBlocklist, genai.FinishReasonSPII,
		genai.FinishReasonRecitation, genai.FinishReasonLanguage, genai.FinishReasonImageSafety,
		genai.FinishReasonImageProhibitedContent, genai.FinishReasonImageRecitation:
		return loop.FinishContentFilter
	default:
		if calls {
			return loop.FinishToolCalls
		}
		return loop.FinishStop
	}
}

// toUsage normalises. The prompt holds the cached tokens; thoughts are counted apart from the candidates and are output.
func toUsage(u *genai.GenerateContentResponseUsageMetadata) loop.Usage {
	if u == nil {
		return loop.Usage{}
	}
	out := loop.Usage{
		InputTokens:       int64(u.PromptTokenCount) + int64(u.ToolUsePromptTokenCount),
		OutputTokens:      int64(u.CandidatesTokenCount) + int64(u.ThoughtsTokenCount),
		CachedInputTokens: int64(u.CachedContentTokenCount),
		TotalTokens:       int64(u.TotalTokenCount),
	}
	if out.TotalTokens == 0 {
		out.TotalTokens = out.InputTokens + out.OutputTokens
	}
	return out
}

// mergeUsage takes a later report. They are running totals, and a stream's early ones leave fields out.
func mergeUsage(a, b loop.Usage) loop.Usage {
	return loop.Usage{
		InputTokens:       max(a.InputTokens, b.InputTokens),
		OutputTokens:      max(a.OutputTokens, b.OutputTokens),
		CachedInputTokens: max(a.CachedInputTokens, b.CachedInputTokens),
		TotalTokens:       max(a.TotalTokens, b.TotalTokens),
	}
}

// estimateRest is for a reply that broke off before its output was counted: four bytes are about one token.
func estimateRest(u loop.Usage, n int) loop.Usage {
	out := int64(n+3) / 4
	if !u.Reported() || out <= u.OutputTokens {
		return u
	}
	u.TotalTokens += out - u.OutputTokens
	u.OutputTokens, u.Estimated = out, true
	return u
}

// argumentsText gives a call's arguments as JSON, without the escapes for HTML.
func argumentsText(args map[string]any) string {
	if len(args) == 0 {
		return "{}"
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if enc.Encode(args) != nil {
		return "{}" // It came from JSON, so it always encodes.
	}
	return string(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

// pendingCall is a call as it arrived.
type pendingCall struct {
	id, name, args string
	signature      []byte
	after          int
}

// toCalls gives ids to calls that have none, or one that was there before in the same reply, and marks what is to go back
// with each. places tells where each of the stream's blocks begins in the reply, which has so many blocks.
func toCalls(pending []pendingCall, responseID string, places []int, blocks int) []loop.ToolCall {
	if responseID == "" {
		responseID = "call"
	}
	var out []loop.ToolCall
	seen := map[string]bool{}
	for i, p := range pending {
		m := callMark{Signature: p.signature}
		if after := places[p.after]; after < blocks {
			m.After = &after
		}
		for n := i; p.id == "" || seen[p.id]; n++ {
			p.id, m.Made = fmt.Sprintf("%s_%d", responseID, n), true
		}
		seen[p.id] = true
		c := loop.ToolCall{ID: p.id, Name: p.name, Arguments: p.args}
		if !m.empty() {
			c.Opaque = encodeMark(m)
		}
		out = append(out, c)
	}
	return out
}
