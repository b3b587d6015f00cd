package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// UniqueCallIDs is the request with an id of its own for each tool call of its conversation, and with each result under the id of
// its call. A call's id is unique within its reply only: some servers count anew in each, and others refuse a conversation in which an
// id stands twice. The first call with an id keeps it, because some servers want their own back. What a call is renamed to depends on
// what came before it alone, so that the next turn's request begins with the same bytes. The request given is not changed.
func UniqueCallIDs(req *loop.Request) *loop.Request {
	ids := callIDs{used: map[string]bool{}, times: map[string]int{}}
	var out *loop.Request
	for i, m := range req.Messages {
		renamed, changed := ids.rename(m)
		if !changed {
			continue
		}
		if out == nil {
			clone := *req
			clone.Messages = slices.Clone(req.Messages)
			out = &clone
		}
		out.Messages[i] = renamed
	}
	return cmp.Or(out, req)
}

type callIDs struct {
	used map[string]bool
	// times counts how often each id came.
	times map[string]int
	// latest are the new ids of the calls of the latest reply that has any, by their old ones, in the order of the calls.
	latest map[string][]string
}

// rename gives a message with its new ids, and tells whether it has any.
func (c *callIDs) rename(m loop.Message) (loop.Message, bool) {
	changed := false
	if len(m.ToolCalls) > 0 {
		c.latest = map[string][]string{}
		m.ToolCalls = slices.Clone(m.ToolCalls)
	}
	for i := range m.ToolCalls {
		old := m.ToolCalls[i].ID
		id := c.unique(old)
		c.latest[old] = append(c.latest[old], id)
		m.ToolCalls[i].ID, changed = id, changed || id != old
	}
	if len(m.ToolResults) > 0 {
		m.ToolResults = slices.Clone(m.ToolResults)
	}
	for i := range m.ToolResults {
		old := m.ToolResults[i].CallID
		ids := c.latest[old]
		if len(ids) == 0 {
			continue
		}
		m.ToolResults[i].CallID, changed = ids[0], changed || ids[0] != old
		if len(ids) > 1 {
			c.latest[old] = ids[1:]
		}
	}
	return m, changed
}

// unique is the id, or one made of it where it was used before.
func (c *callIDs) unique(id string) string {
	out := id
	for out == "" || c.used[out] {
		c.times[id]++
		out = fmt.Sprintf("%s_%d", cmp.Or(id, "call"), c.times[id]+1)
	}
	c.used[out] = true
	return out
}
