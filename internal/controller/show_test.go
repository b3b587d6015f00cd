package controller

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
)

const dangerous = "a\x1b]0;x\a\u009b31m\u202e\u200b\u2028\U000e0041\r\x7fz"

// texts are all strings of an object, by path.
func texts(v reflect.Value, path *field.Path, add func(path, text string)) {
	switch v.Kind() {
	case reflect.String:
		add(path.String(), v.String())
	case reflect.Pointer:
		if !v.IsNil() {
			texts(v.Elem(), path, add)
		}
	case reflect.Slice:
		for i := range v.Len() {
			texts(v.Index(i), path.Index(i), add)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				texts(v.Field(i), path.Child(f.Name), add)
			}
		}
	}
}

// onlyRead fails for a text of an object that would act on a terminal, or change how it is read.
func onlyRead(t *testing.T, object any) {
	t.Helper()
	texts(reflect.ValueOf(object), field.NewPath("status"), func(path, text string) {
		bad := func(c rune) bool {
			return c != '\n' && c != '\t' && unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co)
		}
		if at := strings.IndexFunc(text, bad); at >= 0 || !utf8.ValidString(text) {
			t.Errorf("%s holds %.60q", path, text[max(at, 0):])
		}
	})
}

// fits fails for a text that is longer than the API takes.
func fits(t *testing.T, st *v1alpha1.AgentTaskStatus) {
	t.Helper()
	limits := map[string][2]int{"message": {len(st.Message), 2048}, "summary": {len(st.Summary), 4096}, "output": {len(st.Output), 32768}}
	if q := st.InputRequest; q != nil {
		limits["question"] = [2]int{len(q.Question), 4096}
		all := 0
		for _, c := range q.ToolCalls {
			limits["id "+c.ID], limits["name "+c.ID] = [2]int{len(c.ID), 256}, [2]int{len(c.Name), 256}
			limits["arguments "+c.ID] = [2]int{len(*c.Arguments), 8192}
			all += len(c.ID) + len(c.Name) + len(*c.Arguments)
		}
		limits["all calls"] = [2]int{all, 32768}
	}
	for what, n := range limits {
		if n[0] > n[1] {
			t.Errorf("%s has %d bytes, at most %d are taken", what, n[0], n[1])
		}
	}
}

// saysAll is what a hostile model, tool and server can bring into a status, in a task that waits for an answer, and one that has ended.
func saysAll(t *testing.T, text string) []Projection {
	replied := func(calls ...loop.ToolCall) loop.Event {
		m := &loop.ModelReplied{Purpose: loop.PurposeTurn, Reply: loop.Reply{Blocks: loop.UserText(text).Blocks, ToolCalls: calls}}
		for _, c := range calls {
			m.NeedApproval = append(m.NeedApproval, c.ID)
		}
		return loop.Event{Kind: loop.KindModelReplied, ModelReplied: m}
	}
	asks := func(kind loop.QuestionKind, ids ...string) loop.Event {
		return loop.Event{Kind: loop.KindAsked, Asked: &loop.Asked{ID: "q", Kind: kind, Question: text, CallIDs: ids}}
	}
	quoted, _ := json.Marshal(map[string]string{"x": text})
	arguments := strings.NewReplacer(`\u2028`, "\u2028").Replace(string(quoted)) + "\r"
	call := func(id, name string) loop.ToolCall { return loop.ToolCall{ID: id, Name: name, Arguments: arguments} }
	out := []Projection{
		{State: fold(t, opened(), replied(), asks(loop.QuestionInput)), UnusedAnswer: text},
		{State: fold(t, opened(), replied(call("one", "look"), call(text, "look"), call("two", text)), asks(loop.QuestionApproval, "one", text, "two"))},
		{State: fold(t, opened()), Waiting: &Waiting{Reason: "ToolsetUnavailable", Message: text}},
		{State: fold(t, opened()), Waiting: &Waiting{Reason: "JournalUnwritable", Message: text, Held: true}},
		{State: fold(t, opened(), loop.Event{Kind: loop.KindModelFailed, ModelFailed: &loop.ModelFailed{Purpose: loop.PurposeTurn, Retry: true, Message: text}})},
		{State: fold(t, opened(), replied(), loop.Event{Kind: loop.KindFinished, Finished: &loop.Finished{Reason: loop.ExitCompleted, Message: text, Summary: text}})},
	}
	for i := range out {
		out[i].Task, out[i].Now = taskKey, start.Add(time.Minute)
	}
	return out
}

// People read a status raw, in a terminal. Nothing in it acts there, however long it is, and the journal keeps what was said.
func TestNothingInAStatusActsOnATerminal(t *testing.T) {
	for _, text := range []string{dangerous, strings.Repeat(dangerous, 3000), strings.Repeat("\x7f", 40_000), strings.Repeat("\U000e0041", 10_000)} {
		for _, p := range saysAll(t, text) {
			before := p.State.Output
			st := ProjectStatus(&v1alpha1.AgentTaskStatus{}, p)
			onlyRead(t, st)
			fits(t, &st)
			if p.State.Output != before {
				t.Error("the journal's own text was changed")
			}
		}
	}
}

