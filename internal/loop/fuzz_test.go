package loop_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// Whatever a journal holds, folding it and deciding on it never panics, and the loop settles.
func FuzzFold(f *testing.F) {
	scenarios, err := looptest.Load("testdata/scenarios")
	if err != nil {
		f.Fatal(err)
	}
	for i := range scenarios {
		if i%5 == 0 { // a fifth has every kind of event
			text, err := json.Marshal(looptest.Play(f, &scenarios[i]).Journal())
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	specs := []*loop.Spec{
		{Prompt: "p"},
		{
			Prompt: "p", MaxIterations: 2, MaxTokens: 5000, MaxDuration: time.Minute, InputTimeout: time.Minute, Fresh: true, ProgressLog: true,
			Strategy: loop.StrategyJudge, NoProgressTurns: 2, WrapUp: true, ResumeInput: "approve", ContextWindowTokens: 10, Told: "q", Waited: time.Hour, MaxJournalBytes: 100_000,
			Tools: []loop.ToolDefinition{{Name: "look", Repeatable: true, RequireApproval: true}}, StopWhen: mustPredicate("iteration > 1"),
		},
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var journal []loop.Event
		if json.Unmarshal(text, &journal) != nil {
			return
		}
		for i := range journal {
			journal[i].Seq, journal[i].Version = int64(i+1), loop.EventVersion // gaps are refused, and get nowhere
		}
		for _, sp := range specs {
			s, err := loop.Fold(journal)
			if err != nil {
				t.Fatal(err)
			}
			e := &loop.Engine{Clock: looptest.NewClock()}
			if _, err := e.Settle(s, sp); err != nil {
				t.Fatal(err)
			}
		}
	})
}
