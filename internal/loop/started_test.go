package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// kept is the events as the journal gives them back.
func kept(t *testing.T, events []loop.Event) (out []loop.Event) {
	t.Helper()
	text, err := json.Marshal(events)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// folded is the state that a journal gives back.
func folded(t *testing.T, events []loop.Event) *loop.State {
	t.Helper()
	s, err := loop.Fold(kept(t, events))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What a task is asked is in its journal. An edit of the spec after the start reaches no request, of whatever purpose.
func TestPromptAndInstructionsComeFromTheJournal(t *testing.T) {
	began := loop.Spec{
		Prompt: "the first prompt", Instructions: "the first instructions", Strategy: loop.StrategyJudge, MaxIterations: 6,
		ContextWindowTokens: 900, WrapUp: true,
	}
	edited := began
	edited.Prompt, edited.Instructions = "the second prompt", "the second instructions"
	seen := map[loop.Purpose]int{}
	e := &loop.Engine{Clock: looptest.NewClock(), Model: loop.ModelFunc(func(_ context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
		seen[req.Purpose]++
		text, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "the second") || !strings.Contains(string(text), "the first prompt") {
			t.Errorf("a %s request: %s", req.Purpose, text)
		}
		if turn := req.Purpose == loop.PurposeTurn || req.Purpose == loop.PurposeWrapUp; strings.Contains(string(text), "the first instructions") != turn {
			t.Errorf("a %s request: %s", req.Purpose, text)
		}
		return says("VERDICT: MORE " + strings.Repeat("words ", 50)), nil
	})}
	s := &loop.State{}
	step, err := e.Open(s, &began, loop.Opened{Holder: "one"})
	if err != nil {
		t.Fatal(err)
	}
	journal := step.Events
	for n := 0; s.End == nil && n < 50; n++ {
		if n == 5 { // another operator goes on
			s = folded(t, journal)
			step, err = e.Open(s, &edited, loop.Opened{Holder: "two"})
		} else {
			step, err = e.Advance(t.Context(), s, loop.FixedSpec(&edited))
		}
		if err != nil {
			t.Fatal(err)
		}
		journal = append(journal, step.Events...)
	}
	for _, p := range []loop.Purpose{loop.PurposeTurn, loop.PurposeJudge, loop.PurposeCompaction, loop.PurposeWrapUp} {
		if seen[p] == 0 {
			t.Errorf("no %s request was made: %v", p, seen)
		}
	}
}

// Up to its start, a task is what its spec says.
func TestPromptsCountUpToTheStart(t *testing.T) {
	e := &loop.Engine{Clock: looptest.NewClock()}
	s := &loop.State{}
	step, err := e.Settle(s, &loop.Spec{Prompt: "one"})
	if err != nil || len(step.Events) != 0 {
		t.Fatalf("%+v, %v", step, err)
	}
	if _, err := e.Open(s, &loop.Spec{Prompt: "two"}, loop.Opened{Holder: "h"}); err != nil {
		t.Fatal(err)
	}
	if s.Input.Prompt != "two" {
		t.Errorf("it is started with %q", s.Input.Prompt)
	}
}

// The model of the start is the model: which one, and how it is asked. Only the first opening says so.
func TestTheModelsIdentityIsOfTheStart(t *testing.T) {
	asked := loop.ModelIdentity{Namespace: "team", Name: "large", Provider: "OpenAI", Model: "large-1", Parameters: json.RawMessage(`{ "temperature": "0.2", "stop": ["<end>"] }`)}
	e := &loop.Engine{Clock: looptest.NewClock()}
	s := &loop.State{}
	first, err := e.Open(s, &loop.Spec{Prompt: "p"}, loop.Opened{Holder: "one", Input: &loop.Input{Prompt: "not this", Model: asked}})
	if err != nil {
		t.Fatal(err)
	}
	second, err := e.Open(s, &loop.Spec{Prompt: "q"}, loop.Opened{Holder: "two", Input: &loop.Input{Model: loop.ModelIdentity{Name: "other"}}})
	if err != nil {
		t.Fatal(err)
	}
	if o := second.Events[0].Opened; o.Input != nil {
		t.Errorf("the second opening says %+v", o)
	}
	back := folded(t, append(first.Events, second.Events...))
	looptest.SameState(t, s, back)
	var params struct {
		Temperature string
		Stop        []string
	}
	if err := json.Unmarshal(back.Input.Model.Parameters, &params); err != nil || params.Temperature != "0.2" || params.Stop[0] != "<end>" {
		t.Errorf("%+v, %v", params, err)
	}
	got := back.Input.Model
	got.Parameters, asked.Parameters = nil, nil
	if diff := cmp.Diff(asked, got); diff != "" || back.Input.Prompt != "p" {
		t.Errorf("%+v: %s", back.Input, diff)
	}
	if _, err := e.Open(&loop.State{}, &loop.Spec{}, loop.Opened{Input: &loop.Input{Model: loop.ModelIdentity{Parameters: json.RawMessage(`{`)}}}); err == nil {
		t.Error("parameters that are no JSON are taken")
	}
}

// mostPins are as many toolsets and tools as a task can have, with the longest names and digests that there are.
func mostPins() (toolsets []string, digests map[string]string) {
	digests = map[string]string{}
	for n := range loop.MaxTools {
		digests[fmt.Sprintf("%s%04d", strings.Repeat("n", 60), n)] = strings.Repeat("d", 64)
	}
	for n := range 32 {
		toolsets = append(toolsets, fmt.Sprintf("%s%02d", strings.Repeat("t", 251), n))
	}
	return toolsets, digests
}

// The longest texts that the API takes fit the first event; those that JSON makes too long end the task before it costs.
func TestTheFirstEventFitsTheStore(t *testing.T) {
	const longest = 64 << 10 // bytes, as the API takes of a prompt and of instructions
	fill := func(unit string) string { return strings.Repeat(unit, longest/len(unit)) }
	for name, tc := range map[string]struct {
		prompt, instructions string
		cause                loop.Cause
	}{
		"words":                         {fill("word "), fill("word "), ""},
		"lines":                         {fill("\n"), fill("\n"), ""},
		"quotes":                        {fill(`"`), fill(`\`), ""},
		"line separators":               {fill("\u2028"), fill("\u2028"), ""},
		"wide runes":                    {fill("🙂"), fill("世"), ""},
		"control characters in one":     {fill("\x01"), "", loop.CausePromptTooLarge},
		"control characters in both":    {fill("\x01"), fill("\x01"), loop.CausePromptTooLarge},
		"a page of control characters":  {strings.Repeat("\x01", 4000), fill("word "), ""},
		"control characters in the few": {"p", fill("\x7f"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := &loop.Engine{Clock: looptest.NewClock()}
			sp := &loop.Spec{Prompt: tc.prompt, Instructions: tc.instructions}
			s := &loop.State{}
			toolsets, digests := mostPins()
			step, err := e.Open(s, sp, loop.Opened{Holder: strings.Repeat("h", 253), Toolsets: toolsets, ToolDigests: digests, Input: &loop.Input{Model: loop.ModelIdentity{
				Provider: "OpenAI", Parameters: json.RawMessage(`{"stop":["` + strings.Repeat(`\u0001`, 1024) + `"]}`),
			}}})
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range step.Events {
				text, err := json.Marshal(ev)
				if err != nil || len(text) > 512<<10 {
					t.Errorf("%s takes %d bytes: %v", ev.Kind, len(text), err)
				}
			}
			if (s.End == nil) != (tc.cause == "") || s.End != nil && (s.End.Cause != tc.cause || !strings.Contains(s.End.Message, "spec.prompt")) {
				t.Errorf("it ends as %+v", s.End)
			}
			if s.End == nil && s.Input.Prompt != tc.prompt {
				t.Error("the prompt is not kept whole")
			}
			looptest.SameState(t, s, folded(t, step.Events))
		})
	}
}
