package loop

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// storeLimit is what the journal's store takes of one event.
const storeLimit = 512 << 10

func size(t *testing.T, e Event) int {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		t.Fatal(err)
	}
	return buf.Len()
}

// However long a reply is, and whatever is in it, its event fits the store: an append that fails would lose a reply that was
// paid for, and ask for it again for ever.
func TestEveryReplyFitsTheStore(t *testing.T) {
	for name, unit := range map[string]string{
		"text": "word ", "quotes": `"`, "control characters": "\x00", "line separators": "\u2028", "broken UTF-8": "\xff\xfe", "wide runes": "世",
	} {
		t.Run(name, func(t *testing.T) {
			huge := strings.Repeat(unit, 1<<18/len(unit))
			r := Reply{RequestID: huge, Model: huge, Finish: FinishStop}
			for range maxReplyBlocks { // the first ones take the room, and all take their names
				r.Blocks = append(r.Blocks, Block{Kind: BlockReasoning, Text: huge[:600], Opaque: "o"}, Block{Kind: BlockText, Text: huge[:600], Opaque: "o"})
			}
			r.Blocks = append(r.Blocks[:maxReplyBlocks-2], Block{Kind: BlockReasoning, Text: huge, Opaque: huge}, Block{Kind: BlockText, Text: huge, Opaque: huge})
			long := huge[:3000]
			for range maxReplyCalls {
				r.ToolCalls = append(r.ToolCalls, ToolCall{ID: long, Name: long, Arguments: long, Opaque: long})
			}
			r.ToolCalls = append([]ToolCall{{ID: huge, Name: huge, Arguments: huge, Opaque: huge}}, r.ToolCalls...)
			normalise(&r)
			// The result stands there once more; as JSON within JSON it takes twice its bytes at the most.
			e := ModelReplied{Purpose: PurposeTurn, Reply: r, NeedApproval: callIDs(r.ToolCalls), Output: &OutputCheck{JSON: strings.Repeat(`\\`, MaxOutputBytes/2)}}
			if n := size(t, Event{Time: time.Now(), ModelReplied: &e}); n > storeLimit {
				t.Errorf("the event takes %d bytes", n)
			}
			results := make([]ToolResult, maxReplyCalls)
			for i := range results {
				results[i] = ToolResult{CallID: "c", Name: "look", Content: clean(huge)}
			}
			capResults(results)
			if n := size(t, Event{ToolsReturned: &ToolsReturned{Results: results}}); n > storeLimit {
				t.Errorf("the results take %d bytes", n)
			}
			for _, b := range append(r.Blocks, Block{Text: results[0].Content}) {
				if !utf8.ValidString(b.Text) {
					t.Error("a rune is parted")
				}
			}
		})
	}
}

// Long reasoning must not push out the text: the agent would never get to say that it is done.
func TestReasoningDoesNotPushOutText(t *testing.T) {
	r := Reply{Finish: FinishStop, Blocks: []Block{
		{Kind: BlockReasoning, Text: strings.Repeat("hm ", 1<<20), Opaque: "signature"}, {Kind: BlockText, Text: "TASK_COMPLETE: done", Opaque: "kept"},
	}}
	normalise(&r)
	if got := r.Blocks[1]; got.Text != "TASK_COMPLETE: done" || got.Opaque != "kept" {
		t.Errorf("the text became %+v", got)
	}
	if r.Blocks[0].Text != "" || r.Blocks[0].Opaque != "" {
		t.Error("half of the reasoning is kept: its signature does not fit it any more")
	}
	if r.Finish != FinishStop {
		t.Errorf("finish is %q", r.Finish)
	}
}

// A text that is cut may have lost its signal, so it counts as cut off.
func TestTextThatIsTooLongCountsAsCutOff(t *testing.T) {
	r := Reply{Finish: FinishStop, Blocks: []Block{{Kind: BlockText, Text: strings.Repeat("word ", 1<<17) + "\n\nTASK_COMPLETE: done"}}}
	normalise(&r)
	if !truncated(&r) || !strings.HasSuffix(r.Blocks[0].Text, "655381 bytes in all]") {
		t.Errorf("finish is %q, the text ends with %q", r.Finish, r.Blocks[0].Text[len(r.Blocks[0].Text)-40:])
	}
	r = Reply{Finish: FinishRefusal, Blocks: r.Blocks}
	normalise(&r)
	if r.Finish != FinishRefusal {
		t.Errorf("a refusal became %q", r.Finish)
	}
}

// Arguments that are cut are never run, least of all as an empty object.
func TestArgumentsThatAreCutAreMalformed(t *testing.T) {
	long := `{"text":"` + strings.Repeat("a", maxCallsBytes-20) + `"}`
	for name, args := range map[string][]string{
		"the second finds no room":        {long, `{"all":true}`},
		"valid up to the cut":             {`{"a":1}` + strings.Repeat(" ", 1<<20)},
		"blank up to the cut":             {strings.Repeat(" ", 1<<20) + `{"a":1}`},
		"the third finds a little room":   {long[:maxCallsBytes-150] + `"}`, strings.Repeat(" ", 300), "{}"},
		"nothing but an unterminated one": {strings.Repeat(`"`, 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			var r Reply
			for _, a := range args {
				r.ToolCalls = append(r.ToolCalls, ToolCall{Name: "t", Arguments: a})
			}
			normalise(&r)
			for i, c := range r.ToolCalls {
				if c.Arguments != args[i] && argumentsFault(c) == "" {
					t.Errorf("call %d would run with %.40q", i, c.Arguments)
				}
			}
		})
	}
}

