package loop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// A task whose journal has come to its cap ends before the next call that costs, whatever that is for, and keeps its output.
func TestATaskEndsAtTheCapOfItsJournal(t *testing.T) {
	for name, tc := range map[string]struct {
		why  string
		spec loop.Spec
	}{
		"a turn":                 {"it would only add to it", loop.Spec{}},
		"no wrap-up comes after": {"it would add to it, too", loop.Spec{WrapUp: true}},
		"the judge":              {"it costs", loop.Spec{Strategy: loop.StrategyJudge}},
		"a compaction":           {"it costs, and makes no journal shorter", loop.Spec{ContextWindowTokens: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			const limit = 50_000
			a := newTask(t, tc.spec)
			a.spec.MaxJournalBytes = limit
			called := 0
			for n := 0; a.state.End == nil; n++ {
				if n > 50 {
					t.Fatalf("it has no end at %d bytes", a.state.JournalBytes)
				}
				a.reply = says(fmt.Sprint("Part ", n, strings.Repeat(" words", 1000)))
				if a.state.JournalBytes >= limit {
					t.Errorf("a call is made at %d bytes: %s", a.state.JournalBytes, tc.why)
				}
				if a.advance().Called {
					called++
				}
			}
			end := a.state.End
			if end.Reason != loop.ExitError || end.Cause != loop.CauseJournalFull || called < 3 {
				t.Errorf("after %d calls it ends as %+v", called, end)
			}
			if a.state.JournalBytes < limit || a.state.JournalBytes > limit+loop.MaxTurnBytes || !strings.HasPrefix(a.state.Output, "Part") {
				t.Errorf("at %d bytes, with the output %.10q", a.state.JournalBytes, a.state.Output)
			}
			for _, want := range []string{"its cap is 50000", "spec.maxJournalBytes", "Partial output is in status.output"} {
				if !strings.Contains(end.Message, want) {
					t.Errorf("it says %q, want %q", end.Message, want)
				}
			}
			for _, e := range a.journal {
				if e.LimitReached != nil {
					t.Error("a wrap-up was to come")
				}
			}
		})
	}
}

// What is paid for comes first: a completion, the tools of a reply, an answer and a question need no further call.
func TestAFullJournalTakesNothingFromATurnThatIsPaidFor(t *testing.T) {
	tools := []loop.ToolDefinition{{Name: "look"}, {Name: "deploy", RequireApproval: true}}
	for name, tc := range map[string]struct {
		reply *loop.Reply
		exit  loop.ExitReason
	}{
		"a completion":               {says("TASK_COMPLETE: done"), loop.ExitCompleted},
		"tools, and a completion":    {&loop.Reply{Blocks: says("TASK_COMPLETE: done").Blocks, ToolCalls: calls("look").ToolCalls}, loop.ExitCompleted},
		"an approval, and its tools": {&loop.Reply{Blocks: says("TASK_COMPLETE: done").Blocks, ToolCalls: calls("deploy").ToolCalls}, loop.ExitCompleted},
		"a question":                 {says("NEED_INPUT: which?"), loop.ExitNeedInput},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTask(t, loop.Spec{Tools: tools})
			a.spec.MaxJournalBytes = a.state.JournalBytes + 1
			a.reply = tc.reply
			for range 4 {
				if q := a.state.Question; q != nil && q.Kind == loop.QuestionApproval {
					a.spec.ResumeInput, a.spec.ResumeInputID = "approve", q.ID
				}
				a.advance()
			}
			if a.state.ExitReason() != tc.exit || a.state.JournalBytes < a.spec.MaxJournalBytes {
				t.Errorf("%q at %d bytes: %+v", a.state.ExitReason(), a.state.JournalBytes, a.state.End)
			}
		})
	}
}

// A cap that is raised lets the task go on; without output, none is promised.
func TestTheCapOfAJournalIsTheSpecsOwn(t *testing.T) {
	a := newTask(t, loop.Spec{MaxJournalBytes: 10_000})
	a.reply = calls("look")
	a.advance()
	if a.state.End != nil || a.state.Iterations != 1 {
		t.Errorf("%+v", a.state.End)
	}
	a.spec.MaxJournalBytes = 1
	a.advance()
	if end := a.state.End; end == nil || end.Cause != loop.CauseJournalFull || strings.Contains(end.Message, "status.output") {
		t.Errorf("%+v", end)
	}
}
