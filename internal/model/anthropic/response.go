package anthropic

import (
	"encoding/json"
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

// counts are those of a report. raw is all of it: some servers tell only what was written to which cache.
func counts(input, cacheRead, cacheWrite, output int64, raw string) usage {
	var written struct {
		By struct {
			Short int64 `json:"ephemeral_5m_input_tokens"`
			Long  int64 `json:"ephemeral_1h_input_tokens"`
		} `json:"cache_creation"`
	}
	_ = json.Unmarshal([]byte(raw), &written)
	return usage{
		input: count(input), cacheRead: count(cacheRead), output: count(output),
		cacheWrite: max(count(cacheWrite), count(written.By.Short)+count(written.By.Long)),
	}
}

// count is a number of tokens that can be added up, whatever the server says.
func count(n int64) int64 { return min(max(n, 0), 1<<40) }

func messageUsage(u sdk.Usage) usage {
	return counts(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens, u.RawJSON())
}

func (u usage) cached() int64   { return u.cacheRead + u.cacheWrite }
func (u usage) allInput() int64 { return u.input + u.cached() }

// merge takes a later report. They are running totals, and some servers repeat a count only where it changed. Others tell the input
// as a whole at first and its kinds later, or the other way round: added up, it would count twice.
func (u *usage) merge(o usage) {
	u.output = max(u.output, o.output)
	splits := o.input > 0 && o.cached() > 0 && (u.cached() == 0 || o.allInput() >= u.allInput())
	allCached := o.input == 0 && u.cached() == 0 && o.cached() == u.input
	whole := o.cached() == 0 && u.input > 0 && u.cached() > 0 && o.input >= u.allInput()
	switch {
	case splits || allCached:
		u.input, u.cacheRead, u.cacheWrite = o.input, o.cacheRead, o.cacheWrite
	case whole:
		u.input = o.input - u.cached()
	default:
		u.input, u.cacheRead, u.cacheWrite = max(u.input, o.input), max(u.cacheRead, o.cacheRead), max(u.cacheWrite, o.cacheWrite)
	}
}

// normalised is the usage as it is billed: the API gives no total.
func (u usage) normalised() loop.Usage {
	in := u.allInput()
	return loop.Usage{
		InputTokens: in, OutputTokens: u.output, CachedInputTokens: u.cacheRead, TotalTokens: in + u.output,
	}
}

// toReply converts a whole message, for servers that do not stream.
func toReply(m *sdk.Message) *loop.Reply {
	a := assembly{
		id: m.ID, model: m.Model, stop: m.StopReason, refusal: m.StopDetails.Explanation, counted: true,
		usage: messageUsage(m.Usage),
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
	blocks := make([]loop.Block, len(a.parts))
	for i, p := range a.parts {
		blocks[i] = p.block()
	}
	var places []int
	for i, split := range model.SplitThoughts(blocks) {
		switch p := a.parts[i]; {
		case p.kind != "tool_use":
			r.Blocks = append(r.Blocks, split...)
		case complete || p.closed:
			r.ToolCalls = append(r.ToolCalls, loop.ToolCall{ID: p.id, Name: p.name, Arguments: p.arguments()})
			places = append(places, len(r.Blocks))
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

// block converts everything but calls. What has no text and nothing to send back is empty, and so are the blocks of tools that
// run at the provider: none is ever asked for.
func (p *part) block() loop.Block {
	text := p.text.String()
	switch {
	case p.kind == "text":
		return loop.Block{Kind: loop.BlockText, Text: text}
	case p.kind == typeThinking && p.signature != "":
		return loop.Block{Kind: loop.BlockReasoning, Text: text, Opaque: encodeMark(blockMark{Type: typeThinking, Signature: p.signature, Bytes: len(text)})}
	case p.kind == typeThinking:
		return loop.Block{Kind: loop.BlockReasoning, Text: text}
	case p.kind == typeRedacted && p.data != "":
		return loop.Block{Kind: loop.BlockReasoning, Opaque: encodeMark(blockMark{Type: typeRedacted, Data: p.data})}
	}
	return loop.Block{}
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
	default: // some compatible servers say end_turn beside calls, or nothing
		if calls {
			return loop.FinishToolCalls
		}
		return loop.FinishStop
	}
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
