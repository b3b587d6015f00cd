package loop_test

import (
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// Each scenario is one rule of the loop, written as a conversation.
func TestScenarios(t *testing.T) {
	scenarios, err := looptest.Load("testdata/scenarios")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range scenarios {
		sc := &scenarios[i]
		if seen[sc.Name] {
			t.Errorf("two scenarios are named %q", sc.Name)
		}
		seen[sc.Name] = true
		t.Run(sc.File+"/"+sc.Name, func(t *testing.T) {
			t.Log(sc.Why)
			p := looptest.Play(t, sc)
			oneEnd(t, p.Journal())
			prefixesFold(t, p.Journal())
		})
	}
	t.Logf("%d scenarios", len(scenarios))
}

// oneEnd checks that nothing follows the end, and that there is one.
func oneEnd(t *testing.T, journal []loop.Event) {
	t.Helper()
	for i := range journal {
		if journal[i].Finished != nil && i != len(journal)-1 {
			t.Errorf("event %d (%s) follows the end", i+2, journal[i+1].Kind)
		}
	}
}

// prefixesFold folds every beginning of a journal: a crash can leave any of them. Neither iterations nor tokens go down.
func prefixesFold(t *testing.T, journal []loop.Event) {
	t.Helper()
	before := &loop.State{}
	for n := range journal {
		s, err := loop.Fold(journal[:n+1])
		if err != nil {
			t.Fatal(err)
		}
		if s.Iterations < before.Iterations || s.Usage.Total() < before.Usage.Total() {
			t.Errorf("event %d: iterations went from %d to %d, tokens from %d to %d",
				n+1, before.Iterations, s.Iterations, before.Usage.Total(), s.Usage.Total())
		}
		before = s
	}
}
