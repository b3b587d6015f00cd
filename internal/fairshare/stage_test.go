package fairshare_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
)

// stage plays tasks that make calls. A task is named by its group and a number, such as "b/m 3"; whoever is woken begins its
// call at once.
type stage struct {
	t     *testing.T
	slots *fairshare.Slots[string]
	calls map[string]*fairshare.Slot
	group map[string]fairshare.Group
	// woken are the tasks that were woken and have begun, in that order.
	woken []string
	asked map[fairshare.Group]int
}

func newStage(t *testing.T, size int) *stage {
	st := &stage{t: t, calls: map[string]*fairshare.Slot{}, group: map[string]fairshare.Group{}, asked: map[fairshare.Group]int{}}
	st.slots = fairshare.New(size, func(key string) {
		st.woken = append(st.woken, key)
		if !st.take(key) {
			t.Errorf("%s was woken for no slot", key)
		}
	})
	return st
}

func (st *stage) take(key string) bool {
	slot := st.slots.Take(key, st.group[key])
	if slot != nil {
		st.calls[key] = slot
	}
	return slot != nil
}

// ask lets n more tasks of a namespace ask for calls of a model, and tells which have begun at once.
func (st *stage) ask(n int, namespace, model string) (begun []string) {
	g := fairshare.Group{Namespace: namespace, Model: model}
	for range n {
		st.asked[g]++
		key := fmt.Sprintf("%s/%s %d", namespace, model, st.asked[g])
		st.group[key] = g
		if st.take(key) {
			begun = append(begun, key)
		}
	}
	return begun
}

// end ends calls.
func (st *stage) end(keys ...string) {
	st.t.Helper()
	for _, key := range keys {
		slot := st.calls[key]
		if slot == nil {
			st.t.Fatalf("%s has no slot", key)
		}
		delete(st.calls, key)
		slot.Release()
	}
}

// running counts the calls of a namespace.
func (st *stage) running(namespace string) (n int) {
	for key := range st.calls {
		if st.group[key].Namespace == namespace {
			n++
		}
	}
	return n
}

// wantWoken checks who was woken since the last time.
func (st *stage) wantWoken(want ...string) {
	st.t.Helper()
	if !slices.Equal(st.woken, want) {
		st.t.Errorf("woken: %q, want %q", st.woken, want)
	}
	st.woken = nil
}

func (st *stage) wantBegun(got []string, want int, why string) {
	st.t.Helper()
	if len(got) != want {
		st.t.Errorf("%s: %d began, want %d", why, len(got), want)
	}
}

// over ends everything, and checks that nothing of it is kept.
func (st *stage) over() {
	st.t.Helper()
	for key := range st.group {
		st.slots.Leave(key)
	}
	for len(st.calls) > 0 {
		for key := range st.calls {
			st.end(key)
		}
	}
	for g := range st.asked {
		st.slots.SetModelLimit(g.Model, 0)
	}
	if left := st.slots.Left(); left != 0 {
		st.t.Errorf("%d things are kept after everybody has left", left)
	}
}
