package loop

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// filler are pieces of text by how they grow on the way into JSON.
var filler = []string{"a", "word ", `"`, "\\", "\x01", "\u2028", "\xff", "世", "🙂", "<"}

// anyReply is a reply that no model server would give.
func anyReply(r *rand.Rand) Reply {
	text := func(sizes ...int) string {
		unit, n := filler[r.IntN(len(filler))], sizes[r.IntN(len(sizes))]
		return strings.Repeat(unit, n/len(unit)+1)
	}
	kinds := []BlockKind{BlockText, BlockReasoning, BlockRefusal}
	out := Reply{Finish: FinishStop, RequestID: text(10, 1000), Model: text(10, 1000), Usage: Usage{InputTokens: r.Int64(), OutputTokens: r.Int64()}}
	for n := []int{0, 1, 3, 500, 20_000}[r.IntN(5)]; len(out.Blocks) < n; {
		b := Block{Kind: kinds[r.IntN(len(kinds))], Text: text(1, 1, 20, 300_000/n)}
		if r.IntN(3) == 0 {
			b.Opaque = text(1, 200_000/n)
		}
		out.Blocks = append(out.Blocks, b)
	}
	for n := []int{0, 1, 10, 64, 500}[r.IntN(5)]; len(out.ToolCalls) < n; {
		c := ToolCall{ID: text(1, 20, 300), Name: text(5, 200), Arguments: text(1, 300_000/n), Opaque: text(1, 100_000/n)}
		if r.IntN(5) == 0 {
			c.Name, c.Arguments = ToolTodo, longList
		}
		out.ToolCalls = append(out.ToolCalls, c)
	}
	return out
}

// fullReplies fill all of what is kept: with plain names, with names that JSON makes long, and with a long list.
func fullReplies() []Reply {
	none := strings.Repeat("\x01", 1<<10)
	blocks := slices.Repeat([]Block{{Kind: BlockReasoning, Text: "a", Opaque: "b"}}, maxReplyBlocks-2)
	blocks = append(blocks, Block{Kind: BlockReasoning, Text: strings.Repeat("a", maxReasonBytes-2*maxReplyBlocks)})
	blocks = append(blocks, Block{Kind: BlockText, Text: strings.Repeat("\x01", maxTextBytes/6)})
	args := strings.Repeat("a", maxCallsBytes/maxReplyCalls)
	plain := ToolCall{ID: strings.Repeat("i", 200), Name: strings.Repeat("n", 128), Arguments: args}
	list := ToolCall{Name: ToolTodo, Arguments: longList}
	return []Reply{
		{RequestID: none, Model: none, Blocks: blocks, ToolCalls: slices.Repeat([]ToolCall{plain}, maxReplyCalls)},
		{Blocks: blocks, ToolCalls: slices.Repeat([]ToolCall{{ID: none, Name: none, Arguments: args}}, maxReplyCalls)},
		{ToolCalls: append([]ToolCall{list}, slices.Repeat([]ToolCall{{ID: plain.ID, Name: plain.Name}}, maxReplyCalls-1)...)},
	}
}

// longList makes the largest list that its arguments have room for.
var longList = `{"items":[` + strings.Repeat(`{"text":"`+strings.Repeat(`\u0001`, 460)+`"},`, 49) + `{"text":"last"}]}`

// However a reply is shaped, all events that come of it fit the store. An append that is refused would lose what was paid
// for, and fail the task.
func TestAllThatComesOfAReplyFitsTheStore(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("first seed %d", seed)
	for n := range uint64(50) {
		r := rand.New(rand.NewPCG(seed+n, 0))
		reply, unit := anyReply(r), filler[int(n)%len(filler)]
		if full := fullReplies(); int(n)/len(filler) < len(full) {
			reply = full[int(n)/len(filler)]
		}
		for what, e := range eventsOf(t, &reply, strings.Repeat(unit, maxResultsBytes/8), strings.Repeat(unit, 65535/len([]rune(unit)))) {
			if got := size(t, e); got > storeLimit {
				t.Errorf("%s: %d bytes of %q", what, got, unit)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed+n)
		}
	}
}

// noClock is for what goes by no time.
type noClock struct{}

func (noClock) Now() time.Time { return time.Time{} }

// eventsOf gives the largest events that a reply may lead to, with such results of its calls and such an answer.
func eventsOf(t *testing.T, reply *Reply, result, answer string) map[string]Event {
	answer = "n" + strings.ToValidUTF8(answer, "?") // as the API server takes it
	e := &Engine{Clock: noClock{}, Tools: ToolboxFunc(func(context.Context, ToolCall) ToolResult { return ToolResult{Content: result} })}
	sp := &Spec{ResumeInput: answer, ResumeInputID: "q"}
	normalise(reply)
	known := map[string]bool{}
	for _, c := range reply.ToolCalls {
		if !known[c.Name] && !IsBuiltin(c.Name) {
			sp.Tools = append(sp.Tools, ToolDefinition{Name: c.Name})
		}
		known[c.Name] = true
	}
	digests := map[string]string{}
	for name := range known {
		digests[cutAt(name, 64)] = strings.Repeat("d", 64) // no tool has a longer name
	}
	ids := callIDs(reply.ToolCalls)
	s := &State{turn: &turn{reply: *reply, needApproval: toSet(ids), shown: shownWhole(reply.ToolCalls, toSet(ids))}}
	replied := &ModelReplied{Purpose: PurposeJudge, Reply: *reply, Verdict: parseVerdict(reply), NeedApproval: ids, ToolDigests: digests, RequestBytes: 1 << 40}
	asked := approvalQuestion(s, &Spec{}) // the answer comes after it
	asked.ID = "q"
	answered, _ := answerTo(&Question{Asked: *asked}, sp)
	returned := e.callTools(t.Context(), s, sp)
	s.turn.denied, s.turn.denyReason = toSet(answered.Denied), answered.DenyReason
	out := map[string]Event{
		"replied": {ModelReplied: replied}, "asked": {Asked: asked}, "answered": {Answered: answered}, "returned": returned[0],
		"denied": {ToolsReturned: &ToolsReturned{Results: lostResults(s.turn, sp)}},
		"failed": {ModelFailed: &ModelFailed{Text: joinTexts(reply.Texts())}},
	}
	for what, e := range out {
		e.Version, e.Seq, e.Time, e.Kind = EventVersion, 1<<60, time.Date(2026, 1, 5, 9, 0, 0, 1, time.UTC), kindOf(&e)
		out[what] = e
	}
	return out
}
