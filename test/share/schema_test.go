//go:build share

package share

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// steps is a model that works for some turns and is done in the last.
func steps(n int) answer {
	return func(r *fakechat.Request) fakechat.Reply {
		if r.Replies() >= n-1 {
			return fakechat.Reply{Text: "TASK_COMPLETE: done", In: 100, Out: 10}
		}
		return fakechat.Reply{Text: fmt.Sprintf("Step %d", r.Replies()), In: 100, Out: 10}
	}
}

// Whoever may create a task may write any schema. The pace of the others, and what the bomb's own owner says, must not depend
// on it.
func TestSchemaBombsLeaveOthersTheirPace(t *testing.T) {
	const most = 1.5 // times as long as without bombs
	ordinary, steady, rounds, depths := 50, 40, 3, []int{}
	for depth := 10; depth <= 30; depth++ {
		depths = append(depths, depth)
	}
	if testing.Short() {
		ordinary, steady, rounds, depths = 20, 5, 2, []int{10, 18, 24}
	}
	r := newRig(t)
	all := bombs(depths)
	r.model(namespace, "default", steps(steady))
	r.model(namespace, "bombs", lay(all))
	r.operator("manager")
	_, err := r.pace("warmup", ordinary)
	r.must(err)

	var alone, beside []time.Duration
	for round := range rounds {
		took, err := r.pace(fmt.Sprintf("alone-%d", round), ordinary)
		r.must(err)
		alone = append(alone, took)
		field := r.plant(round, all)
		took, err = r.pace(fmt.Sprintf("beside-%d", round), ordinary)
		field.clear()
		if err != nil {
			t.Fatalf("alone %v, beside %d bombs: %v", alone, len(all), err)
		}
		beside = append(beside, took)
	}
	slices.Sort(alone)
	slices.Sort(beside)
	ratio := float64(beside[rounds/2]) / float64(alone[rounds/2])
	t.Logf("%d tasks of %d turns: alone %v, beside %d bombs %v, ratio of the medians %.2f", ordinary, steady, alone, len(all), beside, ratio)
	if ratio > most && !testing.Short() { // the short part takes too little time to be measured
		t.Errorf("beside bombs it took %.2f times as long, want at most %.1f", ratio, most)
	}
}

// pace is how long ordinary tasks take, from the first's creation to the last's end.
func (r *rig) pace(prefix string, n int) (time.Duration, error) {
	r.Helper()
	began := time.Now()
	r.create(tasks(prefix, n)...)
	end, err := r.see(time.Minute, n, are(prefix, v1alpha1.PhaseSucceeded))
	return end.Sub(began).Round(10 * time.Millisecond), err
}
