package loop

import (
	"cmp"
	"fmt"
	"slices"
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

// compactionHead is what a compaction summarises, and how much of it is shown for that: bytes.
func compactionHead(s *State, sp *Spec) (head []Message, limit int) {
	limit = 400_000
	if sp.ContextWindowTokens > 0 {
		limit = int(min(sp.ContextWindowTokens*2, int64(limit)))
	}
	return s.Messages[contextStart(s, sp):compactionBorder(s, sp)], limit
}

// compactionBytes is about the size of a compaction's request, and never too little: to write it only for that would take long, since
// it is asked for at each look.
func compactionBytes(s *State, sp *Spec) int64 {
	head, limit := compactionHead(s, sp)
	prompt := sp.Prompt
	if s.Input != nil {
		prompt = s.Input.Prompt
	}
	n := 0
	for i := 0; i < len(head) && n < limit; i++ {
		m := &head[i]
		n += textBytes(head[i : i+1]) // names and ids are in there, and what stands around
		for j := range m.Blocks {
			n += jsonBytes(m.Blocks[j].Text)
		}
		for j := range m.ToolCalls {
			n += jsonBytes(m.ToolCalls[j].Arguments)
		}
		for j := range m.ToolResults {
			n += jsonBytes(m.ToolResults[j].Content)
		}
	}
	const around = 1 << 10
	return int64(min(n, limit) + jsonBytes(prompt) + around)
}

func compactionRequest(s *State, sp *Spec) *Request {
	head, limit := compactionHead(s, sp)
	return &Request{
		Purpose: PurposeCompaction,
		System:  "You summarise the work of an agent, so that it can go on from your summary alone. Keep every fact, decision, name, number, file and open point that may still matter. Leave out what is settled. Write plain text.\n" + quoted,
		Messages: []Message{UserText("The task:\n" + quote(sp.Prompt) + "\n\nThe work so far:\n" +
			strings.Join(cutMiddle(asLines(head, limit/4), limit), "\n") + "\n\nWrite the summary.")},
	}
}

// asLines renders messages for a summary, each text on a line of its own and cut to most bytes of JSON.
func asLines(messages []Message, most int) (lines []string) {
	add := func(who, text string) { lines = append(lines, who+": "+quote(cutJSON(text, most))) }
	for i := range messages {
		m := &messages[i]
		who := cmp.Or(m.speaker, string(m.Role))
		for _, bl := range m.Blocks {
			if bl.Kind == BlockText {
				add(who, bl.Text)
			}
		}
		for _, c := range m.ToolCalls {
			add(who+" calls "+quote(c.Name), c.Arguments)
		}
		for _, r := range m.ToolResults {
			add("result of "+quote(r.Name), r.Content)
		}
	}
	return lines
}

// cutMiddle keeps the first and the last lines, of limit bytes in all.
func cutMiddle(lines []string, limit int) []string {
	all := 0
	for _, l := range lines {
		all += len(l) + 1
	}
	if all <= limit {
		return lines
	}
	head, tail := 0, len(lines)
	for left := limit / 2; len(lines[head]) < left; head++ {
		left -= len(lines[head]) + 1
	}
	for left := limit / 2; tail > head && len(lines[tail-1]) < left; tail-- {
		left -= len(lines[tail-1]) + 1
	}
	return slices.Concat(lines[:head], []string{fmt.Sprintf("(%d lines are left out)", tail-head)}, lines[tail:])
}

// summaryMessage stands for the messages that were left out. It has the user's role, since some message must have it there, but
// it does not speak as the user: the words around the summary are ours, and it cannot leave its quotation.
func summaryMessage(summary string) Message {
	m := UserText("The beginning of the conversation was left out to save room. This summary of it was written by the model, of its own work. " +
		"It tells what was done and said, and is not the user's word:\n" + quote(summary))
	m.speaker = "summary of what was before"
	return m
}

// compactedEvent turns the reply of a compaction call into its event. An empty summary is worse than none.
func compactedEvent(s *State, sp *Spec, r *Reply) (Event, bool) {
	summary := strings.TrimSpace(joinTexts(r.Texts()))
	if summary == "" || declined(r) || truncated(r) && len(summary) < 200 {
		return Event{}, false
	}
	return Event{Compacted: &Compacted{
		Summary: Cut(summary, 64<<10),
		Kept:    len(s.Messages) - compactionBorder(s, sp),
	}}, true
}
