package model

import (
	"encoding/json"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// maxThoughts bounds the thoughts and texts that a reply is taken apart into. An honest one has a few. What follows is thought.
const maxThoughts = 256

// SplitThoughts takes what a model thought out of the text blocks of one reply, and returns what each block becomes, maybe nothing.
// Servers without a reasoning parser leave the thoughts in the text, between marks that differ by model, and what a model thinks is no
// part of its answer. A block of another kind stays as it is, and so does one without marks, with its Opaque. What holds nothing is
// left out.
//
// Thoughts that nothing closes reach to the end of the reply. A mark that closes what nothing opened makes a thought of all that
// came before it: many chat templates give the opening mark to the model. A mark in inline code, in a fenced block or in a reply that
// is JSON is only spoken of. Where that cannot be told for sure, a signal before the mark decides against it: a task that goes on for
// one more turn is better than one that ends by what its agent only thought of.
func SplitThoughts(blocks []loop.Block) [][]loop.Block {
	var text strings.Builder
	var s splitter
	for _, b := range blocks {
		if b.Kind == loop.BlockText {
			text.WriteString(b.Text)
			s.ends = append(s.ends, text.Len())
		}
	}
	s.text = text.String()
	pieces := s.split()
	out := make([][]loop.Block, len(blocks))
	from := 0
	for i, b := range blocks {
		switch {
		case b.Text == "" && b.Opaque == "":
		case b.Text == "" || b.Kind != loop.BlockText:
			out[i] = []loop.Block{b}
		default:
			out[i], pieces = cutBlock(b, from, s.text, pieces)
			from += len(b.Text)
		}
	}
	return out
}

// piece is a range of a reply's text between marks, in bytes.
type piece struct {
	from, to int
	thought  bool
}

// cutBlock gives what the block that begins at from becomes, and the pieces that reach beyond it.
func cutBlock(b loop.Block, from int, text string, pieces []piece) ([]loop.Block, []piece) {
	to := from + len(b.Text)
	var out []loop.Block
	for ; len(pieces) > 0; pieces = pieces[1:] {
		p := pieces[0]
		lo, hi := max(p.from, from), min(p.to, to)
		if lo == from && hi == to && !p.thought {
			return []loop.Block{b}, pieces
		}
		if part := text[min(lo, hi):hi]; strings.TrimSpace(part) != "" {
			kind := loop.BlockReasoning
			if !p.thought {
				kind = loop.BlockText
				if lo == p.from && lo > 0 {
					part = strings.TrimLeft(part, "\r\n")
				}
			}
			out = append(out, loop.Block{Kind: kind, Text: part})
		}
		if p.to > to {
			break
		}
	}
	return out, pieces
}

// splitter goes through the text of a reply once, mark by mark.
type splitter struct {
	text string
	ends []int // of the blocks
	out  []piece
	// from is where the piece begins that is being read, and thought what it is.
	from    int
	thought bool
	// channels: the reply has marks of channels, whose messages end by marks of their own. channel: the thought is such a message.
	channels, channel bool
	// answer: the answer began by a mark of its own.
	answer bool
	// signalled: a text before from holds a signal. signal is where the next one from there on is.
	signalled bool
	signal    int
	lines     lineReader
}

func (s *splitter) split() []piece {
	if json.Valid([]byte(s.text)) {
		return []piece{{to: len(s.text)}}
	}
	s.lines = newLineReader(s.text, s.ends)
	s.signal = -1
	if n := strippedChannel(s.text); n > 0 {
		s.begin(n, true)
		if final := strings.Index(s.text, strippedFinal); final > 0 {
			s.end(final)
			s.begin(final+len(strippedFinal), false)
		}
	}
	for at := s.from; len(s.out) < maxThoughts; {
		m, ok := nextMark(s.text, at)
		if !ok {
			break
		}
		at = m.to
		s.take(m)
	}
	s.thought = s.thought || len(s.out) >= maxThoughts
	s.end(len(s.text))
	return s.out
}

// take decides about one mark.
func (s *splitter) take(m mark) {
	s.lines.seek(m.from)
	if s.lines.inline(m.from) {
		return
	}
	told := s.thought || s.signals(m.from)
	switch m.kind {
	case markOpen, markChannel:
		doubtful := quoted(s.text, m) || m.kind == markOpen && told && !s.lines.begins(m.from)
		if s.lines.fenced(m) || doubtful && !s.thought {
			return
		}
		s.channels = s.channels || m.kind == markChannel
		s.open(m)
	case markClose, markFinal:
		fenced, quoted := s.lines.fenced(m), quoted(s.text, m)
		if fenced && s.lines.opened() || fenced && quoted || (fenced || quoted) && !told {
			return
		}
		s.channels = s.channels || m.kind == markFinal
		s.close(m)
	case markEnd:
		if s.channels && (s.channel || !s.thought) {
			s.close(m)
		}
	case markAnswer:
		if !s.thought && s.from > 0 && strings.TrimSpace(s.text[s.from:m.from]) == "" {
			s.begin(m.to, false)
			s.answer = true
		}
	case markAnswered:
		if s.answer && !s.thought {
			s.end(m.from)
			s.begin(m.to, false)
			s.answer = false
		}
	}
}

// open begins a thought, unless one is open. A channel's also ends the one before.
func (s *splitter) open(m mark) {
	if s.thought && m.kind != markChannel {
		return
	}
	s.end(m.from)
	s.begin(m.to, true)
	s.channel = m.kind == markChannel
}

// close ends a thought. Where none is open, all before was one, unless the mark only ends a message.
func (s *splitter) close(m mark) {
	if s.thought || m.kind == markEnd {
		s.end(m.from)
	} else {
		s.out, s.signalled = []piece{{to: m.from, thought: true}}, false
	}
	s.begin(m.to, false)
}

// end ends the piece that is being read.
func (s *splitter) end(at int) {
	if !s.thought {
		s.signalled = s.signals(at)
	}
	if s.from < at {
		s.out = append(s.out, piece{from: s.from, to: at, thought: s.thought})
	}
}

func (s *splitter) begin(at int, thought bool) {
	s.from, s.thought, s.channel = at, thought, false
	s.lines.restart(at)
}

// signals tells whether the texts before a place hold what may be a signal.
func (s *splitter) signals(at int) bool {
	if s.signalled || s.thought {
		return s.signalled
	}
	if s.signal < s.from {
		s.signal = nextSignal(s.text, s.from)
	}
	return s.signal < at
}
