package loop

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestWhatIsShownCanOnlyBeRead(t *testing.T) {
	for name, tc := range map[string]struct{ why, text, want string }{
		"letters":                {"text in any script stays", "naïve 日本語 עברית\tx\n", "naïve 日本語 עברית\tx\n"},
		"backslashes":            {"code has them", `C:\users \u202e`, `C:\users \u202e`},
		"colours":                {"an escape sequence may do anything", "a\x1b[31mb", `a\u001b[31mb`},
		"a window's title":       {"C1 begins a sequence, too", "a\u009d0;b\a", `a\u009d0;b\u0007`},
		"a byte of C1":           {"some terminals take 0x9B for ESC [", "a\x9b31m", "a\ufffd31m"},
		"carriage return":        {"it would write over the line", "bad\rgood", `bad\u000dgood`},
		"delete":                 {"it may take a letter away", "a\x7f", `a\u007f`},
		"bidi override":          {"it reorders what is read", "a\u202eb", `a\u202eb`},
		"bidi isolate":           {"it reorders what is read", "a\u2066b\u2069", `a\u2066b\u2069`},
		"zero width":             {"two words look like the same", "a\u200bb\u200c\u200d\ufeff\u2060", `a\u200bb\u200c\u200d\ufeff\u2060`},
		"soft hyphen":            {"it is not seen", "a\u00adb", `a\u00adb`},
		"line separators":        {"they end a line for some", "a\u2028b\u2029", `a\u2028b\u2029`},
		"tags":                   {"they hide a text within another", "a\U000e0041\U000e007f", `a\udb40\udc41\udb40\udc7f`},
		"a letter that is none":  {"a filler is not seen", "a\u3164\u115f", `a\u3164\u115f`},
		"variation selectors":    {"they can hide a text", "a\U000e0100\ufe00", `a\udb40\udd00\ufe00`},
		"how an emoji looks":     {"it hides nothing", "☎\ufe0e ❤\ufe0f 👍🏽", "☎\ufe0e ❤\ufe0f 👍🏽"},
		"an emoji of several":    {"its joiner is not seen", "👩\u200d💻", `👩\u200d💻`},
		"private use":            {"what it shows is anybody's guess", "\ue000", `\ue000`},
		"spaces of other widths": {"they are spaces", "10\u00a0km\u3000x", "10\u00a0km\u3000x"},
	} {
		if got := Visible(tc.text); got != tc.want {
			t.Errorf("%s: %q, want %q: %s", name, got, tc.want, tc.why)
		}
	}
}

func TestJSONStaysTheSameValueWhenItIsShown(t *testing.T) {
	for _, text := range []string{
		"{\r\n\"a\u202e\":\r1}", "\"\u007f\u200d\U000e0041\u2028\"", "\r[1.0,\r1e400]\r", `"\u202e\\u202e"`, "\"\U000e0041\\n\"",
	} {
		got := Visible(text)
		if strings.IndexFunc(got, hidden) >= 0 || !reflect.DeepEqual(jsonValue(t, got), jsonValue(t, text)) {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func jsonValue(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// A result that cannot be shown whole is not taken: cut, it would not be JSON.
func TestAResultThatIsTooLongOnceShownIsGivenAgain(t *testing.T) {
	schema, err := CompileSchema(json.RawMessage(`{"type":"string"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		result string
		taken  bool
	}{
		"with room for its escapes": {`"` + strings.Repeat("\u202e", MaxOutputBytes/6-1) + `"`, true},
		"without":                   {`"` + strings.Repeat("\u202e", MaxOutputBytes/6+1) + `"`, false},
		"plain":                     {`"` + strings.Repeat("a", MaxOutputBytes-2) + `"`, true},
	} {
		c := checkOutput(&Spec{Output: schema}, &Reply{Blocks: UserText(tc.result).Blocks, Finish: FinishStop})
		if (c.JSON == tc.result) != tc.taken || tc.taken == strings.Contains(c.Fault, "control and format characters") {
			t.Errorf("%s: %d bytes are taken, %q", name, len(c.JSON), c.Fault)
		}
	}
}
