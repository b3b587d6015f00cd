package gemini

import (
	"slices"

	"google.golang.org/genai"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// stream puts a reply together from its chunks. An answer in one piece is a stream of one chunk.
type stream struct {
	id, model string
	blocks    []block
	calls     []pendingCall
	// broken: the next text begins a new block, because a call came in between.
	broken bool
	finish genai.FinishReason
	usage  loop.Usage
	// blocked: the prompt itself was refused, and there will be no candidate.
	blocked bool
	chunks  int
	bytes   int
}

// block is one block as it grows.
type block struct {
	kind loop.BlockKind
	text []byte
	mark blockMark
}

// signedEnd is where the last signed range ends.
func (b *block) signedEnd() int {
	if n := len(b.mark.Signed); n > 0 {
		return b.mark.Signed[n-1].To
	}
	return 0
}

// apply takes one chunk and returns how many bytes of text, reasoning and arguments it brought.
func (s *stream) apply(r *genai.GenerateContentResponse) int {
	if r.ResponseID != "" {
		s.id = r.ResponseID
	}
	if r.ModelVersion != "" {
		s.model = r.ModelVersion
	}
	s.usage = mergeUsage(s.usage, toUsage(r.UsageMetadata))
	n := 0
	if len(r.Candidates) > 0 && r.Candidates[0] != nil { // Only one candidate is ever asked for.
		c := r.Candidates[0]
		if c.Content != nil {
			for _, p := range c.Content.Parts {
				n += s.part(p)
			}
		}
		if c.FinishReason != "" && c.FinishReason != genai.FinishReasonUnspecified {
			s.finish = c.FinishReason
		}
	}
	f := r.PromptFeedback
	s.blocked = s.blocked || f != nil && f.BlockReason != "" && f.BlockReason != genai.BlockedReasonUnspecified
	if len(r.Candidates) > 0 || r.UsageMetadata != nil || f != nil {
		s.chunks++
	}
	s.bytes += n
	return n
}

// part takes one part. Kinds that are never asked for (code, files) are passed over.
func (s *stream) part(p *genai.Part) int {
	switch {
	case p == nil:
		return 0
	case p.FunctionCall != nil:
		call := pendingCall{
			id: p.FunctionCall.ID, name: p.FunctionCall.Name, args: argumentsText(p.FunctionCall.Args),
			signature: p.ThoughtSignature, after: len(s.blocks),
		}
		s.calls, s.broken = append(s.calls, call), true
		return len(call.args)
	case p.Text != "" || len(p.ThoughtSignature) > 0:
		s.text(p)
	}
	return len(p.Text)
}

// text adds a piece to the last block, or begins one. A signature that comes with no text of its own, as it does at the
// end of a stream, is that of the text before it: an empty part could not be sent back.
func (s *stream) text(p *genai.Part) {
	kind := loop.BlockText
	if p.Thought {
		kind = loop.BlockReasoning
	}
	n := len(s.blocks)
	if p.Text == "" {
		if n == 0 || s.broken {
			return
		}
		last := &s.blocks[n-1]
		last.sign(last.signedEnd(), p.ThoughtSignature)
		return
	}
	if n == 0 || s.broken || s.blocks[n-1].kind != kind {
		s.blocks, s.broken = append(s.blocks, block{kind: kind}), false
		n++
	}
	last := &s.blocks[n-1]
	from := len(last.text)
	last.text = append(last.text, p.Text...)
	last.sign(from, p.ThoughtSignature)
}

// sign marks everything from a place on as one signed part.
func (b *block) sign(from int, signature []byte) {
	if len(signature) > 0 && from < len(b.text) {
		b.mark.Signed = append(b.mark.Signed, signed{From: from, To: len(b.text), Signature: signature})
	}
}

// complete tells whether the reply is whole.
func (s *stream) complete() bool { return s.finish != "" }

// reply builds what arrived. The calls of a chunk are always whole.
func (s *stream) reply() *loop.Reply {
	r := &loop.Reply{Usage: s.usage, Model: s.model, RequestID: s.id}
	places := s.split(r)
	calls := func() []loop.ToolCall { return toCalls(s.calls, s.id, places, len(r.Blocks)) }
	if !s.complete() {
		r.ToolCalls = calls()
		r.Usage = estimateRest(s.usage, s.bytes)
		return r
	}
	if note, ok := discarded[s.finish]; ok {
		r.Blocks = append(r.Blocks, loop.Block{Kind: loop.BlockReasoning, Text: note, Opaque: encodeMark(blockMark{Note: true})})
	} else {
		r.ToolCalls = calls()
	}
	r.Finish = finishReason(s.finish, len(r.ToolCalls) > 0)
	return r
}

// split puts the blocks into r, thoughts apart from text, and returns how many of them came before each of the stream's blocks, and
// before its end. A block that is signed goes back as it came.
func (s *stream) split(r *loop.Reply) (places []int) {
	blocks := make([]loop.Block, len(s.blocks))
	for i, b := range s.blocks {
		blocks[i] = loop.Block{Kind: b.kind, Text: string(b.text)}
		if len(b.mark.Signed) > 0 {
			blocks[i].Opaque = encodeMark(b.mark)
		}
	}
	for i, split := range model.SplitThoughts(blocks) {
		places = append(places, len(r.Blocks))
		if m := s.blocks[i].mark; len(m.Signed) > 0 && !slices.Contains(split, blocks[i]) {
			split = asItCame(split, blocks[i].Text, m)
		}
		r.Blocks = append(r.Blocks, split...)
	}
	return append(places, len(r.Blocks))
}

// asItCame marks what a signed block was split into, so that the whole goes back in the place of its first text.
func asItCame(split []loop.Block, whole string, m blockMark) []loop.Block {
	m.Whole = whole
	at := slices.IndexFunc(split, func(b loop.Block) bool { return b.Kind == loop.BlockText })
	if at < 0 {
		return append(split, loop.Block{Kind: loop.BlockReasoning, Opaque: encodeMark(m)})
	}
	for i := range split {
		split[i].Opaque = encodeMark(blockMark{Within: true})
	}
	split[at].Opaque = encodeMark(m)
	return split
}
