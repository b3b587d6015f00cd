package fairshare_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
)

func TestBytesThatOneNamespaceHoldsLeaveSomeToTheNext(t *testing.T) {
	b := fairshare.NewBytes(800)
	if !b.Take("hog", 600) || b.Take("hog", 1) {
		t.Error("a namespace may have three quarters, and no more")
	}
	if !b.Take("small", 100) || b.Take("small", 1) || !b.Take("late", 100) || b.Take("later", 1) {
		t.Error("of the last quarter, a namespace may have an eighth of all")
	}
	b.Give("small", 100)
	if !b.Take("later", 60) || b.Used() != 760 {
		t.Errorf("what is given back goes to the next: %d are used", b.Used())
	}
}

func TestWhatIsLargerThanAllOfItIsGivenAlone(t *testing.T) {
	b := fairshare.NewBytes(100)
	if !b.Take("a", 500) || b.Take("b", 1) {
		t.Error("it is to have all of it")
	}
	b.Give("a", 500)
	if !b.Take("b", 1) || b.Take("a", 500) {
		t.Error("it is to wait until all of it is free")
	}
}

func TestWhoNeedsMoreThanItHasWaitsWithoutIt(t *testing.T) {
	var woken []string
	r := fairshare.NewRoom(800, func(key string) { woken = append(woken, key) })
	if !r.Take("a", "ns", 300) || !r.Take("a", "ns", 100) || r.Used() != 300 {
		t.Fatalf("what is enough is kept: %d are used", r.Used())
	}
	if !r.Take("b", "ns", 300) || r.Take("a", "ns", 400) || r.Used() != 300 {
		t.Fatalf("it holds what it cannot use: %d are used", r.Used())
	}
	r.Leave("b")
	if !slices.Equal(woken, []string{"a"}) || r.Used() != 400 || !r.Take("a", "ns", 400) {
		t.Errorf("woken %v, %d are used", woken, r.Used())
	}
	r.Leave("a")
	if r.Used() != 0 {
		t.Errorf("%d are used", r.Used())
	}
}

func TestWithinANamespaceWhoCameFirstGetsRoomFirst(t *testing.T) {
	var woken []string
	r := fairshare.NewRoom(800, func(key string) { woken = append(woken, key) })
	r.Take("first", "ns", 600)
	r.Take("large", "ns", 500)
	if r.Take("small", "ns", 10) {
		t.Error("it passed one who came before it")
	}
	if !r.Take("other", "b", 10) {
		t.Error("another namespace waits for it")
	}
	r.Leave("first")
	if !slices.Equal(woken, []string{"large", "small"}) {
		t.Errorf("woken: %v", woken)
	}
}

// Whatever happens, no more is given than there is, nobody waits who could be served, and nothing is left in the end.
func TestRoomKeepsItsRules(t *testing.T) {
	const size = 1000
	rng := rand.New(rand.NewPCG(1, 2))
	has, wants := map[int]int64{}, map[int]int64{}
	namespace := func(key int) string { return fmt.Sprint(key % 4) }
	r := fairshare.NewRoom(size, func(key int) {
		if _, waits := wants[key]; !waits {
			t.Fatalf("%d was woken, and does not wait", key)
		}
		has[key] = wants[key]
		delete(wants, key)
	})
	for range 100_000 {
		key := rng.IntN(20)
		if rng.IntN(2) == 0 {
			bytes := 1 + rng.Int64N(300)
			if before := has[key] + wants[key]; before >= bytes { // what it has, or waits for, is enough
				bytes = before
			}
			delete(has, key)
			wants[key] = bytes
			if r.Take(key, namespace(key), bytes) {
				delete(wants, key)
				has[key] = bytes
			}
		} else {
			delete(wants, key)
			delete(has, key)
			r.Leave(key)
		}
		used := int64(0)
		for _, n := range has {
			used += n
		}
		if used != r.Used() || used > size && len(has) > 1 {
			t.Fatalf("%d are used, %d by keys", r.Used(), used)
		}
	}
	for key := range 20 {
		r.Leave(key)
	}
	if r.Used() != 0 {
		t.Errorf("%d are left", r.Used())
	}
}
