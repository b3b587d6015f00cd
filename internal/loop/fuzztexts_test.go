package loop

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A yes is one verdict at the end of a reply: whatever disputes it makes it a no.
func FuzzVerdict(f *testing.F) {
	for _, text := range []string{
		`{"answered": true, "reasoning": "complete"}`, "Fine.\n**VERDICT: DONE**", "```json\n{\"answered\": true}\n```", `Well: {"answered":true}`,
		`{"answered": false, "answered": true}`, "VERDICT: MORE\nVERDICT: DONE", `{"a":{"answered":true}}`, `{"ANSWERED":true}`, "{'answered': False}\nVERDICT: DONE",
	} {
		f.Add(text)
	}
	yes := func(text string, finish FinishReason) bool {
		return parseVerdict(&Reply{Blocks: UserText(text).Blocks, Finish: finish}).Answered
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = clean(text)
		if v := parseVerdict(&Reply{Blocks: UserText(text).Blocks}); len(v.Reasoning) > maxReasoning || !utf8.ValidString(v.Reasoning) {
			t.Errorf("the reasoning has %d bytes", len(v.Reasoning))
		}
		if !yes(text, FinishStop) {
			return
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		last := strings.Trim(strings.TrimSpace(lines[len(lines)-1]), "*_` .")
		inJSON := strings.Contains(text, "true") && strings.HasSuffix(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "```")), "}")
		if last != "VERDICT: DONE" && !inJSON {
			t.Errorf("%q is a yes", text)
		}
		for what, other := range map[string]string{
			"a marker after it": text + "\nVERDICT: MORE", "one before it": "VERDICT: MORE\n" + text, "the same marker before it": "VERDICT: DONE\n" + text,
			"JSON before it": `{"answered": false}` + "\n" + text, "JSON after it": text + "\n" + `{"answered": false}`, "prose after it": text + "\nOr is it?",
			"a field before it": `"answered" : ` + text,
		} {
			if yes(other, FinishStop) {
				t.Errorf("%q is a yes, with %s", other, what)
			}
		}
		for _, finish := range []FinishReason{FinishLength, FinishCut, FinishRefusal, FinishContentFilter} {
			if yes(text, finish) {
				t.Errorf("a reply that ended by %s is a yes", finish)
			}
		}
	})
}

// Where texts are joined, our words are the same whatever the others say, and what they said is told to the letter.
func FuzzJoinedTexts(f *testing.F) {
	for _, h := range hostile {
		f.Add(h, h, h, h, h)
		f.Add("fine", h, "fine", h, "")
	}
	f.Fuzz(func(t *testing.T, agent, name, tool, human, judge string) {
		for _, text := range []*string{&agent, &name, &tool, &human, &judge} {
			if *text = clean(*text); jsonBytes(*text) > maxTodoText || IsBuiltin(*text) {
				t.Skip() // what is cut, and built-in calls, are told in other words
			}
		}
		speaksForNone(t, agent, name, tool, human, judge)
	})
}

// A compaction's request is bounded, whatever is in the conversation, and holds what was said whole or as a beginning.
func FuzzCompaction(f *testing.F) {
	for i, h := range hostile {
		f.Add(h, "fine", uint16(100*i), uint16(i))
	}
	f.Fuzz(func(t *testing.T, one, two string, times, window uint16) {
		texts := []string{clean(one), clean(two), strings.Repeat(clean(one), int(times)%1000), "last"}
		compacts(t, slices.Concat(texts, texts), 10+int64(window))
	})
}

// An answer approves what a line of it approves, and nothing that another line denies or that is not asked for.
func FuzzApproval(f *testing.F) {
	for _, text := range []string{"approve", "deny", "approve a, b\ndeny c: no", "Approve: fine", "approve a:b", "yes", "approve\ndeny a", "approve a\nplease", "deny approve"} {
		f.Add(text, "a", "b", "a:b")
	}
	f.Fuzz(func(t *testing.T, text, one, two, three string) {
		ids := []string{}
		for _, id := range []string{one, two, three} { // as they come out of normalise
			if id = cutAt(Visible(id), 200); id != "" && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		denied, _ := parseApproval(text, ids)
		if !slices.IsSortedFunc(denied, func(a, b string) int { return slices.Index(ids, a) - slices.Index(ids, b) }) || slices.Contains(denied, "") {
			t.Errorf("%q are denied of %q", denied, ids)
		}
		for _, id := range ids {
			if !slices.Contains(denied, id) && !approves(text, id) {
				t.Errorf("%q approves %q of %q", text, id, ids)
			}
		}
		for what, no := range map[string]string{"a denial": text + "\ndeny", "other words": text + "\nplease", "none at all": "\n"} {
			if denied, _ := parseApproval(no, ids); !slices.Equal(denied, ids) {
				t.Errorf("%q approves of %q, with %s", no, ids, what)
			}
		}
	})
}

// approves tells whether any line of an answer can approve a call: it says approve, and names the id or none.
func approves(text, id string) bool {
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if len(line) < len("approve") || !strings.EqualFold(line[:len("approve")], "approve") {
			continue
		}
		rest := strings.TrimLeft(line[len("approve"):], " ,\t\r")
		if rest == "" || rest[0] == ':' || strings.Contains(rest, id) {
			return true
		}
	}
	return false
}

var escapes = regexp.MustCompile(`(\\u[0-9a-f]{4})+`)

// What is shown holds nothing hidden, and what was written can be told from it.
func FuzzVisible(f *testing.F) {
	for _, text := range append([]string{"a\x1b[31m", "{\"a\":\r\"\u202e\"}", "\U000e0041\xff", "👩\u200d💻", `"\\u202e\u202e"`, "\ufe0f\ufe00"}, hostile...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = clean(text)
		got := Visible(text)
		for _, c := range got {
			if c != '\n' && c != '\t' && unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) {
				t.Errorf("%U is in %q", c, got)
			}
		}
		if again := Visible(got); again != got {
			t.Errorf("%q becomes %q when it is shown again", got, again)
		}
		if json.Valid([]byte(text)) {
			if a, b := tokens(text), tokens(got); !slices.Equal(a, b) {
				t.Errorf("%q becomes another value: %q", text, got)
			}
		} else if !strings.Contains(text, `\`) && unescaped(t, got) != text {
			t.Errorf("%q cannot be told from %q", text, got)
		}
	})
}

// unescaped takes the escapes out of a text.
func unescaped(t *testing.T, text string) string {
	return escapes.ReplaceAllStringFunc(text, func(run string) string {
		var units []uint16
		for _, hex := range strings.Split(run, `\u`)[1:] {
			n, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			units = append(units, uint16(n))
		}
		return string(utf16.Decode(units))
	})
}

// tokens are what a JSON text consists of, fields that come twice included.
func tokens(text string) (all []string) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return append(all, err.Error())
		}
		all = append(all, fmt.Sprintf("%T %v", token, token))
	}
}
