package transcripttest

import (
	"context"
	"errors"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

var (
	lost   = transcript.Fault{Err: errLost, Applied: true}
	failed = transcript.Fault{Err: errLost}
)

var faultRules = map[string]rule{
	"an append that failed can be made again": {
		why: "a reply that was paid for is kept until it is stored, and is never stored twice",
		run: func(t *testing.T, s Store) {
			for name, faults := range map[string][]transcript.Fault{
				"answer lost":             {lost},
				"nothing stored":          {failed},
				"lost, then failed twice": {lost, failed, failed},
				"failed, then lost":       {failed, lost},
			} {
				for prefix := range prefixes {
					retry(t, s, name, prefix, faults)
				}
			}
		},
	},
	"a large append whose answer was lost can be made again": {
		why: "it closed the segment, so that the next append would go elsewhere",
		run: func(t *testing.T, s Store) {
			w := open(t, s, newTask(t))
			w.add("one")
			events := w.next(noise(200_000), "and more")
			s.Inject(lost)
			for i, want := range []error{errLost, nil} {
				if err := w.try(events); !errors.Is(err, want) {
					t.Fatalf("attempt %d: want %v, got %v", i+1, want, err)
				}
			}
			w.add("next")
			w.verify()
		},
	},
	"after a lost answer other events conflict": {
		why: "what was stored is the journal, not what the caller thought of since",
		run: func(t *testing.T, s Store) {
			for _, prefix := range []int{0, 1, prefixes} {
				w := open(t, s, newTask(t))
				for range prefix {
					w.add(noise(step))
				}
				s.Inject(lost)
				stored := w.next("stored")
				if err := w.try(stored); !errors.Is(err, errLost) {
					t.Fatalf("want the fault, got %v", err)
				}
				if err := w.try(w.next("changed my mind")); !errors.Is(err, transcript.ErrConflict) {
					t.Errorf("after %d events: want a conflict, got %v", prefix, err)
				}
				if got := open(t, s, w.ref).seq(); got != int64(prefix)+1 {
					t.Errorf("%d events are stored, want %d", got, prefix+1)
				}
			}
		},
	},
	"after a lost answer another holder's append is seen": {
		why: "the events are stored, but their writer is not the holder any more",
		run: func(t *testing.T, s Store) {
			for prefix := range prefixes {
				former := open(t, s, newTask(t))
				for range prefix {
					former.add(noise(step))
				}
				events := former.next(noise(step))
				s.Inject(lost)
				if err := former.try(events); !errors.Is(err, errLost) {
					t.Fatalf("want the fault, got %v", err)
				}
				w := open(t, s, former.ref)
				w.add("another")
				if err := former.try(events); !errors.Is(err, transcript.ErrConflict) {
					t.Errorf("after %d events: want a conflict, got %v", prefix, err)
				}
				w.verify()
			}
		},
	},
	"a cancelled append can be made again": {
		why: "a shutdown cancels contexts, and the last append is made with a detached one",
		run: func(t *testing.T, s Store) {
			w := open(t, s, newTask(t))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range 2 {
				events := w.next("paid for")
				// A store may have been fast enough not to notice; then the second append is the next one.
				if err := w.journal.Append(ctx, w.seq(), events); err != nil {
					w.add("paid for")
				} else {
					w.events = append(w.events, events...)
				}
			}
			w.verify()
		},
	},
}

// retry makes an append after a prefix until it succeeds, which must be right after the faults.
func retry(t *testing.T, s Store, name string, prefix int, faults []transcript.Fault) {
	t.Helper()
	w := open(t, s, newTask(t))
	for range prefix {
		w.add(noise(step))
	}
	events := w.next(noise(step))
	s.Inject(faults...)
	for range faults {
		if err := w.try(events); !errors.Is(err, errLost) {
			// A retry that finds the events stored has succeeded before the remaining faults; only an applied one may.
			t.Fatalf("%s, after %d events: want the fault, got %v", name, prefix, err)
		}
	}
	if err := w.try(events); err != nil {
		t.Fatalf("%s, after %d events: the retry failed: %v", name, prefix, err)
	}
	w.verify()
	w.add("on")
	w.verify()
}
