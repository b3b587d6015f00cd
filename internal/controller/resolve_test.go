package controller

import (
	"testing"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// A Reconcile is repeated when its append fails, and what the session keeps of the spec must not change by that.
func TestAWrongSpecIsToldInTheSameWordsEachTime(t *testing.T) {
	r := &TaskReconciler{Options: Options{Clock: looptest.NewClock()}}
	task := &v1alpha1.AgentTask{Spec: v1alpha1.AgentTaskSpec{Completion: &v1alpha1.Completion{StopWhen: "iteration >"}}}
	s := &session{state: &loop.State{}}
	var first string
	for range 3 {
		p, err := r.resolve(t.Context(), task, s)
		if err != nil || p.invalid == nil {
			t.Fatalf("it is not refused: %v", err)
		}
		if first == "" {
			first = p.invalid.Message
		}
		if p.invalid.Message != first {
			t.Errorf("first %q, then %q", first, p.invalid.Message)
		}
	}
}
