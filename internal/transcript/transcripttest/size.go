package transcripttest

import (
	"errors"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

var sizeRules = map[string]rule{
	"150 turns of 20 KB": {
		why: "a long task with large tool results is an ordinary one",
		run: func(t *testing.T, s Store) { fill(t, s, 150, func() string { return prose(12_000) + noise(8_000) }) },
	},
	"more than 5 MB that compresses": {
		why: "few segments hold much text, and reading one must stay cheap",
		run: func(t *testing.T, s Store) { fill(t, s, 60, func() string { return prose(90_000) }) },
	},
	"more than 5 MB that does not compress": {
		why: "no object nears what etcd takes",
		run: func(t *testing.T, s Store) { fill(t, s, 60, func() string { return noise(90_000) }) },
	},
	"the largest event fits behind an open segment": {
		why: "it does not get a segment of its own, so the object is as large as any can be",
		run: func(t *testing.T, s Store) {
			w := open(t, s, newTask(t))
			for range 3 { // the fourth might close it
				w.add(noise(step))
			}
			w.add(noise(transcript.MaxEventBytes - 400))
			w.add("on")
			w.verify()
			checkSizes(t, s, w.ref)
		},
	},
	"what is too large is refused and the journal goes on": {
		why: "a retry would fail for ever, so the caller must be told that it is no use",
		run: func(t *testing.T, s Store) {
			for name, texts := range map[string][]string{
				"one event":             {noise(transcript.MaxEventBytes)},
				"one that compresses":   {prose(transcript.MaxEventBytes)},
				"together":              {noise(400_000), noise(400_000)},
				"together, compressing": {prose(400_000), prose(400_000), prose(400_000)},
			} {
				w := open(t, s, newTask(t))
				w.add("one")
				if err := w.try(w.next(texts...)); !errors.Is(err, transcript.ErrTooLarge) {
					t.Errorf("%s: want ErrTooLarge, got %v", name, err)
				}
				w.add("two")
				w.verify()
			}
		},
	},
}

// fill appends turns, reloading in between as a restart would.
func fill(t *testing.T, s Store, turns int, text func() string) {
	t.Helper()
	w := open(t, s, newTask(t))
	for i := range turns {
		if i == turns/2 {
			w.verify()
			w = open(t, s, w.ref)
		}
		w.add(text())
	}
	w.verify()
	if _, err := loop.Fold(w.events); err != nil {
		t.Errorf("the journal does not fold: %v", err)
	}
	checkSizes(t, s, w.ref)
	t.Logf("%d turns: %+v", turns, w.journal.Stats())
}

func checkSizes(t *testing.T, s Store, ref transcript.TaskRef) {
	t.Helper()
	sizes, err := s.Sizes(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range sizes {
		if n >= MaxObjectBytes {
			t.Errorf("an object of %d bytes, the limit is %d", n, MaxObjectBytes)
		}
	}
}
