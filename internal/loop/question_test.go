package loop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

const formerID = "approval-1-abcdef"

// input is what one version of the object holds: the text, the id beside it, and whether its status shows the question.
type input struct {
	text, id string
	told     bool
}

// What answers a question and what does not. Each case is what versions of the object hold, one after the other, while the
// question is open; before it was asked, the first of them was there.
func TestWhatAnswersAQuestion(t *testing.T) {
	const open = "open"
	for name, tc := range map[string]struct {
		why      string
		approval bool
		before   string
		seen     []input
		answered bool
		unused   string // what the user is told of the last version
	}{
		"plain text":                         {why: "the question is shown", seen: []input{{"blue", "", true}}, answered: true},
		"plain text, too early":              {why: "nobody can have seen the question", seen: []input{{"blue", "", false}}, unused: "was written before"},
		"too early, and then shown":          {why: "it does not become an answer by that", seen: []input{{"blue", "", false}, {"blue", "", true}}, unused: "was written before"},
		"another text, once shown":           {why: "the human has seen it", seen: []input{{"blue", "", false}, {"blue", "", true}, {"red", "", true}}, answered: true},
		"too early, and then its id":         {why: "the id says what is meant", seen: []input{{"blue", "", false}, {"blue", open, true}}, answered: true},
		"with the id, at once":               {why: "nobody can know the id who was not told", seen: []input{{"blue", open, false}}, answered: true},
		"what was there before":              {why: "an old answer is left", before: "blue", seen: []input{{"blue", "", true}}},
		"what was there before, with its id": {why: "the id says what is meant", before: "yes", seen: []input{{"yes", open, true}}, answered: true},
		"emptied, and the same words":        {why: "they are new then", before: "yes", seen: []input{{"", "", true}, {"yes", "", true}}, answered: true},
		"emptied and written too early":      {why: "nobody can have seen the question", before: "yes", seen: []input{{"", "", false}, {"yes", "", false}, {"yes", "", true}}, unused: "was written before"},
		"beside a former id":                 {why: "it is meant for another question", before: "yes", seen: []input{{"no", formerID, true}}, unused: `spec.resumeInputID is "approval-1-abcdef"`},
		"the former answer and its id":       {why: "an old answer is left", before: "yes", seen: []input{{"yes", formerID, true}}},
		"blanks":                             {why: "nobody means them", seen: []input{{" \n", open, true}}},

		"an approval without its id":           {why: "it may be meant for another call", approval: true, seen: []input{{"approve", "", true}}, unused: "an approval is answered by its id alone"},
		"in other words":                       {why: "it may be meant for another call", approval: true, before: "approve", seen: []input{{"Approve!", "", true}}, unused: "an approval is answered by its id alone"},
		"an approval by its id":                {why: "the id says which call", approval: true, seen: []input{{"approve", open, true}}, answered: true},
		"by the word of the one before":        {why: "the id says which call", approval: true, before: "approve", seen: []input{{"approve", formerID, true}, {"approve", open, true}}, answered: true},
		"by the id of the one before":          {why: "it is another call", approval: true, before: "yes", seen: []input{{"approve", formerID, true}}, unused: `the open question is "approval-1-`},
		"the approval that was there":          {why: "it is the old one", approval: true, before: "approve", seen: []input{{"approve", formerID, true}}},
		"an approval without its id, too soon": {why: "it needs the id in any case", approval: true, seen: []input{{"approve", "", false}}, unused: "an approval is answered by its id alone"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTask(t, loop.Spec{ResumeInput: tc.before, Tools: []loop.ToolDefinition{{Name: "deploy", RequireApproval: true}}})
			a.reply = says("NEED_INPUT: which?")
			if tc.approval {
				a.reply = calls("deploy")
			}
			a.advance()
			q := a.state.Question
			for _, in := range tc.seen {
				a.spec.ResumeInput, a.spec.ResumeInputID, a.spec.Told = in.text, in.id, formerID
				if in.id == open {
					a.spec.ResumeInputID = q.ID
				}
				if in.told {
					a.spec.Told = q.ID
				}
				a.settle()
			}
			if (a.state.Question == nil) != tc.answered {
				t.Errorf("answered: %t, %s", a.state.Question == nil, tc.why)
			}
			told := loop.UnusedAnswer(a.state, &a.spec)
			if (told == "") != (tc.unused == "") || !strings.Contains(told, tc.unused) || told != "" && !strings.Contains(told, `spec.resumeInputID to "`+q.ID+`"`) {
				t.Errorf("the user is told %q, want %q", told, tc.unused)
			}
			if text := tc.seen[len(tc.seen)-1].text; len(text) > 3 && strings.Contains(told, text) && text != "approve" {
				t.Errorf("the user's text is in %q", told)
			}
		})
	}
}

// A text that came too early is noted once, not at each look.
func TestAnEarlyTextIsNotedOnce(t *testing.T) {
	a := newTask(t, loop.Spec{})
	a.reply = says("NEED_INPUT: which?")
	a.advance()
	a.spec.ResumeInput = "blue"
	if step := a.settle(); len(step.Events) != 1 || step.Events[0].InputSeen == nil {
		t.Errorf("%+v", step)
	}
	if step := a.settle(); len(step.Events) != 0 {
		t.Errorf("it is noted again: %+v", step)
	}
}

// A text may come at any moment between the read of the spec by which a question is asked and the write that shows it; the
// cache may be behind; another operator may take over between. Nothing of that makes an answer of it.
func TestALateTextAnswersNoQuestionThatCameAfterIt(t *testing.T) {
	const late = "approve, I mean the first one"
	for name, tc := range map[string]struct{ reply *loop.Reply }{"a question": {says("NEED_INPUT: the second?")}, "an approval": {calls("deploy")}} {
		for _, at := range []string{"while the call runs", "right after", "after the status is known to be behind", "when the next operator reads"} {
			t.Run(name+", "+at, func(t *testing.T) {
				sp := loop.Spec{Tools: []loop.ToolDefinition{{Name: "deploy", RequireApproval: true}}, Told: formerID}
				specs := looptest.NewSpecs(&sp)
				write := func(told string) {
					next := *specs.Spec()
					next.ResumeInput, next.Told = late, told
					specs.Set(&next)
				}
				e := &loop.Engine{Clock: looptest.NewClock(), Model: loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
					if at == "while the call runs" {
						write(formerID)
					}
					return tc.reply, nil
				})}
				s := &loop.State{}
				first, err := e.Open(s, &sp, loop.Opened{Holder: "one"})
				if err != nil {
					t.Fatal(err)
				}
				step, err := e.Advance(t.Context(), s, specs)
				if err != nil {
					t.Fatal(err)
				}
				q := s.Question
				if at != "when the next operator reads" {
					write(formerID)
				}
				if _, err := e.Settle(s, specs.Spec()); err != nil {
					t.Fatal(err)
				}
				if at == "when the next operator reads" {
					s = folded(t, append(first.Events, step.Events...))
					write(formerID)
					if _, err := e.Open(s, specs.Spec(), loop.Opened{Holder: "two"}); err != nil {
						t.Fatal(err)
					}
				}
				write(q.ID) // now it is shown, and the text is still there
				if _, err := e.Settle(s, specs.Spec()); err != nil {
					t.Fatal(err)
				}
				if s.Question == nil {
					t.Error("it is answered")
				}
			})
		}
	}
}
