package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// delta is a piece of a reply: one choice of one chunk, or the whole of a plain reply.
type delta struct {
	text, reasoning, refusal string
	calls                    []fragment
	finish                   string
}

// fragment is a piece of one tool call.
type fragment struct {
	index                  int64
	unindexed              bool // it came without an index, so this is its place among its neighbours
	id, name, args, opaque string
}

// size is what onBytes counts.
func (d delta) size() int {
	n := len(d.text) + len(d.reasoning) + len(d.refusal)
	for _, c := range d.calls {
		n += len(c.args)
	}
	return n
}

// assembler puts a reply together.
type assembler struct {
	// newID makes an id for a call that came without one.
	newID func() string

	order     []loop.BlockKind
	text      map[loop.BlockKind]*strings.Builder
	calls     []*call
	latest    map[int64]*call // by index
	usage     loop.Usage
	finish    string
	started   bool // a choice was seen, be it empty
	completed bool // the stream said that it is over
	id, model string
	// sent is the cap that the request carried on the reply's tokens, 0 for none.
	sent int64
}

type call struct {
	id, name, opaque string
	args             strings.Builder
}

func newAssembler(newID func() string) *assembler {
	return &assembler{newID: newID, text: map[loop.BlockKind]*strings.Builder{}, latest: map[int64]*call{}}
}

// add takes the next piece.
func (a *assembler) add(d delta) {
	a.started = true
	// One block a kind: content is one string in this API, however it is interleaved in the stream.
	a.write(loop.BlockReasoning, d.reasoning)
	a.write(loop.BlockText, d.text)
	a.write(loop.BlockRefusal, d.refusal)
	for _, f := range d.calls {
		a.addCall(f)
	}
	if d.finish != "" {
		a.finish = d.finish
	}
}

func (a *assembler) write(kind loop.BlockKind, text string) {
	if text == "" {
		return
	}
	b := a.text[kind]
	if b == nil {
		b = &strings.Builder{}
		a.text[kind] = b
		a.order = append(a.order, kind)
	}
	b.WriteString(text)
}

func (a *assembler) addCall(f fragment) {
	c := a.callOf(f)
	if c == nil || beginsNext(c, f) {
		c = &call{}
		a.calls = append(a.calls, c)
	}
	a.latest[f.index] = c
	if repeats(c, f) {
		return
	}
	if c.id == "" {
		c.id = f.id
	}
	// Some servers repeat the name in every fragment; others cut it in pieces before the arguments begin, or send it after them.
	if f.name != c.name && (c.args.Len() == 0 || c.name == "") {
		c.name += f.name
	}
	if f.opaque != "" {
		c.opaque = f.opaque
	}
	// Some servers begin with the arguments {} and then send the real ones.
	if f.args != "" && c.args.String() == "{}" {
		c.args.Reset()
	}
	c.args.WriteString(f.args)
}

// callOf is the call that a fragment may go on with, nil for none: the latest of its index, or that of its id where it came without an
// index. Some servers send arguments alone under another index than the call that they belong to.
func (a *assembler) callOf(f fragment) *call {
	if f.unindexed && f.id != "" {
		for _, c := range slices.Backward(a.calls) {
			if c.id == f.id {
				return c
			}
		}
	}
	c := a.latest[f.index]
	switch {
	case c == nil && f.id == "" && f.name == "" && len(a.calls) > 0:
		return a.calls[len(a.calls)-1]
	case c != nil && c.name == "" && f.unindexed && f.id != "" && c.id != "":
		return nil // the arguments of another call, which will have its name later
	}
	return c
}

// beginsNext tells whether a fragment is another call, though its index was used: some servers send every call as index 0, some
// under one id too. One without a name goes on with the call, whatever its id: other servers make up an id for every fragment.
func beginsNext(c *call, f fragment) bool {
	args := c.args.String()
	switch {
	case f.name == "" || c.name == "":
		return false
	case f.id != "" && c.id != "" && f.id != c.id:
		return true
	case args == "":
		return f.id != "" && c.id != "" && f.name != c.name && f.args != "" // else it is a piece of the name
	case f.id != "" && f.name == c.name && (args == "{}" || f.args == ""):
		return false
	}
	return json.Valid([]byte(args)) && !repeats(c, f)
}

// repeats tells whether a fragment is a whole call that is there already: some servers close a stream of fragments with it.
func repeats(c *call, f fragment) bool {
	args := c.args.String()
	return f.id != "" && f.id == c.id && f.name == c.name && f.args == args && args != "" && json.Valid([]byte(args))
}

// reply is what was put together so far. With whole false it broke off: its tool calls are left out, because a call whose
// arguments are cut must never run.
func (a *assembler) reply(whole bool) *loop.Reply {
	r := &loop.Reply{Usage: a.usage, RequestID: a.id, Model: a.model}
	for _, kind := range a.order {
		r.Blocks = append(r.Blocks, loop.Block{Kind: kind, Text: a.text[kind].String()})
	}
	r.Blocks = slices.Concat(model.SplitThoughts(r.Blocks)...)
	if !whole {
		return r
	}
	used := map[string]bool{}
	for _, c := range a.calls {
		if c.id == "" || used[c.id] {
			c.id = a.newID()
		}
		used[c.id] = true
		r.ToolCalls = append(r.ToolCalls, loop.ToolCall{ID: c.id, Name: c.name, Arguments: c.args.String(), Opaque: c.opaque})
	}
	r.Finish = finishReason(a.finish, len(a.calls) > 0, a.text[loop.BlockRefusal] != nil)
	return r
}

// finishReason maps the provider's word. Servers that say "stop" beside tool calls mean tool calls.
func finishReason(word string, calls, refused bool) loop.FinishReason {
	switch word {
	case "length", "max_tokens", "model_length":
		return loop.FinishLength
	case "content_filter":
		return loop.FinishContentFilter
	}
	switch {
	case calls:
		return loop.FinishToolCalls
	case refused:
		return loop.FinishRefusal
	}
	return loop.FinishStop
}

// brokenOff are finish reasons by which a server says that it failed within the reply.
var brokenOff = map[string]bool{
	"error":                        true, // OpenRouter
	"abort":                        true, // vLLM
	"insufficient_system_resource": true, // DeepSeek
}
