package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// opaquePrefix marks what this package wrote: another provider's marks would be refused by the API.
const opaquePrefix = "anthropic:"

// The kinds of content that the API wants back unchanged.
const (
	typeThinking = "thinking"
	typeRedacted = "redacted_thinking"
)

// blockMark is what a reasoning block needs beside its text to be sent back.
type blockMark struct {
	Type      string `json:"type"`
	Signature string `json:"signature,omitempty"`
	// Data is the encrypted content of redacted thinking.
	Data string `json:"data,omitempty"`
	// Bytes is the length of the text that was signed. A text of another length was cut on the way (the journal limits
	// what it stores), and its signature would be refused.
	Bytes int `json:"bytes,omitempty"`
}

// callMark is where a call stood among the reply's blocks. Only calls that are followed by a block carry one.
type callMark struct {
	// After is the number of blocks before the call.
	After int `json:"after"`
}

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

// reasoningMark returns the mark of a block that can be sent back, and false for all others.
func reasoningMark(b loop.Block) (blockMark, bool) {
	var m blockMark
	if b.Kind != loop.BlockReasoning || !decodeMark(b.Opaque, &m) {
		return m, false
	}
	switch m.Type {
	case typeThinking:
		return m, m.Signature != "" && m.Bytes == len(b.Text)
	case typeRedacted:
		return m, m.Data != ""
	}
	return m, false
}