// Ids are unique within a reply, whatever the server gives: results and answers go by them.
func TestCallIDsAreUnique(t *testing.T) {
	for name, ids := range map[string][]string{
		"the same twice":              {"a", "a", "a#2"},
		"the number is taken":         {"x#3", "x", "x"},
		"the next one is, too":        {"x#3", "x#4", "x", "x", "x"},
		"none":                        {"", "", "#1"},
		"the same once they are cut":  {strings.Repeat("x", 300), strings.Repeat("x", 400)},
		"the same once they are text": {"\xff", "\xfe"},
	} {
		t.Run(name, func(t *testing.T) {
			var r Reply
			for _, id := range ids {
				r.ToolCalls = append(r.ToolCalls, ToolCall{ID: id})
			}
			normalise(&r)
			seen := map[string]bool{}
			for _, c := range r.ToolCalls {
				if c.ID == "" || seen[c.ID] {
					t.Errorf("id %q", c.ID)
				}
				seen[c.ID] = true
			}
		})
	}
}

// Results share the room only when they do not all fit.
func TestResultsShareTheRoom(t *testing.T) {
	results := []ToolResult{{Content: "short"}, {Content: strings.Repeat("long ", 1<<17)}}
	capResults(results)
	if results[0].Content != "short" || !strings.HasSuffix(results[1].Content, "[cut: 655360 bytes in all]") {
		t.Errorf("%q, %q", results[0].Content, results[1].Content[len(results[1].Content)-40:])
	}
}

func TestCutSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"fits":                     {"abc", 3, "abc"},
		"cut":                      {strings.Repeat("é", 50), 60, strings.Repeat("é", 18) + "\n[cut: 100 bytes in all]"},
		"no room for the note":     {"abcdef", 3, "abc"},
		"no room for a rune":       {"世界", 2, ""},
		"no room at all":           {"abc", 0, ""},
		"a negative limit is none": {"abc", -1, ""},
	} {
		if got := Cut(c.text, c.limit); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestCutMiddleKeepsBothEnds(t *testing.T) {
	lines := slices.Concat([]string{"begin"}, slices.Repeat([]string{"middle"}, 100), []string{"end"})
	got := cutMiddle(lines, 60)
	if got[0] != "begin" || got[len(got)-1] != "end" || !slices.Contains(got, "(94 lines are left out)") || len(strings.Join(got, "\n")) > 120 {
		t.Errorf("%q", got)
	}
	for name, whole := range map[string][]string{"what fits": {"short"}, "nothing": nil} {
		if got := cutMiddle(whole, 60); !slices.Equal(got, whole) {
			t.Errorf("%s became %q", name, got)
		}
	}
}

// What is dropped may be what matters, so none of the reply runs and none of its signals counts.
func TestAReplyWithMorePartsThanAreKeptCountsAsCutOff(t *testing.T) {
	done := Block{Kind: BlockText, Text: "TASK_COMPLETE: all of them"}
	escaped := strings.Repeat("\x01", 150)
	for name, c := range map[string]struct {
		blocks        []Block
		calls         []ToolCall
		cutOff        bool
		blocksN, runs int
	}{
		"as many blocks as are kept": {slices.Repeat([]Block{done}, maxReplyBlocks), nil, false, maxReplyBlocks, 0},
		"a block more":               {slices.Repeat([]Block{done}, maxReplyBlocks+1), nil, true, maxReplyBlocks, 0},
		"as many calls as are kept":  {[]Block{done}, slices.Repeat([]ToolCall{{Name: "write"}}, maxReplyCalls), false, 1, maxReplyCalls},
		"a call more":                {[]Block{done}, slices.Repeat([]ToolCall{{Name: "write"}}, maxReplyCalls+1), true, 1, maxReplyCalls},
		"the longest plain names":    {[]Block{done}, slices.Repeat([]ToolCall{{ID: strings.Repeat("i", 200), Name: strings.Repeat("n", 128)}}, maxReplyCalls), false, 1, maxReplyCalls},
		"names that JSON makes long": {[]Block{done}, slices.Repeat([]ToolCall{{ID: escaped, Name: escaped}}, maxReplyCalls), true, 1, 29},
	} {
		t.Run(name, func(t *testing.T) {
			r := Reply{Finish: FinishStop, Blocks: c.blocks, ToolCalls: c.calls}
			normalise(&r)
			if truncated(&r) != c.cutOff || len(r.Blocks) != c.blocksN || len(r.ToolCalls) != c.runs {
				t.Errorf("%d blocks and %d calls are kept, and it finished as %s", len(r.Blocks), len(r.ToolCalls), r.Finish)
			}
		})
	}
}
