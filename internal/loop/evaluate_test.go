package loop_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

func mustSchema(t testing.TB, text string) *loop.Schema {
	t.Helper()
	s, err := loop.CompileSchema(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// replied is the ModelReplied event of a turn of a task, as it is in the journal.
func replied(t *testing.T, sp *loop.Spec, r *loop.Reply) (event map[string]any, raw loop.Event) {
	t.Helper()
	e := &loop.Engine{Clock: looptest.NewClock(), Model: modelThat(r, nil)}
	step, err := e.Advance(t.Context(), opened(t, e, sp), loop.FixedSpec(sp))
	if err != nil || len(step.Events) == 0 || step.Events[0].ModelReplied == nil {
		t.Fatalf("%+v, %v", step, err)
	}
	text, err := json.Marshal(step.Events[0].ModelReplied)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &event); err != nil {
		t.Fatal(err)
	}
	return event, step.Events[0]
}

// What a reply is worth is found once, when it comes in, and stands in the journal: nothing that reads the journal evaluates.
func TestWhatAReplyIsWorthIsInTheJournal(t *testing.T) {
	spec := &loop.Spec{Output: mustSchema(t, `{"type":"object","required":["n"]}`), StopWhen: mustPredicate(`usage.totalTokens == 30 && iteration == 1 && toolCalls[0].name == "look"`)}
	look := calls("look").ToolCalls
	for name, c := range map[string]struct {
		reply            loop.Reply
		output, stopWhen string
	}{
		"a result, and true":   {loop.Reply{Blocks: says(`{"n":1}`).Blocks, ToolCalls: look, Usage: loop.Usage{TotalTokens: 30}}, `json:{"n":1}`, "true:true"},
		"a fault, and false":   {loop.Reply{Blocks: says(`{"m":1}`).Blocks, ToolCalls: look, Usage: loop.Usage{TotalTokens: 31}}, "fault:at '': missing property 'n'", ""},
		"no JSON, and neither": {loop.Reply{Blocks: says("prose").Blocks, Usage: loop.Usage{TotalTokens: 30}}, "fault:the reply has no JSON: give it as the argument output of task_complete, or as the only text of the reply", "fault:index out of bounds: 0"},
	} {
		event, _ := replied(t, spec, &c.reply)
		for field, want := range map[string]string{"output": c.output, "stopWhen": c.stopWhen} {
			got, _ := event[field].(map[string]any)
			if got["schema"] == nil && got["expression"] == nil {
				t.Errorf("%s: %s is %v, without a digest", name, field, got)
			}
			delete(got, "schema")
			delete(got, "expression")
			key, value, _ := strings.Cut(want, ":")
			if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || fmt.Sprint(got[key]) != value) {
				t.Errorf("%s: %s is %v, want %s", name, field, got, want)
			}
		}
	}
	event, _ := replied(t, &loop.Spec{}, says("prose"))
	if event["output"] != nil || event["stopWhen"] != nil {
		t.Errorf("a task without a schema and an expression: %v", event)
	}
	cut := says(`{"n":1}`)
	cut.Finish = loop.FinishLength
	if event, _ := replied(t, spec, cut); event["stopWhen"] != nil {
		t.Errorf("a reply that was cut off is no evidence: %v", event)
	}
}

// journalOf is a journal that ends with a turn's reply.
func journalOf(r loop.ModelReplied) []loop.Event {
	at := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	r.Purpose = loop.PurposeTurn
	return []loop.Event{
		{Version: loop.EventVersion, Seq: 1, Time: at, Kind: loop.KindOpened, Opened: &loop.Opened{Holder: "the one before"}},
		{Version: loop.EventVersion, Seq: 2, Time: at, Kind: loop.KindModelReplied, ModelReplied: &r},
	}
}

