package gemini

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// opaquePrefix marks what this package wrote: another provider's marks would be refused by the API.
const opaquePrefix = "gemini:"

// signed is a range of a block's text that the API signed as one part, in bytes. The stream's pieces of one text are put
// together to one block, because a signal must not be torn apart; signed parts must go back as the parts they were.
type signed struct {
	From      int    `json:"from"`
	To        int    `json:"to"`
	Signature []byte `json:"signature"`
}

// blockMark is what a block needs beside its text to be sent back.
type blockMark struct {
	Signed []signed `json:"signed,omitempty"`
	// Note: the block is ours, not the model's, and goes back as text so that the model reads it.
	Note bool `json:"note,omitempty"`
	// Whole is the text that was signed, where thoughts were taken out of it. It goes back in place of the block's own.
	Whole string `json:"whole,omitempty"`
	// Within: the block is a part of such a text.
	Within bool `json:"within,omitempty"`
}

// callMark is what a call needs beside its name and arguments.
type callMark struct {
	Signature []byte `json:"signature,omitempty"`
	// After is the number of blocks before the call, set where a block follows it.
	After *int `json:"after,omitempty"`
	// Made: the API gave no id, ours is unknown to it.
	Made bool `json:"made,omitempty"`
}

func (m callMark) empty() bool { return len(m.Signature) == 0 && m.After == nil && !m.Made }

func encodeMark(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "" // Both marks are plain structs, which always encode.
	}
	return opaquePrefix + string(raw)
}

// decodeMark reads a mark into v and tells whether there was one of this package.
func decodeMark(opaque string, v any) bool {
	raw, ok := strings.CutPrefix(opaque, opaquePrefix)
	return ok && json.Unmarshal([]byte(raw), v) == nil
}

// markOf gives a block's mark. Ranges that do not fit the text any more (the journal limits what it stores) are dropped.
func markOf(b loop.Block) blockMark {
	var m blockMark
	if !decodeMark(b.Opaque, &m) {
		return blockMark{}
	}
	end, text := 0, cmp.Or(m.Whole, b.Text)
	for _, s := range m.Signed {
		if s.From < end || s.To <= s.From || s.To > len(text) {
			return blockMark{Note: m.Note}
		}
		end = s.To
	}
	return m
}

func callMarkOf(c loop.ToolCall) callMark {
	var m callMark
	if !decodeMark(c.Opaque, &m) {
		return callMark{}
	}
	return m
}
