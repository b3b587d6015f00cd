package signal

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestConformance(t *testing.T) {
	data, err := os.ReadFile("testdata/signals.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name    string   `json:"name"`
		Blocks  []string `json:"blocks"`
		Outcome string   `json:"outcome"`
		Payload string   `json:"payload"`
	}
	if err := yaml.UnmarshalStrict(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	outcomes := map[string]Kind{"none": None, "complete": Complete, "needInput": NeedInput}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			kind, ok := outcomes[c.Outcome]
			if !ok {
				t.Fatalf("unknown outcome %q", c.Outcome)
			}
			if diff := cmp.Diff(Signal{kind, c.Payload}, Scan(c.Blocks)); diff != "" {
				t.Errorf("Scan(%q) (-want +got):\n%s", c.Blocks, diff)
			}
		})
	}
}

func TestScanAcrossBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		blocks []string
		want   Signal
	}{
		"no blocks":                      {nil, Signal{}},
		"questions of all blocks":        {[]string{"NEED_INPUT: a?", "NEED_INPUT: b?"}, Signal{NeedInput, "a?\nb?"}},
		"a question before a completion": {[]string{"NEED_INPUT: a?", "TASK_COMPLETE: b"}, Signal{NeedInput, "a?"}},
		"the last block completes":       {[]string{"TASK_COMPLETE: a", "TASK_COMPLETE: b"}, Signal{Complete, "b"}},
		"a later block without signal":   {[]string{"TASK_COMPLETE: a", "and so on"}, Signal{Complete, "a"}},
		"payload ends with its block":    {[]string{"TASK_COMPLETE: a", "b"}, Signal{Complete, "a"}},
		"inline code ends with its block": {
			[]string{"see `this", "TASK_COMPLETE: a`"}, Signal{Complete, "a`"}},
		"an HTML comment ends with its block": {
			[]string{"<!-- open", "TASK_COMPLETE: a"}, Signal{Complete, "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Scan(c.blocks)); diff != "" {
				t.Errorf("Scan(%q) (-want +got):\n%s", c.blocks, diff)
			}
		})
	}
}

func TestStrip(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":                     {"", ""},
		"no signal":                 {"\n\nAll fine.\n", "All fine."},
		"only a signal":             {"TASK_COMPLETE: done", ""},
		"signal at the end":         {"I fixed it.\n\nTASK_COMPLETE: fixed\nand tested\n", "I fixed it."},
		"signal in the middle":      {"Before.\n\nNEED_INPUT: which?\n\nAfter.", "Before.\n\n\nAfter."},
		"signal under a paragraph":  {"Before.\nTASK_COMPLETE: x\n\nAfter.", "Before.\n\nAfter."},
		"an example stays":          {"```\nTASK_COMPLETE: x\n```\nTASK_COMPLETE: y", "```\nTASK_COMPLETE: x\n```"},
		"fence after the payload":   {"TASK_COMPLETE: y\n```\ncode\n```", "```\ncode\n```"},
		"empty question stays":      {"a\n\nNEED_INPUT:\n\nb", "a\n\nNEED_INPUT:\n\nb"},
		"windows line ends":         {"a\r\n\r\nb\r\nTASK_COMPLETE: x\r\n", "a\r\n\r\nb"},
		"indented code keeps place": {"\n    TASK_COMPLETE: code\n", "    TASK_COMPLETE: code"},
		"a signal that hid another": {
			"TASK_COMPLETE: `\nNEED_INPUT: `?\n\nNEED_INPUT: b?", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Strip(c.text)
			if got != c.want {
				t.Errorf("Strip(%q) = %q, want %q", c.text, got, c.want)
			}
			if s := Scan([]string{got}); s.Kind != None {
				t.Errorf("what is left signals %+v", s)
			}
		})
	}
}

// Each signal that goes lets the next one out, for longer than Strip follows one by one.
func TestStripGivesUpOnLayers(t *testing.T) {
	text := "deep"
	for n := range 10 {
		ticks := strings.Repeat("`", n+1)
		text = "TASK_COMPLETE: " + ticks + "\nNEED_INPUT: " + ticks + "\n\nx\n" + text
	}
	if got := Scan([]string{Strip(text)}); got.Kind != None {
		t.Errorf("what is left signals %+v", got)
	}
}

// Hostile text must not take time that grows with the square of its size.
func TestScanTime(t *testing.T) {
	const size, limit = 1 << 16, 30 * time.Second
	end := "`\nTASK_COMPLETE: x\n"
	for name, unit := range map[string]string{
		"backticks":        "`",
		"single ticks":     "a ` ",
		"double ticks":     "`` a ` b ",
		"brackets":         "[",
		"link starts":      "[a](",
		"comment starts":   "a <!-- ",
		"tag starts":       "a <b c='",
		"emphasis":         "**a *b ",
		"blank lines":      "\n",
		"carriage returns": "\r",
		"tokens":           "TASK_COMPLETE: x\n",
		"bold tokens":      "**TASK_COMPLETE: x **y\n",
		"questions":        "NEED_INPUT:\n",
		"fences":           "```\n",
		"one long line":    "word ",
		"nul bytes":        "\x00",
		"full links":       "[a](b) ",
		"link labels":      "[a][",
		"images":           "![",
		"bad destinations": "[a](<b",
		"bad titles":       "[a](b \"",
		"definitions":      "[a]: b\n",
		"open definitions": "[a]: b \"\n",
		"quotes":           ">",
		"quoted lines":     "> a\n",
		"list markers":     "- ",
		"plus markers":     "+\t",
		"mixed markers":    "> * 1) ",
		"list lines":       "- a\n",
		"ordered lists":    "1. ",
		"table cells":      "|",
		"table rows":       "a|b\n-|-\n",
		"instructions":     "a <?",
		"declarations":     "a <!A",
		"cdata":            "a <![CDATA[",
		"tags":             "a <b ",
		"attributes":       "a <b c ",
		"html lines":       "<b>\n",
		"headings":         "a\n=\n",
		"rulers":           "---\n",
		"entities":         "&amp;",
		"escapes":          "\\",
		"tabs":             "\t",
		"autolinks":        "<a:",
		"closing brackets": "]",
		"nested brackets":  "[]",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(unit, size/len(unit)) + end
			start := time.Now()
			Scan([]string{text})
			Strip(text)
			if took := time.Since(start); took > limit {
				t.Errorf("%d bytes took %v", len(text), took)
			} else {
				t.Log(took)
			}
		})
	}
}
