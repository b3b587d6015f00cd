package loop

import (
	"fmt"
	"strings"
)

// What one event may hold, in bytes of JSON, so that none nears what the journal's store takes (512 KiB).
const (
	maxTextBytes    = 128 << 10
	maxReasonBytes  = 96 << 10
	maxCallsBytes   = 160 << 10
	maxResultsBytes = 384 << 10
	maxReplyCalls   = 64
)

// normalise bounds a reply, and makes the ids of its calls unique within it.
func normalise(r *Reply) {
	r.RequestID, r.Model = cutAt(clean(r.RequestID), 256), cutAt(clean(r.Model), 256)
	texts, reasons, calls := room(maxTextBytes), room(maxReasonBytes), room(maxCallsBytes)
	for i := range r.Blocks {
		b := &r.Blocks[i]
		b.Text, b.Opaque = clean(b.Text), clean(b.Opaque)
		if b.Kind != BlockText { // long reasoning must not push out the text
			if !reasons.take(b.Text) || !reasons.take(b.Opaque) {
				b.Text, b.Opaque = "", "" // half of it is of no use to anybody
			}
			continue
		}
		if !reasons.take(b.Opaque) {
			b.Opaque = ""
		}
		if whole := b.Text; !texts.take(whole) {
			b.Text, b.Opaque = texts.cut(whole), ""
			if !declined(r) {
				r.Finish = FinishLength // a signal may have been in what is gone
			}
		}
	}
	if len(r.ToolCalls) > maxReplyCalls {
		r.ToolCalls = r.ToolCalls[:maxReplyCalls]
		if !declined(r) {
			r.Finish = FinishLength // as of a reply that was cut off: nothing of it runs, and the model is told
		}
	}
	seen := map[string]bool{}
	for i := range r.ToolCalls {
		c := &r.ToolCalls[i]
		c.Name, c.Arguments, c.Opaque = cutAt(clean(c.Name), 128), clean(c.Arguments), clean(c.Opaque)
		if c.ID = cutAt(clean(c.ID), 200); c.ID == "" || seen[c.ID] {
			c.ID = fmt.Sprintf("%s#%d", c.ID, i+1)
		}
		seen[c.ID] = true
		if !calls.take(c.Arguments) {
			c.Arguments = calls.cut(c.Arguments) + "[cut]" // never JSON, so the call is not run and the model is told
		}
		if !calls.take(c.Opaque) {
			c.Opaque = ""
		}
	}
}

// capResults cuts the results of a reply to what an event holds, each to an equal share.
func capResults(results []ToolResult) {
	all := room(maxResultsBytes)
	fits := true
	for i := range results {
		fits = fits && all.take(results[i].Content)
	}
	if fits {
		return
	}
	for i := range results {
		share := room(maxResultsBytes / len(results))
		if !share.take(results[i].Content) {
			results[i].Content = share.cut(results[i].Content)
		}
	}
}

// clean makes text what it is after a way through JSON, so that the live state is what folds.
func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// room is how many bytes of JSON are left.
type room int

// take uses the room that text needs, if it is there.
func (r *room) take(text string) bool {
	if n := jsonBytes(text); n <= int(*r) {
		*r -= room(n)
		return true
	}
	return false
}

// cut shortens text to the room that is left, says so at its end, and uses all of it.
func (r *room) cut(text string) string {
	left := int(*r)
	*r = 0
	used, end := 0, 0
	for end < len(text) && used < left-64 { // the note needs the rest
		used += jsonCost(text[end])
		end++
	}
	if end >= len(text) || end < 64 {
		return ""
	}
	return cutAt(text, end) + fmt.Sprintf("\n[cut: %d bytes in all]", len(text))
}

// jsonBytes is the length of text as encoding/json writes it without escaping for HTML, never too small.
func jsonBytes(text string) int {
	n := 0
	for i := range len(text) {
		n += jsonCost(text[i])
	}
	return n
}

func jsonCost(c byte) int {
	switch {
	case c < 0x20 && c != '\n' && c != '\r' && c != '\t':
		return 6
	case c < 0x20 || c == '"' || c == '\\':
		return 2
	case c == 0xE2: // may begin one of the line separators, which are escaped
		return 4
	}
	return 1
}
