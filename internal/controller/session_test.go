package controller

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

func numbered(i int) *v1alpha1.AgentTask {
	return &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), ResourceVersion: "1"}}
}

// stateOf is a state of that size.
func stateOf(bytes int) *loop.State { return &loop.State{Output: strings.Repeat("x", bytes)} }

func TestWhatIsHeldOfTasksThatNothingRunsForIsBounded(t *testing.T) {
	const each, tasks = 1 << 20, 200
	var ss sessions
	for i := range tasks {
		s := ss.of(numbered(i))
		s.state = stateOf(each)
		ss.rest(s, false)
	}
	held := int64(0)
	for i := range tasks {
		s := ss.of(numbered(i))
		if s.state != nil {
			held += s.state.HeldBytes()
		} else if i >= tasks-maxHeldBytes/each/2 {
			t.Fatalf("task %d is let go before those that rest longer", i)
		}
	}
	if held == 0 || held > maxHeldBytes {
		t.Errorf("%d bytes are held, at most %d should be", held, maxHeldBytes)
	}
	if ss.held != 0 || ss.resting.Len() != 0 {
		t.Errorf("with a Reconcile busy for each, %d bytes rest in %d sessions", ss.held, ss.resting.Len())
	}
}

func TestASessionThatIsBusyOrHoldsUnsavedEventsIsKept(t *testing.T) {
	var ss sessions
	busy, unsaved := ss.of(numbered(1)), ss.of(numbered(2))
	busy.state, unsaved.state = stateOf(maxHeldBytes), stateOf(maxHeldBytes)
	unsaved.unsaved = []loop.Event{{Seq: 1}}
	ss.rest(unsaved, true)
	for i := range 3 {
		s := ss.of(numbered(10 + i))
		s.state = stateOf(maxHeldBytes)
		ss.rest(s, false)
	}
	if busy.state == nil {
		t.Error("what a Reconcile works with was let go")
	}
	if ss.of(numbered(2)) != unsaved || unsaved.state == nil {
		t.Error("what is paid for and nowhere else was let go")
	}
}

func TestAnIdleTaskIsLetGo(t *testing.T) {
	var ss sessions
	s := ss.of(numbered(1))
	s.state = stateOf(1)
	ss.rest(s, true)
	if len(ss.byName) != 0 || ss.held != 0 {
		t.Errorf("%d sessions, %d bytes are left", len(ss.byName), ss.held)
	}
}

// Tasks of the same name may follow one another faster than their events are handled.
func TestANewTaskOfTheSameNameGetsASessionOfItsOwn(t *testing.T) {
	var ss sessions
	first := ss.of(numbered(1))
	ss.rest(first, false)
	next := numbered(1)
	next.UID, next.ResourceVersion = "next", "2"
	second := ss.of(next)
	if _, deleted := first.live.now(); !deleted || second == first || second.uid != "next" {
		t.Errorf("deleted %v, the same session %v", deleted, second == first)
	}
	ss.rest(first, false) // a late end of the first one's Reconcile
	if ss.byName[first.key] != second || ss.resting.Len() != 0 {
		t.Error("the first task's end touched the second")
	}
}