// An approval shows the calls that can be told whole, and those only: as the JSON value that runs.
func TestAnApprovalShowsWhatRuns(t *testing.T) {
	p := saysAll(t, dangerous)[1]
	st := ProjectStatus(&v1alpha1.AgentTaskStatus{}, p)
	if calls := st.InputRequest.ToolCalls; len(calls) != 1 || calls[0].ID != "one" {
		t.Fatalf("%+v", calls)
	}
	var shown, runs any
	if err := json.Unmarshal([]byte(*st.InputRequest.ToolCalls[0].Arguments), &shown); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(p.State.Question.Calls[0].Arguments), &runs); err != nil || !reflect.DeepEqual(shown, runs) {
		t.Errorf("%v is shown, and %v runs; %v", shown, runs, err)
	}
}

// The result of an output schema is JSON of the same value, so that who reads it need not know of escapes.
func TestAResultIsTheSameValueInTheStatus(t *testing.T) {
	result := "{\r\n\"to\":\"\u202e\u007f\U000e0041\\n\"}"
	s := fold(t, opened(), loop.Event{Kind: loop.KindFinished, Finished: &loop.Finished{Reason: loop.ExitCompleted, Output: result}})
	st := ProjectStatus(&v1alpha1.AgentTaskStatus{}, Projection{State: s, Now: start})
	onlyRead(t, st)
	var shown, want any
	if err := json.Unmarshal([]byte(st.Output), &shown); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(result), &want); err != nil || !reflect.DeepEqual(shown, want) {
		t.Errorf("%q became %q", result, st.Output)
	}
}

// A tool server names its tools, and what it says when it is away.
func TestNothingInTheStatusOfAToolsetActsOnATerminal(t *testing.T) {
	names := []string{dangerous, "look", "look", "a\u200b", `a\u200b`, strings.Repeat("\x7f", 100)}
	var tools []mcp.Tool
	for _, n := range names {
		tools = append(tools, mcp.Tool{ServerName: n})
	}
	var listed []string
	for _, d := range discovered(tools) {
		listed = append(listed, d.Name)
		onlyRead(t, d)
	}
	if want := []string{loop.Visible(dangerous), "look", `a\u200b`}; !slices.Equal(listed, want) {
		t.Errorf("%q, want %q: names are unique, and have at most 256 bytes", listed, want)
	}
	conditions, err := readyCondition(nil, 1, &Waiting{Reason: "ToolsetUnavailable", Message: strings.Repeat(dangerous, 1000)}, "", "", start)
	if err != nil || len(conditions[0].Message) > 2048 {
		t.Errorf("%d bytes, %v", len(conditions[0].Message), err)
	}
	onlyRead(t, conditions)
}

// A status that another has written, or an older operator, is not passed on as it stands when a journal cannot be read.
func TestWhatStandsInAStatusIsEscapedBeforeItIsWrittenAgain(t *testing.T) {
	st := v1alpha1.AgentTaskStatus{
		Message: dangerous, Summary: dangerous, Output: dangerous,
		InputRequest: &v1alpha1.InputRequest{Question: dangerous, AskedAt: metav1.NewTime(start), ToolCalls: []v1alpha1.PendingToolCall{{ID: "a", Name: "look"}, {ID: "b", Name: "look", Arguments: new(dangerous)}}},
	}
	show(&st)
	onlyRead(t, st)
	again := *st.DeepCopy()
	if show(&again); !reflect.DeepEqual(again, st) {
		t.Error("it is escaped twice")
	}
}

// Whatever models, tools and servers say, a status holds nothing that acts, fits what the API takes, and shows what runs.
func FuzzProjectStatus(f *testing.F) {
	for _, text := range []string{dangerous, "fine", "", "\"\r\"", "{\"a\":\"\u202e\"}", "\xff\x9b", "\ufe00\ufeff"} {
		f.Add(text, uint16(1))
		f.Add(text, uint16(5000))
	}
	f.Fuzz(func(t *testing.T, text string, times uint16) {
		text = strings.ToValidUTF8(strings.Repeat(text, min(int(times), 1+100_000/(len(text)+1))), "\ufffd") // as it comes out of a journal
		for _, p := range saysAll(t, text) {
			st := ProjectStatus(&v1alpha1.AgentTaskStatus{}, p)
			onlyRead(t, st)
			fits(t, &st)
			if st.InputRequest == nil {
				continue
			}
			for i, c := range st.InputRequest.ToolCalls {
				var shown, runs any
				if json.Unmarshal([]byte(*c.Arguments), &shown) != nil || json.Unmarshal([]byte(p.State.Question.Calls[i].Arguments), &runs) != nil || !reflect.DeepEqual(shown, runs) {
					t.Errorf("%v is shown, and %v runs", shown, runs)
				}
			}
		}
	})
}
