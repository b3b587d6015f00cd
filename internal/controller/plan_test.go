package controller

import (
	"testing"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// A Reconcile is repeated when its append fails, and what the session keeps of the spec must not change by that.
func TestAWrongSpecIsToldInTheSameWordsEachTime(t *testing.T) {
	task := aTask(func(s *v1alpha1.AgentTaskSpec) { s.Completion = &v1alpha1.Completion{StopWhen: "iteration >"} })
	s := &session{state: &loop.State{}, live: newLive(task)}
	var first string
	for range 3 {
		bad := (&plan{s: s}).invalid()
		if bad == nil {
			t.Fatal("it is not refused")
		}
		if first == "" {
			first = bad.Message
		}
		if bad.Message != first {
			t.Errorf("first %q, then %q", first, bad.Message)
		}
	}
}

func TestTheLowerOfTwoJournalCapsHolds(t *testing.T) {
	for name, tc := range map[string]struct {
		operator, task, want int64
	}{
		"none":                  {0, 0, 0},
		"the operator's":        {100, 0, 100},
		"the task's":            {0, 50, 50},
		"the task's is lower":   {100, 50, 50},
		"the task's is lowered": {100, 500, 100},
	} {
		task := aTask(func(s *v1alpha1.AgentTaskSpec) {
			if tc.task > 0 {
				s.MaxJournalBytes = &tc.task
			}
		})
		p := &plan{s: &session{state: &loop.State{}, live: newLive(task)}, limits: specLimits{journalBytes: tc.operator}}
		if got := p.Spec().MaxJournalBytes; got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// A call asks for the spec at each chunk, and is told of a change by the watch.
func TestThePlanFollowsTheNewestVersion(t *testing.T) {
	s := &session{state: &loop.State{}, live: newLive(version("1", "10", "first"))}
	p := &plan{s: s}
	before, changed := p.Spec(), p.Changed()
	if p.Spec() != before {
		t.Error("the spec is made anew though nothing changed")
	}
	next := version("1", "11", "first")
	next.Spec.Cancel = new(true)
	s.live.see(next)
	<-changed
	if !p.Spec().Cancel {
		t.Error("the cancel is not seen")
	}
	s.live.end()
	if sp := p.Spec(); !sp.Cancel || sp.CancelWhy == "" {
		t.Errorf("a deleted task is to be cancelled, it is %+v", sp)
	}
}
