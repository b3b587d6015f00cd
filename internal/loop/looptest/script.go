package looptest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// Clock is a clock that stands until it is moved.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock starts on a Monday morning.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)} }

// Now is the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Specs is a spec that is changed while the task runs.
type Specs struct {
	mu      sync.Mutex
	spec    *loop.Spec
	changed chan struct{}
}

// NewSpecs begins with a spec.
func NewSpecs(sp *loop.Spec) *Specs { return &Specs{spec: sp, changed: make(chan struct{})} }

// Spec is the newest.
func (s *Specs) Spec() *loop.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec
}

// Changed is closed by the next Set.
func (s *Specs) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Set changes the spec.
func (s *Specs) Set(sp *loop.Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spec = sp
	close(s.changed)
	s.changed = make(chan struct{})
}

var interrupts = map[string]error{"cancelled": loop.ErrCancelled, "shuttingDown": loop.ErrShuttingDown}

// text is the text of a reply, and for which purpose a model gives it.
func (t *Turn) text() (string, loop.Purpose) {
	for purpose, text := range map[loop.Purpose]*string{
		loop.PurposeTurn: t.Agent, loop.PurposeWrapUp: t.WrapUp, loop.PurposeJudge: t.Judge, loop.PurposeCompaction: t.Summary,
	} {
		if text != nil {
			return strings.Repeat(*text, max(1, t.Long)), purpose
		}
	}
	return "", ""
}

// blocks are the blocks of a reply.
func (t *Turn) blocks() []loop.Block {
	var out []loop.Block
	if t.Reasoning != "" {
		out = append(out, loop.Block{Kind: loop.BlockReasoning, Text: t.Reasoning})
	}
	text, _ := t.text()
	for _, b := range append([]string{text}, t.Blocks...) {
		if b != "" {
			out = append(out, loop.Block{Kind: loop.BlockText, Text: b})
		}
	}
	return out
}

// reply is the whole reply of a turn.
func (t *Turn) reply() *loop.Reply {
	r := &loop.Reply{Blocks: t.blocks(), Finish: loop.FinishStop}
	for i, c := range t.Calls {
		if c.ID == "" {
			c.ID = fmt.Sprintf("call-%d", i+1)
		}
		r.ToolCalls = append(r.ToolCalls, loop.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
		r.Finish = loop.FinishToolCalls
	}
	if t.Finish != "" {
		r.Finish = loop.FinishReason(t.Finish)
	}
	if u := t.Usage; u != nil {
		r.Usage = loop.Usage{InputTokens: u.Input, OutputTokens: u.Output, TotalTokens: u.Total}
	}
	return r
}

// callIDs are the ids by which the loop runs the calls of a reply: those that were used before in it get their number, or
// the next one that is not taken.
func callIDs(calls []Call) []string {
	ids, used := make([]string, len(calls)), map[string]bool{}
	for i, c := range calls {
		id := c.ID
		if id == "" {
			id = fmt.Sprintf("call-%d", i+1)
		}
		ids[i] = id
		for n := i + 1; used[ids[i]]; n++ {
			ids[i] = fmt.Sprintf("%s#%d", id, n)
		}
		used[ids[i]] = true
	}
	return ids
}

// stream hands the text on in chunks until ctx ends, and gives what got through.
func stream(ctx context.Context, blocks []loop.Block, chunk int, onBytes func(int)) []loop.Block {
	var out []loop.Block
	for _, b := range blocks {
		text := b.Text
		b.Text = ""
		for text != "" && ctx.Err() == nil {
			n := len(text)
			if chunk > 0 {
				n = min(n, chunk)
			}
			b.Text += text[:n]
			text = text[n:]
			onBytes(n)
		}
		out = append(out, b)
	}
	return out
}

// requestText is all text of a request, by which Sees looks.
func requestText(r *loop.Request) string {
	var b strings.Builder
	b.WriteString(r.System)
	for _, m := range r.Messages {
		for _, block := range m.Blocks {
			fmt.Fprintf(&b, "\n%s: %s", m.Role, block.Text)
		}
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, "\n%s calls %s %s", m.Role, c.Name, c.Arguments)
		}
		for _, res := range m.ToolResults {
			fmt.Fprintf(&b, "\n%s: %s", m.Role, res.Content)
		}
	}
	return b.String()
}
