package controller

import (
	"context"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

func TestProgressGivesWayToAppends(t *testing.T) {
	clock := looptest.NewClock()
	p := newPace(clock)
	allowed := func() (n int) {
		for range 10 * progressWrites {
			if p.allow() {
				n++
			}
		}
		return n
	}
	for range busyAppends - 1 {
		p.append()
	}
	if n := allowed(); n != 10*progressWrites {
		t.Errorf("below %d appends a second, progress is held back after %d writes", busyAppends, n)
	}
	p.append()
	if n := allowed(); n != progressWrites {
		t.Errorf("%d writes at once beside %d appends a second, want %d", n, busyAppends, progressWrites)
	}
	clock.Add(time.Second)
	if n := allowed(); n != progressWrites {
		t.Errorf("%d writes a second later, want %d: what the last second was like still counts", n, progressWrites)
	}
	clock.Add(time.Second)
	if n := allowed(); n != 10*progressWrites {
		t.Errorf("after a second without appends, progress is held back after %d writes", n)
	}
}

func TestSlotsBoundCallsAndOutnumberNoWorker(t *testing.T) {
	for n, want := range map[int]int{1: 2, 4: 6, 256: 321} {
		if got := make(slots, n).workers(); got != want {
			t.Errorf("%d slots: %d workers, want %d", n, got, want)
		}
	}
	s := make(slots, 1)
	free := s.take(t.Context(), t.Context())
	if free == nil {
		t.Fatal("no slot though one is free")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for name, ctxs := range map[string][2]context.Context{
		"the operator stops":      {ended, t.Context()},
		"the task is interrupted": {t.Context(), ended},
	} {
		if s.take(ctxs[0], ctxs[1]) != nil {
			t.Errorf("%s: got a slot that another has", name)
		}
	}
	free()
	if s.take(t.Context(), t.Context()) == nil {
		t.Error("a slot that was given back is not free")
	}
}
