package controller

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

func newSuspects(underWay int) *suspects {
	return &suspects{clock: looptest.NewClock(), wake: func(types.NamespacedName) {}, underWay: func() int { return underWay }}
}

func suspectKey(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: fmt.Sprint(i)}
}

// However many were under way, the one that kills the operator is found alone, by halves, and nobody else ever is.
func TestACrashIsBlamedOnTheTaskThatCausesItAlone(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 64, 100} {
		for culprit := range n {
			crashes := make([]int, n)
			for i := range crashes {
				crashes[i] = firstSuspects
			}
			done, found := 0, false
			for starts := 0; !found; starts++ {
				if starts > 8 {
					t.Fatalf("%d tasks, culprit %d: not found after %d crashes", n, culprit, starts)
				}
				ss := newSuspects(n - done) // the operator starts anew
				for crashed := false; !crashed; {
					var running []int
					for i := range n {
						if crashes[i] == 0 {
							continue
						}
						if admitted, alone := ss.take(suspectKey(i), crashes[i]); admitted {
							running = append(running, i)
							found = found || alone && i == culprit
						}
					}
					crashed = slices.Contains(running, culprit)
					for _, i := range running {
						if crashed {
							crashes[i]++
							continue
						}
						ss.leave(suspectKey(i)) // it has finished its turn
						crashes[i], done = 0, done+1
					}
				}
			}
		}
	}
}

func TestANodeThatRebootsTwiceSerialisesNothing(t *testing.T) {
	ss, admitted := newSuspects(100), 0
	for i := range 100 {
		if ok, alone := ss.take(suspectKey(i), firstSuspects); ok {
			admitted++
			if alone {
				t.Error("one is said to be alone")
			}
		}
	}
	if admitted != 50 {
		t.Fatalf("%d of 100 go on at once", admitted)
	}
	for i := range 50 {
		ss.leave(suspectKey(i))
	}
	if n := len(ss.running); n != 50 {
		t.Errorf("then %d go on", n)
	}
}

func TestThoseWithMoreCrashesGoFirstAndAmongThemselves(t *testing.T) {
	ss := newSuspects(16)
	ss.take(suspectKey(1), 2)
	if ok, _ := ss.take(suspectKey(2), 4); ok {
		t.Error("it runs beside one with fewer crashes")
	}
	if ok, _ := ss.take(suspectKey(3), 2); ok {
		t.Error("it passed one with more crashes")
	}
	ss.leave(suspectKey(1))
	if _, runs := ss.running[suspectKey(2)]; !runs || len(ss.running) != 1 {
		t.Errorf("%v run", ss.running)
	}
}

// A call that hangs does not keep the others waiting. Beside it nobody is alone.
func TestASuspectThatHangsKeepsNobodyWaitingForLong(t *testing.T) {
	ss := newSuspects(1)
	clock := ss.clock.(*looptest.Clock)
	if ok, alone := ss.take(suspectKey(1), 3); !ok || !alone {
		t.Fatal("it is alone")
	}
	if ok, _ := ss.take(suspectKey(2), 3); ok {
		t.Fatal("the limit is one")
	}
	clock.Add(suspectTime)
	if ok, alone := ss.take(suspectKey(2), 3); !ok || alone {
		t.Errorf("admitted %v, alone %v", ok, alone)
	}
}

func TestATaskIsGivenUpOnlyWhenItWasAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		alone  []bool // of each opening after the start
		reason v1alpha1.LoopExitReason
	}{
		"two crashes":                         {[]bool{false}, v1alpha1.ExitCompleted},
		"many, and never alone":               {[]bool{false, false, false, false, false}, v1alpha1.ExitCompleted},
		"alone at first, and not at the last": {[]bool{true, false, false, false}, v1alpha1.ExitCompleted},
		"alone at the last":                   {[]bool{false, true}, v1alpha1.ExitError},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, interceptor.Funcs{}, answers("TASK_COMPLETE: done"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
			journal := []loop.Event{opened()}
			for _, alone := range tc.alone {
				e := opened()
				e.Opened.Alone = alone
				journal = append(journal, e)
			}
			r.write(journal...)
			if task := r.look(1); task.Status.ExitReason != tc.reason {
				t.Errorf("it is %s/%s %q", task.Status.Phase, task.Status.ExitReason, task.Status.Message)
			}
		})
	}
}

func TestATaskThatWaitsAsASuspectHoldsNothingAndSaysSo(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("TASK_COMPLETE: done"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	r.write(opened(), opened())
	hanging := r.full()
	r.look(1) // admitted, it waits for a slot
	if len(r.suspects.running) > 0 {
		t.Error("it keeps others waiting while it waits itself")
	}
	r.suspects.take(types.NamespacedName{Namespace: "other", Name: "culprit"}, 3)
	free(hanging) // a slot is held for it
	task := r.look(1)
	if c := condition(task, v1alpha1.ConditionReconciling); c.Reason != "WaitingForRetry" {
		t.Errorf("%+v", c)
	}
	if s := r.slots.Stats(); s.Held+s.Running > 0 {
		t.Errorf("it holds a slot: %+v", s)
	}
	r.suspects.leave(types.NamespacedName{Namespace: "other", Name: "culprit"})
	if task := r.look(1); task.Status.ExitReason != v1alpha1.ExitCompleted || len(r.suspects.running)+len(r.suspects.waiting) > 0 {
		t.Errorf("it is %s/%s %q", task.Status.Phase, task.Status.ExitReason, task.Status.Message)
	}
}
