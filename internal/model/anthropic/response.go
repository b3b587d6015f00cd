package anthropic

import (
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// part is one content block of a reply, as it is put together from a stream or read from a whole message.
type part struct {
	kind      string
	text      strings.Builder
	signature string
	data      string // of redacted thinking
	id, name  string // of a call
	input     string // a call's arguments, where they came in one piece
	closed    bool
}

// arguments are the deltas where there were any: a stream starts a call with an empty object that is not meant.
func (p *part) arguments() string {
	if p.text.Len() > 0 {
		return p.text.String()
	}
	if p.input != "" {
		return p.input
	}
	return "{}"
}

// usage are the API's counts, in tokens. Input comes in three kinds that do not overlap.
type usage struct {
	input, cacheRead, cacheWrite, output int64
}

// merge takes a later report. They are running totals, and some servers repeat a count only where it changed. Some compatible
// servers tell the input whole in one report, and split into its kinds in another: that is one input, not two.
func (u *usage) merge(o usage) {
	u.output = max(u.output, o.output)
	whole, cached := u.input+u.cached(), o.cached()
	switch {
	case u.cached() == 0 && cached > 0:
		u.cacheRead, u.cacheWrite = o.cacheRead, o.cacheWrite
		if o.input > 0 || cached <= whole { // else this is what the first report left out
			u.input = max(whole, o.input+cached) - cached
		}
	case cached == 0 && o.input >= whole:
		u.input = o.input - u.cached()
	default:
		u.input, u.cacheRead, u.cacheWrite = max(u.input, o.input), max(u.cacheRead, o.cacheRead), max(u.cacheWrite, o.cacheWrite)
	}
}

// cached is the input that went through the cache.
func (u usage) cached() int64 { return u.cacheRead + u.cacheWrite }

// normalised is the usage as it is billed: the API gives no total.
func (u usage) normalised() loop.Usage {
	in := u.input + u.cacheRead + u.cacheWrite
	return loop.Usage{
		InputTokens: in, OutputTokens: u.output, CachedInputTokens: u.cacheRead, TotalTokens: in + u.output,
	}
}

// toReply converts a whole message, for servers that do not stream.
func toReply(m *sdk.Message) *loop.Reply {
	a := assembly{
		id: m.ID, model: m.Model, stop: m.StopReason, refusal: m.StopDetails.Explanation, counted: true,
		usage: usage{
			input: m.Usage.InputTokens, output: m.Usage.OutputTokens,
			cacheRead: m.Usage.CacheReadInputTokens, cacheWrite: m.Usage.CacheCreationInputTokens,
		},
	}
	for _, b := range m.Content {
		p := &part{
			kind: b.Type, signature: b.Signature, data: b.Data, id: b.ID, name: b.Name,
			input: inputText(string(b.Input)), closed: true,
		}
		switch b.Type {
		case typeThinking:
			p.text.WriteString(b.Thinking)
		case "text":
			p.text.WriteString(b.Text)
		}
		a.parts = append(a.parts, p)
	}
	return a.reply(true)
}

// assembly is a reply that is being put together.
type assembly struct {
	id, model string
	parts     []*part
	stop      sdk.StopReason
	refusal   string
	usage     usage
	// bytes of text, reasoning and arguments that arrived.
	bytes int
	// counted: the report of usage that a reply closes with arrived.
	counted bool
}

// reply builds what arrived. A call that is not complete is left out of a reply that is not.
func (a *assembly) reply(complete bool) *loop.Reply {
	r := &loop.Reply{Model: a.model, Usage: a.usage.normalised()}
	var places []int
	said := a.texts()
	for _, p := range a.parts {
		if p.kind == "tool_use" {
			if complete || p.closed {
				r.ToolCalls = append(r.ToolCalls, loop.ToolCall{ID: p.id, Name: p.name, Arguments: p.arguments()})
				places = append(places, len(r.Blocks))
			}
			continue
		}
		if p.kind == "text" {
			r.Blocks, said = append(r.Blocks, said[0]...), said[1:]
			continue
		}
		if b, ok := p.block(); ok {
			r.Blocks = append(r.Blocks, b)
		}
	}
	if a.refusal != "" {
		r.Blocks = append(r.Blocks, loop.Block{Kind: loop.BlockRefusal, Text: a.refusal})
	}
	for i, at := range places {
		if at < len(r.Blocks) {
			r.ToolCalls[i].Opaque = encodeMark(callMark{After: at})
		}
	}
	uniqueIDs(r.ToolCalls, a.id)
	if complete {
		r.Finish = finishReason(a.stop, len(r.ToolCalls) > 0)
	}
	if !a.counted && a.usage != (usage{}) {
		r.Usage = estimateRest(a.usage, a.bytes)
	}
	return r
}

// texts are the blocks of each text: compatible servers leave thoughts in there.
func (a *assembly) texts() [][]loop.Block {
	var all []string
	for _, p := range a.parts {
		if p.kind == "text" {
			all = append(all, p.text.String())
		}
	}
	return model.SplitThoughts(all...)
}

// block converts everything but calls and texts. What has no text and nothing to send back is left out, and so are the blocks of
// tools that run at the provider: none is ever asked for.
func (p *part) block() (loop.Block, bool) {
	text := p.text.String()
	switch p.kind {
	case typeThinking:
		b := loop.Block{Kind: loop.BlockReasoning, Text: text}
		if p.signature != "" {
			b.Opaque = encodeMark(blockMark{Type: typeThinking, Signature: p.signature, Bytes: len(text)})
		}
		return b, text != "" || b.Opaque != ""
	case typeRedacted:
		return loop.Block{Kind: loop.BlockReasoning, Opaque: encodeMark(blockMark{Type: typeRedacted, Data: p.data})}, p.data != ""
	}
	return loop.Block{}, false
}

// estimateRest is for a reply whose output was not counted at its end, because it broke off or the server does not: what was
// counted at its start holds only the first token of the output, and four bytes are about one token.
func estimateRest(u usage, bytes int) loop.Usage {
	u.output = max(u.output, int64(bytes+3)/4)
	out := u.normalised()
	out.Estimated = true
	return out
}

// uniqueIDs gives an id to calls that have none, or one that was there before in the same reply.
func uniqueIDs(calls []loop.ToolCall, messageID string) {
	if messageID == "" {
		messageID = "call"
	}
	seen := map[string]bool{}
	for i := range calls {
		for n := i; calls[i].ID == "" || seen[calls[i].ID]; n++ {
			calls[i].ID = fmt.Sprintf("%s_%d", messageID, n)
		}
		seen[calls[i].ID] = true
	}
}

// finishReason maps a stop reason. A context window that filled up while the reply was written is a reply cut by length,
// like max_tokens: what arrived is good, and the next request will be refused as too long, which leads to compaction.
// A paused turn only ever comes with tools that run at the provider; it counts as an ordinary end.
func finishReason(stop sdk.StopReason, calls bool) loop.FinishReason {
	switch stop {
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return loop.FinishLength
	case sdk.StopReasonRefusal:
		return loop.FinishRefusal
	case sdk.StopReasonToolUse:
		return loop.FinishToolCalls
	}
	if calls { // Some compatible servers say end_turn, or nothing.
		return loop.FinishToolCalls
	}
	return loop.FinishStop
}

// inputText is a call's input as the server wrote it, because decoding would change large numbers; "" for an empty object or
// nothing.
func inputText(raw string) string {
	switch raw = strings.TrimSpace(raw); raw {
	case "{}", "null":
		return ""
	}
	return raw
}
