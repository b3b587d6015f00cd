package controller

import (
	"context"
	"testing"
)

func TestProgressGivesWayToAppends(t *testing.T) {
	p := newPace()
	var ends []func()
	for range quietAppends {
		ends = append(ends, p.append())
	}
	for range 10 * progressWrites {
		if !p.allow() {
			t.Fatal("progress is held back although the API server is as good as idle")
		}
	}
	ends = append(ends, p.append())
	allowed := 0
	for range 10 * progressWrites {
		if p.allow() {
			allowed++
		}
	}
	if allowed < progressWrites || allowed > 2*progressWrites {
		t.Errorf("%d writes were allowed at once beside appends, want %d", allowed, progressWrites)
	}
	for _, end := range ends {
		end()
	}
	if !p.allow() {
		t.Error("progress is held back after the appends have ended")
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
