package loop

import "slices"

const (
	// maxConversationBytes is the size from which a conversation is compacted, whatever its model's context window: no model takes
	// more, and each call holds it several times in memory.
	maxConversationBytes = 4 << 20
	// maxHeldBytes bounds the conversation that a State holds: one that is to be compacted, and the turn that made it so. Only what no
	// request shows any more can be beyond it, such as the turns before the one that a Fresh context shows.
	maxHeldBytes = maxConversationBytes + 2<<20
)

// HeldBytes is about what a State takes in memory, in bytes: the texts of its conversation, and of what the task is asked.
func (s *State) HeldBytes() int64 {
	n := s.heldBytes + len(s.Output)
	if s.Input != nil {
		n += len(s.Input.Prompt) + len(s.Input.Instructions)
	}
	return int64(n)
}

// say adds a message to the conversation. Past maxHeldBytes the oldest turns go, a quarter at once: each time costs a copy.
func (s *State) say(m Message) {
	s.Messages = append(s.Messages, m)
	if s.heldBytes += textBytes(s.Messages[len(s.Messages)-1:]); s.heldBytes <= maxHeldBytes {
		return
	}
	gone, kept := 0, s.heldBytes
	for i := range s.Messages {
		if s.Messages[i].Role == RoleAssistant { // no result without its call
			gone = i
			if s.heldBytes = kept; kept <= maxHeldBytes*3/4 {
				break
			}
		}
		kept -= textBytes(s.Messages[i : i+1])
	}
	s.Messages = slices.Clone(s.Messages[gone:]) // or the array would keep what is gone
	s.chainStart = max(0, s.chainStart-gone)
}

// textBytes is what the texts of messages take, and about what stands around them.
func textBytes(messages []Message) (n int) {
	for i := range messages {
		m := &messages[i]
		n += 64
		for j := range m.Blocks {
			n += len(m.Blocks[j].Text) + len(m.Blocks[j].Opaque) + 64
		}
		for j := range m.ToolCalls {
			c := &m.ToolCalls[j]
			n += len(c.ID) + len(c.Name) + len(c.Arguments) + len(c.Opaque) + 64
		}
		for j := range m.ToolResults {
			r := &m.ToolResults[j]
			n += len(r.CallID) + len(r.Name) + len(r.Content) + 64
		}
	}
	return n
}

// What a request shows of the log at the most: so many of the last turns, and so many bytes of the last answers.
const shownTurns, shownAnswerBytes = 100, 64 << 10

// unlogged counts the entries that are not in the log any more.
type unlogged struct{ turns, answers int }

// note adds an entry to the log. What no request will show any more goes, many entries at once.
func (s *State) note(e LogEntry) {
	s.Log = append(s.Log, e)
	if len(s.Log) > 8*shownTurns {
		s.Log, s.unlogged = recent(s.Log, s.unlogged, shownTurns+1) // the judge is not shown the last one
	}
}

// recent keeps the last entries of a log: so many turns, and answers of at most shownAnswerBytes. It counts those that are gone.
func recent(log []LogEntry, gone unlogged, turns int) (kept []LogEntry, all unlogged) {
	bytes, full := shownAnswerBytes, false
	for _, e := range slices.Backward(log) {
		switch {
		case e.Answer && (full || len(e.Text) > bytes):
			full = true
			gone.answers++
		case e.Answer:
			bytes -= len(e.Text)
			kept = append(kept, e)
		case turns == 0:
			gone.turns++
		default:
			turns--
			kept = append(kept, e)
		}
	}
	slices.Reverse(kept)
	return kept, gone
}
