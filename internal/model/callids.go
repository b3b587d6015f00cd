package model

import (
	"fmt"
	"slices"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// UniqueCallIDs gives a conversation in which no two tool calls have one id: many servers make an id of its own for the calls of one reply
// only, and others refuse a conversation in which one comes twice. Each result stays with its call. An id that is unique stays as
// it came, since some servers know it again. The messages that were given are not changed.
func UniqueCallIDs(messages []loop.Message) []loop.Message {
	used := map[string]bool{}
	for _, m := range messages {
		for _, c := range m.ToolCalls {
			used[c.ID] = true
		}
	}
	out, times := slices.Clone(messages), map[string]int{} // how often each id came
	var now map[string]string                              // the ids that those of the last reply with calls are sent as
	for i := range out {
		m := &out[i]
		if len(m.ToolCalls) > 0 {
			m.ToolCalls, now = slices.Clone(m.ToolCalls), map[string]string{}
			for j := range m.ToolCalls {
				c := &m.ToolCalls[j]
				id := c.ID
				for again := times[c.ID] > 0; again; again = used[id] {
					times[c.ID]++
					id = fmt.Sprintf("%s_%d", c.ID, times[c.ID])
				}
				times[c.ID] = max(times[c.ID], 1)
				now[c.ID], c.ID, used[id] = id, id, true
			}
		}
		if len(m.ToolResults) > 0 {
			m.ToolResults = slices.Clone(m.ToolResults)
			for j := range m.ToolResults {
				if id, ok := now[m.ToolResults[j].CallID]; ok {
					m.ToolResults[j].CallID = id
				}
			}
		}
	}
	return out
}
