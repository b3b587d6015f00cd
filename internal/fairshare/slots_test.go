package fairshare_test

import (
	"reflect"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
)

var a, b = fairshare.Group{Namespace: "a", Model: "m"}, fairshare.Group{Namespace: "b", Model: "m"}

// full makes slots that are all taken, with keys 1 to 3 of namespace a waiting. woken collects who was woken.
func full() (s *fairshare.Slots[int], slot *fairshare.Slot, woken *[]int) {
	woken = &[]int{}
	s = fairshare.New(1, func(key int) { *woken = append(*woken, key) })
	slot = s.Take(0, a)
	for key := 1; key <= 3; key++ {
		s.Take(key, a)
	}
	return s, slot, woken
}

func TestAHeldSlotCountsAsTakenUntilItsKeyTakesOrLeavesIt(t *testing.T) {
	s, slot, woken := full()
	slot.Release()
	if s.Take(4, a) != nil || s.Take(2, a) != nil {
		t.Error("the slot that is held for another was given away")
	}
	want := fairshare.Stats{Held: 1, Waiting: map[string]int{"a": 3}}
	if got := s.Stats(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if s.Waiting(1) || !s.Waiting(2) || s.Waiting(99) {
		t.Error("one that was woken waits no longer, the next one does, and one that never asked does not")
	}
	s.Leave(1)
	second := s.Take(2, a)
	if second == nil {
		t.Fatal("the next one was not given what was left")
	}
	s.Leave(2)
	want = fairshare.Stats{Running: 1, Waiting: map[string]int{"a": 2}}
	if got := s.Stats(); !reflect.DeepEqual(got, want) {
		t.Errorf("after leaving what was taken, which Release alone gives back: %+v", got)
	}
	if !reflect.DeepEqual(*woken, []int{1, 2}) {
		t.Errorf("woken: %v", *woken)
	}
}

func TestWhoLeavesIsNotWoken(t *testing.T) {
	s, slot, woken := full()
	s.Leave(1)
	s.Leave(1)
	s.Leave(99)
	slot.Release()
	if !reflect.DeepEqual(*woken, []int{2}) {
		t.Errorf("woken: %v", *woken)
	}
}

func TestAWokenKeyThatWantsAnotherGroupNowGivesItsSlotToTheNext(t *testing.T) {
	s, slot, woken := full()
	for key := 10; key < 14; key++ {
		s.Take(key, b)
	}
	slot.Release()
	if !reflect.DeepEqual(*woken, []int{1}) || s.Take(1, b) != nil {
		t.Error("it passed those who wait in that group")
	}
	if !reflect.DeepEqual(*woken, []int{1, 2}) {
		t.Errorf("woken: %v", *woken)
	}
}

func TestAKeyNeverHasTwoSlots(t *testing.T) {
	s := fairshare.New(4, func(int) {})
	first := s.Take(1, a)
	second := s.Take(1, b)
	if first == nil || second == nil {
		t.Fatal("no slot")
	}
	first.ModelDone()
	first.Release() // which the second Take gave back
	if got := s.Stats(); got.Running != 1 {
		t.Errorf("%+v", got)
	}
	second.Release()
	second.Release()
	if left := s.Left(); left != 0 {
		t.Errorf("%d things are kept", left)
	}
}

func TestLimitIsTheSizeAndTheOverflow(t *testing.T) {
	for size, want := range map[int]int{-1: 3, 0: 3, 1: 3, 4: 6, 8: 10, 16: 20, 256: 320} {
		if got := fairshare.New(size, func(int) {}).Limit(); got != want {
			t.Errorf("size %d: %d, want %d", size, got, want)
		}
	}
}

func TestWhoGoesFirstGoesBeforeTheOthersOfItsGroup(t *testing.T) {
	s, slot, woken := full()
	for key := 4; key <= 7; key++ {
		s.TakeFirst(key, a)
	}
	s.Take(8, a)
	s.Leave(7) // the last of those that go first
	s.Leave(5)
	s.TakeFirst(9, a)
	for _, key := range []int{4, 6, 9, 1, 2, 3, 8} {
		slot.Release()
		if slot = s.Take(key, a); slot == nil {
			t.Fatalf("%d is not next: woken %v", key, *woken)
		}
	}
}

func TestAModelIsFullAtItsLimit(t *testing.T) {
	s := fairshare.New(4, func(int) {})
	s.SetModelLimit("m", 1)
	if s.ModelFull("m") || s.ModelFull("other") {
		t.Error("nothing runs yet")
	}
	slot := s.Take(1, a)
	if !s.ModelFull("m") {
		t.Error("it is at its limit")
	}
	slot.ModelDone()
	if s.ModelFull("m") {
		t.Error("its call is over")
	}
}
