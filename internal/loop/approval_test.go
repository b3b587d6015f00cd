package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// deploying is a task whose tool deploy needs approval, and what of its arguments the tool was given.
func deploying(t *testing.T) (a *aTask, ran func() []string) {
	a = newTask(t, loop.Spec{Tools: []loop.ToolDefinition{{Name: "deploy", RequireApproval: true}, {Name: "look"}}})
	got := make(chan string, 100)
	a.engine.Tools = loop.ToolboxFunc(func(_ context.Context, c loop.ToolCall) loop.ToolResult {
		got <- c.Arguments
		return loop.ToolResult{Content: "done"}
	})
	return a, func() (all []string) {
		for len(got) > 0 {
			all = append(all, <-got)
		}
		slices.Sort(all)
		return all
	}
}

// deploys is a reply that calls deploy with such arguments, with ids from 0 on.
func deploys(arguments ...string) *loop.Reply {
	r := &loop.Reply{Finish: loop.FinishToolCalls, Usage: loop.Usage{InputTokens: 1, OutputTokens: 1}}
	for i, args := range arguments {
		r.ToolCalls = append(r.ToolCalls, loop.ToolCall{ID: fmt.Sprint(i), Name: "deploy", Arguments: args})
	}
	return r
}

// finishCalls goes on until the calls have returned, and gives their results.
func (a *aTask) finishCalls() []loop.ToolResult {
	for range 3 {
		step := a.advance()
		for _, e := range step.Events {
			if e.ToolsReturned != nil {
				return e.ToolsReturned.Results
			}
		}
	}
	a.t.Fatal("the calls do not return")
	return nil
}

// A human approves all of what runs. What cannot be shown whole is not put to one, does not run, and the agent is told why.
func TestWhatCannotBeShownWholeIsDeniedUnasked(t *testing.T) {
	args := func(filler string, bytes int) string {
		return `{"x":"` + strings.Repeat(filler, (bytes-len(`{"x":""}`))/len(filler)) + `"}`
	}
	whole := args("a", 8192)
	for name, tc := range map[string]struct {
		why       string
		arguments []string
		asked     []string
	}{
		"as long as can be shown": {"all of it is seen", []string{whole}, []string{"0"}},
		"a byte longer":           {"its end would run unseen", []string{args("a", 8193)}, nil},
		"too long once escaped":   {"what is seen is longer than what is written", []string{args("\u202e", 6000)}, nil},
		"too long beside another": {"the other one can be judged", []string{args("a", 9000), `{"x":"b"}`}, []string{"1"}},
		"too long together":       {"one status must hold all of them", slices.Repeat([]string{whole}, 5), []string{"0", "1", "2"}},
		"a short one at the end":  {"it still has room", append(slices.Repeat([]string{whole}, 4), "{}"), []string{"0", "1", "2", "4"}},
		"many short ones":         {"all of them have room", slices.Repeat([]string{`{"x":"b"}`}, 9), []string{"0", "1", "2", "3", "4", "5", "6", "7", "8"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, ran := deploying(t)
			a.reply = deploys(tc.arguments...)
			a.advance()
			q := a.state.Question
			if (q != nil) != (tc.asked != nil) {
				t.Fatalf("asked: %t, %s", q != nil, tc.why)
			}
			if q != nil {
				if !slices.Equal(q.CallIDs, tc.asked) || len(q.Calls) != len(tc.asked) {
					t.Errorf("it asks for %q, want %q: %s", q.CallIDs, tc.asked, tc.why)
				}
				a.spec.ResumeInput, a.spec.ResumeInputID = "approve", q.ID
				a.settle()
			}
			var want []string
			for i, r := range a.finishCalls() {
				if slices.Contains(tc.asked, fmt.Sprint(i)) {
					want = append(want, tc.arguments[i])
				} else if !r.IsError || !strings.Contains(r.Content, "cannot be shown whole") || !strings.Contains(r.Content, "8192 bytes") {
					t.Errorf("call %d: the agent is told %q", i, r.Content)
				}
			}
			slices.Sort(want)
			if got := ran(); !slices.Equal(got, want) {
				t.Errorf("%d calls ran, want %d: %s", len(got), len(want), tc.why)
			}
		})
	}
}

// What another operator has asked for blind, or has been given leave for, does not run by that.
func TestAnApprovalGivenBlindRunsNothing(t *testing.T) {
	for _, answered := range []bool{false, true} {
		a, ran := deploying(t)
		a.reply = deploys(`{"x":"`+strings.Repeat("a", 9000)+`"}`, `{"x":"b"}`)
		a.advance()
		asked := a.journal[len(a.journal)-1].Asked
		asked.CallIDs = []string{"0", "1"} // as it was done before
		a.open(loop.Opened{Holder: "two"})
		if q := a.state.Question; len(q.Calls) != 1 || q.Calls[0].ID != "1" {
			t.Errorf("it shows %+v", q.Calls)
		}
		a.spec.ResumeInput, a.spec.ResumeInputID = "approve", asked.ID
		a.settle()
		if answered {
			a.open(loop.Opened{Holder: "three"})
		}
		a.finishCalls()
		if got := ran(); !slices.Equal(got, []string{`{"x":"b"}`}) {
			t.Errorf("%.40q ran", got)
		}
	}
}

