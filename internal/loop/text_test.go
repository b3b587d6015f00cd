package loop

import (
	"slices"
	"strings"
	"testing"
)

// A log line is the beginning of a turn on one line, at a bounded size, without half a rune.
func TestFirstWords(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"space collapses": {" a\t\tb\n\nc ", 10, "a b c"},
		"cut":             {"abc def", 5, "abc d"},
		"cut at a space":  {"abc def", 4, "abc"},
		"what JSON makes": {"a\x01\x01", 10, "a\x01"},
		"half a rune":     {"ab世", 4, "ab"},
		"a whole rune":    {"ab世界", 5, "ab世"},
		"nothing":         {" \n ", 5, ""},
	} {
		if got := firstWords(c.text, c.limit); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	r := Reply{ToolCalls: []ToolCall{{Name: "a"}, {Name: "b"}}}
	if got, want := logLine(3, &r, []string{"x", "y"}), `Turn 3: "x y" called "a", "b"`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// An answer is kept whole, and what is too long says so.
func TestAnAnswerInTheLogIsWholeOrSaysThatItIsCut(t *testing.T) {
	long := strings.Repeat("a", maxAnswerBytes)
	if got := answerEntry("why?", long); got != `The human was asked: "why?"`+"\n"+`The human answered: "`+long+`"` {
		t.Errorf("a long answer became %d bytes", len(got))
	}
	if got := answerEntry("why?", long+"b"); !strings.HasSuffix(got, `a\n[cut: 16385 bytes in all]"`) {
		t.Errorf("it ends with %q", got[len(got)-40:])
	}
}

// What every request carries does not grow for ever, but an answer does not go because turns followed it.
func TestLogLines(t *testing.T) {
	turn, answer, long := LogEntry{Text: "turn"}, LogEntry{Text: "answer", Answer: true}, LogEntry{Text: strings.Repeat("long", 5<<10), Answer: true}
	log := func(parts ...[]LogEntry) []LogEntry { return slices.Concat(parts...) }
	some := func(e LogEntry, n int) []LogEntry { return slices.Repeat([]LogEntry{e}, n) }
	for name, c := range map[string]struct {
		log   []LogEntry
		lines int
		first string
	}{
		"nothing":                       {nil, 0, ""},
		"all of it":                     {log(some(turn, 99), some(answer, 2)), 101, "turn"},
		"too many turns":                {some(turn, 150), 101, "(50 earlier turns are left out)"},
		"an answer before them":         {log(some(answer, 1), some(turn, 150)), 102, "(50 earlier turns are left out)"},
		"too long answers":              {some(long, 5), 4, "(2 earlier answers are left out)"},
		"a short one before them":       {log(some(answer, 1), some(long, 5)), 4, "(3 earlier answers are left out)"},
		"both":                          {log(some(long, 5), some(turn, 101)), 105, "(1 earlier turns are left out)"},
		"answers do not push out turns": {log(some(turn, 100), some(long, 5)), 104, "(2 earlier answers are left out)"},
	} {
		got := logLines(c.log, unlogged{})
		var s State
		for _, e := range slices.Concat(some(turn, 2000), c.log) { // folded one by one, all but the last are let go meanwhile
			s.note(e)
		}
		if held := len(s.Log); held > 1000 {
			t.Errorf("%s: %d entries are held", name, held)
		}
		if want, got := logLines(slices.Concat(some(turn, 2000), c.log), unlogged{}), logLines(s.Log, s.unlogged); !slices.Equal(got, want) {
			t.Errorf("%s: folded one by one, it is %.80q, want %.80q", name, got, want)
		}
		if len(got) != c.lines || len(got) > 0 && got[0] != c.first {
			t.Errorf("%s: %d lines, want %d; the first is %.40q, want %q", name, len(got), c.lines, slices.Concat(got, []string{""})[0], c.first)
		}
	}
	if got := logLines(log(some(answer, 1), some(turn, 101)), unlogged{}); got[1] != "answer" || got[2] != "turn" {
		t.Errorf("the order is %q", got[:3])
	}
}

// What a call may have taken is charged by this guess where nobody knows.
func TestTheSizeOfACompactionIsNeverGuessedTooSmall(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "plain": "some words ", "quotes": `"quoted\ `, "control": "\x00\x1b", "separators": "\u2028", "format": "\u202e\u200b", "wide": "漢字", "not UTF-8": clean("\xff a"),
	} {
		for _, bytes := range []int{0, 10, 1000, 100_000, 1_000_000} {
			long := strings.Repeat(text, bytes/max(1, len(text)))
			s := &State{Input: &Input{Prompt: cutAt(long, 60_000)}}
			for i := range 6 {
				s.say(Message{Role: RoleAssistant, Blocks: []Block{{Kind: BlockText, Text: long}}, ToolCalls: []ToolCall{{ID: "c", Name: "look", Arguments: long}}})
				s.say(Message{Role: RoleTool, ToolResults: []ToolResult{{CallID: "c", Name: "look", Content: long[:len(long)/(i+1)]}}})
			}
			sp := &Spec{}
			if guess, is := compactionBytes(s, sp), buildRequest(s, sp, PurposeCompaction).Bytes(); guess < is {
				t.Errorf("%s, %d bytes: guessed %d, it has %d", name, bytes, guess, is)
			}
		}
	}
}
