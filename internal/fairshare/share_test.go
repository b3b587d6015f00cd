package fairshare_test

import (
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
)

func TestAFreeSlotGoesToTheNamespaceWithTheFewest(t *testing.T) {
	st := newStage(t, 6)
	a := st.ask(20, "a", "m")
	st.ask(4, "b", "m") // one from the overflow
	st.end(a...)
	st.wantWoken("b/m 2", "b/m 3", "a/m 7", "a/m 8", "a/m 9")
	st.over()
}

func TestWithinANamespaceAFreeSlotGoesToTheModelWithTheFewest(t *testing.T) {
	st := newStage(t, 4)
	m := st.ask(10, "a", "m")
	st.ask(5, "a", "n") // one from the overflow
	st.end(m...)
	st.wantWoken("a/n 2", "a/m 5", "a/m 6")
	st.over()
}

func TestANamespaceWithManyModelsGetsNoMoreThanOneWithOne(t *testing.T) {
	st := newStage(t, 8)
	first := st.ask(8, "a", "m1")
	for _, model := range []string{"m1", "m2", "m3", "m4"} {
		st.ask(8, "a", model)
	}
	st.ask(8, "b", "m1")
	st.end(first...)
	if a, b := st.running("a"), st.running("b"); a != 4 || b != 4 {
		t.Errorf("a has %d calls and b %d", a, b)
	}
	st.over()
}

func TestWithinAGroupWhoCameFirstIsServedFirst(t *testing.T) {
	st := newStage(t, 1)
	st.ask(4, "a", "m")
	st.take("a/m 4")
	st.take("a/m 2") // who waits keeps its place however often it asks
	st.end("a/m 1", "a/m 2", "a/m 3")
	st.wantWoken("a/m 2", "a/m 3", "a/m 4")
	st.over()
}

func TestAskingForAnotherGroupMovesToItsEnd(t *testing.T) {
	st := newStage(t, 1)
	st.ask(2, "a", "m")
	st.ask(2, "b", "m")
	st.group["a/m 2"] = fairshare.Group{Namespace: "b", Model: "m"}
	if st.take("a/m 2") {
		t.Error("it passed one who came before it")
	}
	st.end("a/m 1", "b/m 1", "b/m 2")
	st.wantWoken("b/m 2", "a/m 2")
	st.over()
}

// Three calls run at once: one slot, and an overflow of two for those who have less than their share, which is one.
func TestEqualsTakeTurns(t *testing.T) {
	st := newStage(t, 1)
	running := st.ask(3, "a", "m")
	for _, namespace := range []string{"b", "c", "d", "e"} {
		running = append(running, st.ask(3, namespace, "m")...)
	}
	for i := 0; i < len(running); i++ {
		woken := len(st.woken)
		st.end(running[i])
		running = append(running, st.woken[woken:]...)
	}
	st.wantWoken("a/m 2", "b/m 2", "c/m 2", "d/m 1", "e/m 1", "a/m 3", "b/m 3", "c/m 3", "d/m 2", "e/m 2", "d/m 3", "e/m 3")
	st.over()
}

func TestALongQueueIsNoClaimAgainstOneWhoComesAgain(t *testing.T) {
	st := newStage(t, 1)
	var running []string
	for _, namespace := range []string{"a", "b", "c"} {
		running = append(running, st.ask(100, namespace, "m")...)
	}
	for range 20 {
		st.ask(1, "d", "m")
		for n := 0; st.running("d") == 0; n++ {
			if n > 3 {
				t.Fatal("it waits for more than one call of each other namespace")
			}
			st.end(running[0])
			running = append(running[1:], st.woken...)
			st.woken = nil
		}
		st.end(running[len(running)-1])
		running = append(running[:len(running)-1], st.woken...)
		st.woken = nil
	}
	st.over()
}
