package loop

import (
	"fmt"
	"strings"
)

// What one event may hold, in bytes of JSON, so that none passes what the journal's store takes (512 KiB). The number of
// blocks and calls is bounded because each takes some 50 bytes beside its text. The result that satisfies an output schema stands
// in the reply's event once more, and takes twice MaxOutputBytes at the most.
const (
	maxTextBytes    = 128 << 10
	maxReasonBytes  = 88 << 10
	maxCallsBytes   = 160 << 10
	maxNamesBytes   = 36 << 10  // of all calls, with their ids: the longest ones in plain letters have room
	maxResultsBytes = 320 << 10 // the agent's list may be in the same event
	maxReasonGiven  = 4 << 10   // of a denial, which the result of each denied call repeats
	maxPromptBytes  = 256 << 10 // with the instructions: both at their longest, unless they are full of control characters
	maxReplyBlocks  = 512
	maxReplyCalls   = 64
)

// promptBytes is what the spec's own texts take in the first event of a journal.
func promptBytes(sp *Spec) int { return jsonBytes(sp.Prompt) + jsonBytes(sp.Instructions) }

// normalise bounds a reply, and makes the ids of its calls unique within it.
func normalise(r *Reply) {
	r.RequestID, r.Model = cutAt(clean(r.RequestID), 256), cutAt(clean(r.Model), 256)
	normaliseBlocks(r)
	normaliseCalls(r)
}

// lacksPart marks a reply of which a part is gone, as one that was cut off: nothing of it runs, no signal of it counts, and
// the model is told.
func lacksPart(r *Reply) {
	if !declined(r) {
		r.Finish = FinishLength
	}
}

func normaliseBlocks(r *Reply) {
	if len(r.Blocks) > maxReplyBlocks {
		r.Blocks = r.Blocks[:maxReplyBlocks]
		lacksPart(r)
	}
	texts, reasons := room(maxTextBytes), room(maxReasonBytes)
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
			lacksPart(r) // a signal may have been in what is gone
		}
	}
}

func normaliseCalls(r *Reply) {
	if len(r.ToolCalls) > maxReplyCalls {
		r.ToolCalls = r.ToolCalls[:maxReplyCalls]
		lacksPart(r)
	}
	names, calls := room(maxNamesBytes), room(maxCallsBytes)
	seen := map[string]bool{}
	for i := range r.ToolCalls {
		c := &r.ToolCalls[i]
		c.Name, c.Arguments, c.Opaque = cutAt(clean(c.Name), 128), clean(c.Arguments), clean(c.Opaque)
		c.ID = uniqueID(cutAt(Visible(c.ID), 200), i+1, seen)
		if !names.take(c.ID + c.ID + c.Name) { // the id stands in what needs approval as well
			r.ToolCalls = r.ToolCalls[:i]
			lacksPart(r)
			return
		}
		if !calls.take(c.Arguments) {
			c.Arguments = calls.cut(c.Arguments) + "[cut]" // never JSON, so the call is not run and the model is told
		}
		if !calls.take(c.Opaque) {
			c.Opaque = ""
		}
	}
}

// uniqueID is the id itself, or with a number, from n on, that makes it another one than all that were seen.
func uniqueID(id string, n int, seen map[string]bool) string {
	unique := id
	for ; unique == "" || seen[unique]; n++ {
		unique = fmt.Sprintf("%s#%d", id, n)
	}
	seen[unique] = true
	return unique
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
		results[i].Content = cutJSON(results[i].Content, maxResultsBytes/len(results))
	}
}

// cutJSON shortens text to at most limit bytes of JSON, and says so at its end.
func cutJSON(text string, limit int) string {
	left := room(limit)
	if left.take(text) {
		return text
	}
	return left.cut(text)
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
