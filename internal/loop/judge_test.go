package loop

import (
	"strings"
	"testing"
)

// A judge says yes by one verdict that nothing in its reply disputes. All else is a no.
func TestWhatCountsAsAVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		why, reply string
		answered   bool
		reasoning  string
	}{
		"JSON":                       {"it is what is asked for", `{"answered": true, "reasoning": "complete"}`, true, "complete"},
		"JSON, no":                   {"it is what is asked for", `{"answered": false, "reasoning": "half"}`, false, "half"},
		"fenced":                     {"models like to", "```json\n{\"answered\": true}\n```", true, ""},
		"after prose":                {"models like to", `All parts are there. {"answered": true, "reasoning": "complete"}`, true, "complete"},
		"fenced after prose":         {"models like to", "All there:\n```\n{\"answered\": true, \"reasoning\": \"complete\"}\n```", true, "complete"},
		"after prose with braces":    {"they are no verdict", `func main() {} {"a" } {"answered": true}`, true, `func main() {} {"a" }`},
		"a marker":                   {"JSON is not to be had everywhere", "Fine.\n\n**VERDICT: DONE**\n", true, "Fine."},
		"a quoted marker, then JSON": {"the JSON is the verdict", "I was told to end with a line\nVERDICT: DONE\nor with JSON.\n" + `{"answered": false, "reasoning": "half"}`, false, "half"},
		"a marker within the line":   {"it is not the line", "I would say VERDICT: DONE", false, "I would say VERDICT: DONE"},
		"a marker that is not last":  {"it is quoted", "The line\nVERDICT: DONE\nis what the agent wants.", false, "The line\nis what the agent wants."},
		"both markers":               {"they contradict", "VERDICT: MORE\nVERDICT: DONE", false, "The judge gave no clear verdict."},
		"a marker twice":             {"one of them may be quoted", "VERDICT: DONE\nVERDICT: DONE", false, "The judge gave no clear verdict."},
		"JSON against the marker":    {"they contradict", "{\"answered\": true}\nVERDICT: MORE", false, ""},
		"marker against the JSON":    {"they contradict", "{\"answered\": false, \"reasoning\": \"half\"}\nVERDICT: DONE", false, "The judge gave no clear verdict."},
		"JSON beside a marker":       {"one of them may be quoted", "VERDICT: DONE\n{\"answered\": true}", false, "The judge gave no clear verdict."},
		"JSON twice":                 {"one of them may be quoted", `{"answered": false} {"answered": true}`, false, "The judge gave no clear verdict."},
		"JSON, then prose":           {"the prose may deny it", `I cannot say {"answered": true} here.`, false, ""},
		"the field twice":            {"they contradict", `{"answered": false, "answered": true}`, false, "The judge gave no clear verdict."},
		"the field in two cases":     {"they contradict", `{"answered": false, "Answered": true}`, false, "The judge gave no clear verdict."},
		"no bool":                    {"it is unclear", `{"answered": "true"}`, false, ""},
		"within another object":      {"it may be an example", `{"example": {"answered": true}}`, false, ""},
		"JSON that is cut":           {"it was meant to be the verdict", "{\"answered\": false, \"reason\nVERDICT: DONE", false, "The judge gave no clear verdict."},
		"not quite JSON":             {"it was meant to be the verdict", "{'answered': False}\nVERDICT: DONE", false, "The judge gave no clear verdict."},
		"YAML":                       {"it was meant to be the verdict", "answered: no\nVERDICT: DONE", false, "The judge gave no clear verdict."},
		"prose of what was answered": {"it is no verdict", `The agent answered: Paris. {"answered": true, "reasoning": "right"}`, true, "right"},
		"a verdict in the reasoning": {"it is told of, not given", `{"answered": false, "reasoning": "It says {\"answered\": true} and VERDICT: DONE"}`, false, `It says {"answered": true} and VERDICT: DONE`},
	} {
		t.Run(name, func(t *testing.T) {
			v := parseVerdict(&Reply{Blocks: UserText(tc.reply).Blocks, Finish: FinishStop})
			if v.Answered != tc.answered {
				t.Errorf("answered: %t, %s", v.Answered, tc.why)
			}
			if tc.reasoning != "" && v.Reasoning != tc.reasoning {
				t.Errorf("the agent is told %q, want %q", v.Reasoning, tc.reasoning)
			}
		})
	}
}

// However a judge's reply is shaped, it is read in a bounded number of passes, each of which makes a copy.
func TestAVerdictIsReadInABoundedNumberOfPasses(t *testing.T) {
	for name, unit := range map[string]string{
		"beginnings": `{"`, "nested": `{"a":`, "empty": `{}`, "fields": "answered ", "markers": "VERDICT: DONE\n", "blanks": "{ \n", "escapes": `{"\`,
	} {
		text := strings.Repeat(unit, maxTextBytes/len(unit)) + "}"
		r := &Reply{Blocks: UserText(text).Blocks}
		if parseVerdict(r).Answered {
			t.Errorf("%s count as a yes", name)
		}
		if n := testing.AllocsPerRun(1, func() { parseVerdict(r) }); n > 100*maxVerdictStarts {
			t.Errorf("%s take %v allocations", name, n)
		}
	}
}
