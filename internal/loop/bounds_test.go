package loop

import (
	"bytes"
	"encoding/json"
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
			for range 3 {
				r.Blocks = append(r.Blocks, Block{Kind: BlockReasoning, Text: huge, Opaque: huge}, Block{Kind: BlockText, Text: huge, Opaque: huge})
			}
			long := huge[:3000]
			for range maxReplyCalls {
				r.ToolCalls = append(r.ToolCalls, ToolCall{ID: long, Name: long, Arguments: long, Opaque: long})
			}
			r.ToolCalls = append([]ToolCall{{ID: huge, Name: huge, Arguments: huge, Opaque: huge}}, r.ToolCalls...)
			normalise(&r)
			if n := size(t, Event{Time: time.Now(), ModelReplied: &ModelReplied{Purpose: PurposeTurn, Reply: r}}); n > storeLimit {
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

// Ids are unique within a reply, whatever the server gives.
func TestCallIDsAreUnique(t *testing.T) {
	r := Reply{ToolCalls: []ToolCall{{ID: "a"}, {ID: "a"}, {ID: "a#2"}, {}, {}, {ID: strings.Repeat("x", 300)}, {ID: strings.Repeat("x", 400)}}}
	normalise(&r)
	seen := map[string]bool{}
	for _, c := range r.ToolCalls {
		if c.ID == "" || seen[c.ID] {
			t.Errorf("id %q", c.ID)
		}
		seen[c.ID] = true
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
	text := "begin\n" + strings.Repeat("middle\n", 100) + "end"
	got := cutMiddle(text, 60)
	if !strings.HasPrefix(got, "begin\n") || !strings.HasSuffix(got, "\nend") || !strings.Contains(got, "bytes left out]") || len(got) > 120 {
		t.Errorf("%q", got)
	}
	if got := cutMiddle("short", 60); got != "short" {
		t.Errorf("%q", got)
	}
	if got := cutMiddle(strings.Repeat("世", 100), 50); !utf8.ValidString(got) {
		t.Errorf("a rune is parted: %q", got)
	}
}

// A log line is the beginning of a turn on one line, at a bounded size, without half a rune.
func TestFirstWords(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"space collapses": {" a\t\tb\n\nc ", 10, "a b c"},
		"cut":             {"abc def", 5, "abc d"},
		"half a rune":     {"ab世", 4, "ab"},
		"a whole rune":    {"ab世界", 5, "ab世"},
		"nothing":         {" \n ", 5, ""},
	} {
		if got := firstWords(c.text, c.limit); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	r := Reply{ToolCalls: []ToolCall{{Name: "a"}, {Name: "b"}}}
	if got, want := logLine(3, &r, []string{"x", "y"}), "Turn 3: x y [called a, b]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := recentLog(make([]string, 150)); len(got) != 101 || got[0] != "(50 earlier turns are left out)" {
		t.Errorf("%d lines, the first is %q", len(got), got[0])
	}
}

// The calls that are dropped may be the ones that matter, so none of the reply runs and none of its signals counts.
func TestAReplyWithMoreCallsThanAreKeptCountsAsCutOff(t *testing.T) {
	r := Reply{Finish: FinishToolCalls, Blocks: []Block{{Kind: BlockText, Text: "TASK_COMPLETE: all of them"}}}
	for range maxReplyCalls + 1 {
		r.ToolCalls = append(r.ToolCalls, ToolCall{Name: "write"})
	}
	normalise(&r)
	if !truncated(&r) || len(r.ToolCalls) != maxReplyCalls {
		t.Errorf("%d calls are kept, and it finished as %s", len(r.ToolCalls), r.Finish)
	}
}