// A schema that is slow to evaluate must not make a crash loop of what opens the journal: to open it evaluates nothing.
func TestToOpenAJournalEvaluatesNothing(t *testing.T) {
	for name, c := range map[string]struct{ spec *loop.Spec }{
		"a schema":   {&loop.Spec{Output: mustSchema(t, `{"type":"object"}`)}},
		"a stopWhen": {&loop.Spec{StopWhen: mustPredicate("true")}},
	} {
		text := `TASK_COMPLETE: {"n":1}`
		if c.spec.StopWhen != nil {
			text = "prose"
		}
		s, err := loop.Fold(journalOf(loop.ModelReplied{Reply: *says(text)})) // without what an evaluation would have said
		if err != nil {
			t.Fatal(err)
		}
		e := &loop.Engine{Clock: looptest.NewClock()}
		if _, err := e.Open(s, c.spec, loop.Opened{Holder: "the next"}); err != nil {
			t.Fatal(err)
		}
		if s.End != nil {
			t.Errorf("%s was evaluated: %+v", name, s.End)
		}
	}
}

// A task completes with what satisfies the schema that it has. What was found with another one does not count, and the agent
// gives its result again; a new stopWhen is evaluated over the next reply.
func TestAnEditBetweenReplyAndDecision(t *testing.T) {
	const schema, stop = `{"type":"object","required":["n"]}`, "iteration == 1"
	claim, remark := says(`TASK_COMPLETE: {"n":1}`), says(`{"n":1}`)
	before := &loop.Spec{Output: mustSchema(t, schema), StopWhen: mustPredicate(stop)}
	for name, c := range map[string]struct {
		reply *loop.Reply
		now   *loop.Spec
		end   string // the output of a completion, or what the nudge says
	}{
		"nothing":                   {claim, before, `{"n":1}`},
		"the schema, as it is":      {claim, &loop.Spec{Output: mustSchema(t, ` { "required":["n"], "type":"object" } `)}, `{"n":1}`},
		"another schema":            {claim, &loop.Spec{Output: mustSchema(t, `{"required":["n"]}`)}, "the output schema was changed after your reply"},
		"no schema any more":        {claim, &loop.Spec{}, ""},
		"stopWhen, not the schema":  {remark, &loop.Spec{Output: mustSchema(t, schema), StopWhen: mustPredicate("true")}, "Go on with the task"},
		"the schema, not stopWhen":  {remark, &loop.Spec{Output: mustSchema(t, `{"required":["n"]}`), StopWhen: mustPredicate(stop)}, "Go on with the task"},
		"no schema, stopWhen is as": {remark, &loop.Spec{StopWhen: mustPredicate(stop)}, ""},
		"neither":                   {remark, before, `{"n":1}`},
	} {
		_, event := replied(t, before, c.reply)
		s, err := loop.Fold(journalOf(*event.ModelReplied))
		if err != nil {
			t.Fatal(err)
		}
		got := loop.Decide(s, c.now, time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)).Event
		switch {
		case got.Finished != nil && got.Finished.Reason == loop.ExitCompleted && got.Finished.Output == c.end:
		case got.Nudged != nil && c.end != "" && strings.Contains(got.Nudged.Text, c.end):
		default:
			t.Errorf("%s: %+v %+v, want %q", name, got.Finished, got.Nudged, c.end)
		}
	}
}

// The bounds that an expression is compiled for are those of a reply: no turn has more in it.
func TestAStopWhenIsCompiledForTheLargestTurn(t *testing.T) {
	if _, err := loop.CompilePredicate(`toolCalls.all(a, toolCalls.all(b, a.arguments == b.arguments && response.contains("x")))`); err == nil {
		t.Error("4096 searches through the longest response are allowed")
	}
	huge := strings.Repeat("x", 1<<20)
	r := loop.Reply{Blocks: says(huge).Blocks, Finish: loop.FinishStop}
	for range 100 {
		r.ToolCalls = append(r.ToolCalls, loop.ToolCall{Name: "look", Arguments: huge})
	}
	_, event := replied(t, &loop.Spec{}, &r)
	kept := event.ModelReplied.Reply
	arguments := 0
	for _, c := range kept.ToolCalls {
		arguments += len(c.Name) + len(c.Arguments)
	}
	if response := len(strings.Join(kept.Texts(), "\n\n")); response > 129<<10 || len(kept.ToolCalls) > 64 || arguments > 196<<10 {
		t.Errorf("%d bytes of text, %d calls of %d bytes", response, len(kept.ToolCalls), arguments)
	}
}
