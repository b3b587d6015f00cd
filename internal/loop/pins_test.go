package loop_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

type digests = map[string]string

func openedWith(holder string, d digests, toolsets ...string) loop.Event {
	return loop.Event{Kind: loop.KindOpened, Opened: &loop.Opened{Holder: holder, Toolsets: toolsets, ToolDigests: d}}
}

func TestWhatATaskHasAgreedToComesFromItsJournal(t *testing.T) {
	for name, tc := range map[string]struct {
		why    string
		events []loop.Event
		want   loop.Pins
	}{
		"the start":            {"what was there then", []loop.Event{openedWith("one", digests{"a__x": "1"}, "a", "empty")}, loop.Pins{Toolsets: map[string]bool{"a": true, "empty": true}, Digests: digests{"a__x": "1"}}},
		"seen later":           {"it was away at the start", []loop.Event{openedWith("one", nil), openedWith("one", digests{"a__x": "1"}, "a")}, loop.Pins{Toolsets: map[string]bool{"a": true}, Digests: digests{"a__x": "1"}}},
		"seen at a takeover":   {"the next holder is the first to see it", []loop.Event{openedWith("one", digests{"a__x": "1"}, "a"), openedWith("two", digests{"b__y": "2"}, "b")}, loop.Pins{Toolsets: map[string]bool{"a": true, "b": true}, Digests: digests{"a__x": "1", "b__y": "2"}}},
		"noted twice":          {"what was agreed to first stays", []loop.Event{openedWith("one", digests{"a__x": "1"}, "a"), openedWith("two", digests{"a__x": "2"}, "a")}, loop.Pins{Toolsets: map[string]bool{"a": true}, Digests: digests{"a__x": "1"}}},
		"an older journal":     {"it names no toolsets", []loop.Event{openedWith("one", digests{"a__x": "1"})}, loop.Pins{Digests: digests{"a__x": "1"}, Unnamed: true}},
		"an older one goes on": {"that some are named tells nothing of the others", []loop.Event{openedWith("one", digests{"a__x": "1"}), openedWith("two", digests{"b__y": "2"}, "b")}, loop.Pins{Toolsets: map[string]bool{"b": true}, Digests: digests{"a__x": "1", "b__y": "2"}, Unnamed: true}},
		"no toolset was there": {"there is nothing to tell by names", []loop.Event{openedWith("one", nil)}, loop.Pins{}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range tc.events {
				tc.events[i].Version, tc.events[i].Seq = loop.EventVersion, int64(i+1)
			}
			if diff := cmp.Diff(tc.want, folded(t, tc.events).Pins, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

// A toolset that is seen later is noted once, and that is neither a takeover nor progress: it counts no attempt and forgets none, it
// charges no call, loses none, and takes no time off the clock.
func TestToAddPinsIsNoTakeover(t *testing.T) {
	a := newTask(t, loop.Spec{})
	a.open(loop.Opened{Holder: "two"})
	a.open(loop.Opened{Holder: "three"})
	if a.state.Attempts != 2 {
		t.Fatalf("%d attempts", a.state.Attempts)
	}
	tokens := a.state.Usage.Total()
	a.clock.Add(time.Minute)
	for range 2 {
		a.keep(a.engine.Pin(a.state, &a.spec, []string{"a", "empty"}, digests{"a__x": "1"}))
	}
	if n := len(a.journal); n != 4 || a.journal[3].Opened.Holder != "three" {
		t.Errorf("%d events", n)
	}
	if a.state.Attempts != 2 || a.state.Usage.Total() != tokens || a.state.Pins.Digests["a__x"] != "1" || a.next.Kind != loop.ActionCallModel {
		t.Errorf("%d attempts, %d tokens, %+v", a.state.Attempts, a.state.Usage.Total()-tokens, a.state.Pins)
	}
	a.active(time.Minute)

	a.reply = calls("look")
	a.spec.Tools = []loop.ToolDefinition{{Name: "look"}}
	a.advance()
	a.keep(a.engine.Pin(a.state, &a.spec, []string{"b"}, nil))
	if step := a.advance(); step.Events[0].ToolsReturned == nil || step.Events[0].ToolsReturned.Results[0].Content != "seen" {
		t.Errorf("the call gives %+v", step.Events[0])
	}
}

func TestNoPinsAreAddedToATaskThatHasEnded(t *testing.T) {
	a := newTask(t, loop.Spec{Cancel: true})
	if step := a.keep(a.engine.Pin(a.state, &a.spec, []string{"a"}, nil)); len(step.Events) != 0 {
		t.Errorf("%+v follows the end", step.Events)
	}
}

// An approval is for the tool that the model was told of when it asked for the call, and for no other.
func TestAnApprovalIsForTheVeryTool(t *testing.T) {
	const asked, swapped = "asked", "swapped"
	const later = "Call it again to ask anew"
	for name, tc := range map[string]struct {
		why    string
		tool   loop.ToolDefinition // when the answer comes
		older  bool                // the journal is of before the tools of questions were noted
		crash  bool                // in the call
		pinned string
		want   string
	}{
		"the same":                            {why: "it was approved", tool: loop.ToolDefinition{Digest: asked, RequireApproval: true}, want: "seen"},
		"the same, and nobody need approve":   {why: "the policy was changed", tool: loop.ToolDefinition{Digest: asked}, want: "seen"},
		"another":                             {why: "nobody was asked about it", tool: loop.ToolDefinition{Digest: swapped, RequireApproval: true}, want: later},
		"another, and nobody need approve":    {why: "it is not what the human saw", tool: loop.ToolDefinition{Digest: swapped}, want: later},
		"another, after a crash in the call":  {why: "what may have run is not said not to have", tool: loop.ToolDefinition{Digest: swapped, RequireApproval: true, Repeatable: true}, crash: true, want: "its outcome is unknown"},
		"an older journal, as it was pinned":  {why: "an approval is not used up by an upgrade", tool: loop.ToolDefinition{Digest: asked, RequireApproval: true}, older: true, pinned: asked, want: "seen"},
		"an older journal, other than pinned": {why: "nobody knows which was shown", tool: loop.ToolDefinition{Digest: asked, RequireApproval: true}, older: true, pinned: swapped, want: later},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTask(t, loop.Spec{Tools: []loop.ToolDefinition{{Name: "deploy", Digest: asked, RequireApproval: true}}})
			a.keep(a.engine.Pin(a.state, &a.spec, []string{"ops"}, digests{"deploy": tc.pinned}))
			a.reply = calls("deploy")
			a.advance()
			if tc.older {
				for _, e := range a.journal {
					if e.ModelReplied != nil {
						e.ModelReplied.ToolDigests = nil
					}
				}
				a.state = folded(t, a.journal)
			}
			a.spec.ResumeInput, a.spec.ResumeInputID = "approve", a.state.Question.ID
			a.settle()
			tc.tool.Name = "deploy"
			a.spec.Tools = []loop.ToolDefinition{tc.tool}
			step := a.advance()
			if step.Events[0].CallsStarted == nil {
				t.Fatalf("%+v", step.Events)
			}
			if tc.crash {
				a.open(loop.Opened{Holder: "two"})
			}
			a.advance()
			results := a.state.Messages[len(a.state.Messages)-1].ToolResults
			if len(results) != 1 || !strings.Contains(results[0].Content, tc.want) {
				t.Errorf("%s: the call gives %+v, want %q", tc.why, results, tc.want)
			}
		})
	}
}

// The pins of a whole task fit an event, and what they add to a journal stays within what one turn may.
func TestTheMostPinsFitTheStore(t *testing.T) {
	toolsets, d := mostPins()
	a := newTask(t, loop.Spec{})
	before := a.state.JournalBytes
	step := a.keep(a.engine.Pin(a.state, &a.spec, toolsets, d))
	text, err := json.Marshal(step.Events[0])
	if err != nil || len(text) > 512<<10 {
		t.Errorf("it takes %d bytes: %v", len(text), err)
	}
	added := a.state.JournalBytes - before
	t.Logf("the most pins add %d bytes", added)
	if added > 150<<10 { // as TestWhatOneTurnAddsToAJournal takes it
		t.Errorf("they add %d bytes", added)
	}
	looptest.SameState(t, a.state, folded(t, a.journal))
}
