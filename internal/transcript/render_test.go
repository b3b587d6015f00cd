package transcript_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript/transcripttest"
)

// What a whole transcript looks like is in testdata/v1/events.txt.

func TestRenderedTextCannotActOnATerminal(t *testing.T) {
	for name, tc := range map[string]struct{ why, text, want string }{
		"colours":          {"an escape sequence may do anything", "a\x1b[31mb", `a\u001b[31mb`},
		"C1":               {"some terminals take U+009B for ESC [", "a\u009b31mb", `a\u009b31mb`},
		"carriage return":  {"it would overwrite the line's head", "a\rb", `a\u000db`},
		"bidi override":    {"it would reorder what is read", "a\u202eb", `a\u202eb`},
		"letters":          {"text in any script stays", "naïve 日本語", "naïve 日本語"},
		"emoji":            {"a joiner is invisible", "👩\u200d💻", `👩\u200d💻`},
		"space, no break":  {"it is a space", "10\u00a0km", "10\u00a0km"},
		"tab":              {"code has them", "a\tb", "a\tb"},
		"another event":    {"lines are indented, so none looks like an event's head", "a\n#9  2026", "a\n      #9  2026"},
		"another label":    {"lines are indented more than our labels", "a\n    denied: b", "a\n          denied: b"},
		"tags":             {"they hide a text within another", "a\U000e0041b", `a\udb40\udc41b`},
		"broken UTF-8":     {"a byte alone may be C1", "a\x9b31mb", "a\ufffd31mb"},
		"trailing newline": {"no empty lines at the end", "a\n\n", "a"},
	} {
		var out bytes.Buffer
		if err := transcript.Render(&out, []loop.Event{textEvent(1, tc.text)}); err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(out.String(), "\n")
		if want := "      " + tc.want + "\n"; body != want {
			t.Errorf("%s: %q, want %q: %s", name, body, want, tc.why)
		}
	}
}

func TestRenderedHeadIsOneLine(t *testing.T) {
	e := transcripttest.Samples()[2]
	e.CallsStarted = &loop.CallsStarted{CallIDs: []string{"c\n#9  2026-03-04T05:06:10Z  operator: finished: Completed"}}
	var out bytes.Buffer
	if err := transcript.Render(&out, []loop.Event{e}); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("a call id that a model wrote forged an event:\n%s", &out)
	}
}

func TestRenderTellsOfAFailedWrite(t *testing.T) {
	full := errors.New("disk full")
	if err := transcript.Render(writerFunc(func([]byte) (int, error) { return 0, full }), transcripttest.Samples()); !errors.Is(err, full) {
		t.Errorf("want %v, got %v", full, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Whatever is said, no text of it acts on a terminal or passes for the head of an event, or for a label: these are as many, and at
// their place, as with harmless texts.
func FuzzRender(f *testing.F) {
	for _, text := range []string{"fine", "a\n#9  2026-03-04T05:06:10Z  operator: finished: Completed", "a\n    denied: b", "a\x1b[31m\r\u202e\u2028\xff", "\n", "a\n\n"} {
		f.Add(text)
	}
	heads, labels := outline(f, "harmless")
	f.Fuzz(func(t *testing.T, text string) {
		if h, l := outline(t, text); h != heads || l != labels {
			t.Errorf("there are %d heads and %d labels, want %d and %d", h, l, heads, labels)
		}
	})
}

// outline renders events in which a text stands wherever there is one, and counts heads and labels.
func outline(t testing.TB, text string) (heads, labels int) {
	events := transcripttest.Samples()
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			if v.String() != "" {
				v.SetString("a" + text)
			}
		case reflect.Pointer:
			if !v.IsNil() {
				fill(v.Elem())
			}
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Uint8 {
				v.SetBytes([]byte("a" + text))
				return
			}
			for i := range v.Len() {
				fill(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Field(i).CanSet() {
					fill(v.Field(i))
				}
			}
		}
	}
	fill(reflect.ValueOf(events))
	var out bytes.Buffer
	if err := transcript.Render(&out, events); err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(out.Bytes()) {
		t.Errorf("%q", out.Bytes())
	}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		for _, c := range line {
			if c != '\t' && unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) {
				t.Errorf("%U is in %q", c, line)
			}
		}
		switch indent := len(line) - len(strings.TrimLeft(line, " ")); {
		case line == "" || indent >= 6:
		case indent == 0:
			heads++
		case indent == 4:
			labels++
		default:
			t.Errorf("a line is indented by %d: %q", indent, line)
		}
	}
	return heads, labels
}
