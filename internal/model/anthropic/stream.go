package anthropic

import (
	"bytes"
	"encoding/json"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// decodeEvent reads one event. Some compatible servers leave out its name, which its data holds too, so the SDK's own stream
// would pass it over. Data without a name that is no JSON, such as a closing [DONE], is a zero event.
func decodeEvent(resp *http.Response, raw ssestream.Event) (sdk.MessageStreamEventUnion, error) {
	var ev sdk.MessageStreamEventUnion
	data := bytes.TrimSpace(raw.Data)
	switch {
	case raw.Type == "error":
		e, _ := errorWithin(resp, data)
		return ev, e
	case model.Heartbeat(raw.Type, data), raw.Type == "" && data[0] != '{':
		return ev, nil
	}
	if err := json.Unmarshal(data, &ev); err != nil {
		return ev, err
	}
	if ev.Type == "error" || ev.Type == "" {
		if e, ok := errorWithin(resp, data); ok || ev.Type == "error" {
			return ev, e
		}
	}
	return ev, nil
}

// stream puts a reply together from the events of its stream.
type stream struct {
	assembly
	// open is the latest block of each index, and calls the latest call: some servers send text and thoughts under the index of a call,
	// and then go on with the call.
	open, calls map[int64]*part
	// events counts those that belong to the protocol.
	events int
	// ended: the server said that the message is complete.
	ended bool
}

// apply takes one event and returns how many bytes of text, reasoning and arguments it brought.
func (s *stream) apply(ev sdk.MessageStreamEventUnion) int {
	n := 0
	switch ev.Type {
	case "message_start":
		s.start(ev.Message)
	case "content_block_start":
		n = s.startBlock(ev.Index, ev.ContentBlock)
	case "content_block_delta":
		n = s.delta(ev.Index, ev.Delta)
	case "content_block_stop":
		for _, p := range []*part{s.open[ev.Index], s.calls[ev.Index]} {
			if p != nil {
				p.closed = true
			}
		}
	case "message_delta":
		s.finish(ev)
	case "message_stop":
		s.ended = true
	default:
		return 0 // Kinds that are not known yet may be left out, says the API.
	}
	s.events++
	s.bytes += n
	return n
}

func (s *stream) start(m sdk.Message) {
	s.id, s.model = m.ID, m.Model
	s.usage.merge(messageUsage(m.Usage))
}

// startBlock opens a block. Compatible servers put the first piece, or all of it, in here.
func (s *stream) startBlock(index int64, b sdk.ContentBlockStartEventContentBlockUnion) int {
	delete(s.calls, index)
	p := s.newPart(index, b.Type)
	p.signature, p.data, p.id, p.name = b.Signature, b.Data, b.ID, b.Name
	switch b.Type {
	case typeThinking:
		p.text.WriteString(b.Thinking)
	case "text":
		p.text.WriteString(b.Text)
	case "tool_use":
		p.input = inputText(b.JSON.Input.Raw())
	}
	return p.text.Len() + len(p.input)
}

func (s *stream) newPart(index int64, kind string) *part {
	if s.open == nil {
		s.open, s.calls = map[int64]*part{}, map[int64]*part{}
	}
	p := &part{kind: kind}
	s.open[index] = p
	if kind == "tool_use" {
		s.calls[index] = p
	}
	s.parts = append(s.parts, p)
	return p
}

func (s *stream) delta(index int64, d sdk.MessageStreamEventUnionDelta) int {
	var kind, text string
	switch d.Type {
	case "text_delta":
		kind, text = "text", d.Text
	case "thinking_delta":
		kind, text = typeThinking, d.Thinking
	case "signature_delta":
		kind = typeThinking
	case "input_json_delta":
		kind, text = "tool_use", d.PartialJSON
	default:
		return 0 // Citations are not asked for.
	}
	p := s.open[index]
	if kind == "tool_use" {
		p = s.calls[index]
	}
	switch {
	case kind == "tool_use" && p == nil:
		return 0 // The arguments of a tool that runs at the provider, or of a call that was never begun.
	case p == nil || p.kind != kind:
		p = s.newPart(index, kind)
	}
	p.text.WriteString(text)
	p.signature += d.Signature
	return len(text)
}

func (s *stream) finish(ev sdk.MessageStreamEventUnion) {
	if ev.Delta.StopReason != "" {
		s.stop = ev.Delta.StopReason
	}
	if ev.Delta.StopDetails.Explanation != "" {
		s.refusal = ev.Delta.StopDetails.Explanation
	}
	u := ev.Usage
	s.usage.merge(counts(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens, u.RawJSON()))
	s.counted = s.counted || u.OutputTokens > 0
}

// complete tells whether the reply is whole: some compatible servers give a stop reason and never message_stop.
func (s *stream) complete() bool { return s.ended || s.stop != "" }