// An id is what an answer names, so it stands there as it is written: two that look alike are two.
func TestTheIDOfACallCanBeReadAndTyped(t *testing.T) {
	a, ran := deploying(t)
	a.reply = deploys(`{"x":"a"}`, `{"x":"b"}`)
	a.reply.ToolCalls[0].ID, a.reply.ToolCalls[1].ID = "call\u200b", `call\u200b`
	a.advance()
	q := a.state.Question
	if len(q.CallIDs) != 2 || q.CallIDs[0] == q.CallIDs[1] {
		t.Fatalf("%q", q.CallIDs)
	}
	for _, id := range q.CallIDs {
		if loop.Visible(id) != id {
			t.Errorf("%q cannot be read", id)
		}
	}
	a.spec.ResumeInput, a.spec.ResumeInputID = "approve "+q.CallIDs[0], q.ID
	a.settle()
	a.finishCalls()
	if got := ran(); !slices.Equal(got, []string{`{"x":"a"}`}) {
		t.Errorf("%q ran", got)
	}
}

// What is shown is what runs, also where the agent leaves its arguments out.
func TestTheArgumentsOfAnApprovalAreThoseThatRun(t *testing.T) {
	for name, arguments := range map[string]string{
		"plain": `{"to":"prod"}`, "none": "", "null": "null", "blanks between": "{\r\n\t\"to\" :\r \"prod\"}", "twice": `{"to":"test","to":"prod"}`,
		"an override": "{\"to\":\"\u202edorp\"}", "escaped already": `{"to":"\u202edorp"}`, "an escape of the escape": `{"to":"\\u202edorp"}`,
	} {
		t.Run(name, func(t *testing.T) {
			a, ran := deploying(t)
			a.reply = deploys(arguments)
			a.advance()
			shown := loop.Visible(a.state.Question.Calls[0].Arguments)
			a.spec.ResumeInput, a.spec.ResumeInputID = "approve", a.state.Question.ID
			a.settle()
			a.finishCalls()
			if got := ran(); len(got) != 1 || !sameJSON(t, got[0], shown) {
				t.Errorf("%q ran, and %q was shown", got, shown)
			}
		})
	}
}

// sameJSON tells whether two texts are JSON of the same value, field by field in their order.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	tokens := func(text string) (all []string) {
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
	return slices.Equal(tokens(a), tokens(b))
}

// Whatever an agent writes into its calls, those that are put to a human are shown whole and as they run, and no other runs.
func FuzzApprovedCalls(f *testing.F) {
	for _, arguments := range []string{`{"to":"prod"}`, "", "null", "{\r\"a\":\"\u202e\u007f\"}", `{"a":1,"a":2}`, `{"a":`, `[1]`, "{\"\U000e0041\":1e400}"} {
		f.Add(arguments, "call-1", uint16(1))
		f.Add(arguments, "\u200b", uint16(3000))
	}
	f.Fuzz(func(t *testing.T, arguments, id string, times uint16) {
		a, ran := deploying(t)
		a.reply = deploys(arguments, `{"x":"`+strings.Repeat(arguments, int(times)%5000)+`"}`, `{"x":"`+strings.Repeat("a", int(times)%9000)+`"}`)
		a.reply.ToolCalls[0].ID = id
		a.advance()
		var shown []string
		if q := a.state.Question; q != nil {
			all := 0
			for _, c := range q.Calls {
				text := loop.Visible(c.Arguments)
				shown, all = append(shown, text), all+len(c.ID)+len(c.Name)+len(text)
				if loop.Visible(c.ID) != c.ID || len(text) > loop.MaxShownArguments {
					t.Errorf("%q cannot be shown whole", c.ID)
				}
			}
			if all > loop.MaxShownCalls || len(q.Calls) != len(q.CallIDs) {
				t.Errorf("%d bytes of %d calls are shown, of %d", all, len(q.Calls), len(q.CallIDs))
			}
			a.spec.ResumeInput, a.spec.ResumeInputID = "approve", q.ID
			a.settle()
		}
		if a.next.Kind == loop.ActionRunTools {
			a.finishCalls()
		}
		got := ran()
		if len(got) != len(shown) {
			t.Errorf("%d calls ran, and %d were shown", len(got), len(shown))
		}
		for _, arguments := range got {
			if !slices.ContainsFunc(shown, func(text string) bool { return sameJSON(t, arguments, text) }) {
				t.Errorf("%.100q ran, and was not shown", arguments)
			}
		}
	})
}
