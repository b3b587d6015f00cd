package transcripttest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// A step is text of which three stay below the end of a segment (8 KiB compressed), and five pass it. So among
// the prefixes of up to six steps are a journal without a segment, an open segment, one that the next step closes, one that
// is just closed, and a second one.
const (
	step     = 2300
	prefixes = 7
)

var conflictRules = map[string]rule{
	"of two writers exactly one wins": {
		why: "an event that two holders append after the same one would fork the task",
		run: func(t *testing.T, s Store) {
			for prefix := range prefixes {
				for name, size := range map[string]int{"small": 200, "large": 60_000} {
					if err := twoWriters(t, s, prefix, size); err != nil {
						t.Errorf("after %d events, %s event: %v", prefix, name, err)
					}
				}
			}
		},
	},
	"a former holder never gets past the new one's Opened": {
		why: "its late reply must be lost, wherever in the segments the new holder began and how far it has come",
		run: func(t *testing.T, s Store) {
			for prefix := range prefixes {
				for _, opened := range []int{10, 9_000} {
					for _, more := range []int{0, 1, 5} {
						if err := formerHolder(t, s, prefix, opened, more); err != nil {
							t.Errorf("after %d events, Opened of %d bytes, %d events later: %v", prefix, opened, more, err)
						}
					}
				}
			}
		},
	},
	"a conflict is for ever": {
		why: "who did not notice it the first time must not slip in later",
		run: func(t *testing.T, s Store) {
			ref := newTask(t)
			stale, w := open(t, s, ref), open(t, s, ref)
			w.add("mine")
			for range 3 {
				if err := stale.try(stale.next("late")); !errors.Is(err, transcript.ErrConflict) {
					t.Errorf("want a conflict, got %v", err)
				}
			}
			w.verify()
		},
	},
	"another seq than the journal's last is a conflict": {
		why: "the caller's state is not what the journal folds to",
		run: func(t *testing.T, s Store) {
			for _, expect := range []int64{0, 1, 3, 100} {
				w := open(t, s, newTask(t))
				w.add("one", "two")
				err := w.journal.Append(t.Context(), expect, []loop.Event{reply(expect+1, "x")})
				if !errors.Is(err, transcript.ErrConflict) {
					t.Errorf("expected seq %d of 2: want a conflict, got %v", expect, err)
				}
				if err := w.journal.Append(t.Context(), 2, w.next("x")); !errors.Is(err, transcript.ErrConflict) {
					t.Errorf("the right seq after a wrong one: want a conflict, got %v", err)
				}
				w.verify()
			}
		},
	},
	"a stale writer conflicts after a large event closed the segment": {
		why: "were a segment begun while the one before is open, the stale writer could go on in that one",
		run: func(t *testing.T, s Store) {
			ref := newTask(t)
			open(t, s, ref).add("one")
			stale, w := open(t, s, ref), open(t, s, ref)
			w.add(noise(300_000))
			w.add("next segment")
			if err := stale.try(stale.next("late")); !errors.Is(err, transcript.ErrConflict) {
				t.Errorf("want a conflict, got %v", err)
			}
			w.verify()
		},
	},
}

// twoWriters has two writers append after the same prefix.
func twoWriters(t *testing.T, s Store, prefix, size int) error {
	ref := newTask(t)
	w := open(t, s, ref)
	for range prefix {
		w.add(noise(step))
	}
	a, b := open(t, s, ref), open(t, s, ref)
	errs := make(chan error, 2)
	for i, c := range []*writer{a, b} {
		events := c.next(fmt.Sprint(i, noise(size)))
		go func() { errs <- c.try(events) }()
	}
	wins := 0
	for range 2 {
		switch err := <-errs; {
		case err == nil:
			wins++
		case !errors.Is(err, transcript.ErrConflict):
			return fmt.Errorf("want a conflict, got %w", err)
		}
	}
	if wins != 1 {
		return fmt.Errorf("%d writers succeeded", wins)
	}
	if len(b.events) > len(a.events) {
		a = b
	}
	a.verify()
	a.add("on")
	a.verify()
	return nil
}

// formerHolder has a new holder open the journal and go on before the former one, which knows a prefix, appends.
func formerHolder(t *testing.T, s Store, prefix, opened, more int) error {
	former := open(t, s, newTask(t))
	for range prefix {
		former.add(noise(step))
	}
	w := open(t, s, former.ref)
	if err := w.try([]loop.Event{openedBy(w.seq()+1, noise(opened))}); err != nil {
		return err
	}
	for range more {
		w.add(noise(step))
	}
	if err := former.try(former.next("late")); !errors.Is(err, transcript.ErrConflict) {
		return fmt.Errorf("want a conflict, got %w", err)
	}
	w.verify()
	return nil
}
