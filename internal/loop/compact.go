package loop

import (
	"fmt"
	"strings"
)

// A conversation is compacted once its estimated size passes this part of the context window, so that a reply still fits, or once it
// has maxConversationBytes.
const compactAt, compactOf = 4, 5

// keptTurns is how many of the last turns a compaction leaves as they are, at the most.
const keptTurns = 3

func needsCompaction(s *State, sp *Spec) bool {
	if s.compactions > 0 || !canCompact(s, sp) {
		return false
	}
	if s.heldBytes > maxConversationBytes && textBytes(s.Messages[contextStart(s, sp):]) > maxConversationBytes {
		return true
	}
	if sp.ContextWindowTokens <= 0 {
		return false
	}
	est := s.calibration.estimate(requestBytes(s, sp, PurposeTurn))
	return est > sp.ContextWindowTokens*compactAt/compactOf
}

func canCompact(s *State, sp *Spec) bool { return compactionBorder(s, sp) > 0 }

// contextStart is the index of the first message that the model is shown.
func contextStart(s *State, sp *Spec) int {
	if sp.Fresh {
		return s.chainStart
	}
	return 0
}

// compactionBorder is the number of messages at the head that a summary may replace. What stays begins with an assistant
// message, so that a call is never parted from its result; the last turns stay, and what a human was asked and said.
//
// Once the provider has found the conversation too long, only the last turn stays: the ones before it may be what is too
// long, and all that came before the last turn did fit, for the model replied to it.
func compactionBorder(s *State, sp *Spec) int {
	most := keptTurns
	if s.overflowed {
		most = 1
	}
	for kept := most; kept >= 1; kept-- {
		if border := lastTurns(s.Messages, kept); border > contextStart(s, sp)+1 {
			return border
		}
	}
	return 0
}

// lastTurns is the index at which the last n assistant messages begin.
func lastTurns(messages []Message, n int) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role != RoleAssistant {
			continue
		}
		if n--; n == 0 {
			return i
		}
	}
	return 0
}

func compactionRequest(s *State, sp *Spec) *Request {
	head := s.Messages[contextStart(s, sp):compactionBorder(s, sp)]
	limit := 400_000 // bytes
	if sp.ContextWindowTokens > 0 {
		limit = int(min(sp.ContextWindowTokens*2, int64(limit)))
	}
	return &Request{
		Purpose: PurposeCompaction,
		System:  "You summarise the work of an agent, so that it can go on from your summary alone. Keep every fact, decision, name, number, file and open point that may still matter. Leave out what is settled. Write plain text.",
		Messages: []Message{UserText("The task:\n" + sp.Prompt + "\n\nThe work so far:\n" + cutMiddle(asText(head), limit) +
			"\n\nWrite the summary.")},
	}
}

// asText renders messages for a summary.
func asText(messages []Message) string {
	var b strings.Builder
	for i := range messages {
		m := &messages[i]
		for _, bl := range m.Blocks {
			if bl.Kind == BlockText {
				fmt.Fprintf(&b, "%s: %s\n", m.Role, bl.Text)
			}
		}
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, "%s calls %s %s\n", m.Role, c.Name, c.Arguments)
		}
		for _, r := range m.ToolResults {
			fmt.Fprintf(&b, "result of %s: %s\n", r.Name, r.Content)
		}
	}
	return b.String()
}

// cutMiddle keeps the beginning and the end of text.
func cutMiddle(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head := cutAt(text, limit/2)
	tail := text[len(text)-limit/2:]
	if i := strings.IndexByte(tail, '\n'); i >= 0 {
		tail = tail[i+1:]
	}
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s", head, len(text)-len(head)-len(tail), strings.ToValidUTF8(tail, ""))
}

// compactedEvent turns the reply of a compaction call into its event. An empty summary is worse than none.
func compactedEvent(s *State, sp *Spec, r *Reply) (Event, bool) {
	summary := strings.TrimSpace(joinTexts(r.Texts()))
	if summary == "" || declined(r) || truncated(r) && len(summary) < 200 {
		return Event{}, false
	}
	return Event{Compacted: &Compacted{
		Summary: "Summary of the work so far (earlier messages were left out to save room):\n" + Cut(summary, 64<<10),
		Kept:    len(s.Messages) - compactionBorder(s, sp),
	}}, true
}
