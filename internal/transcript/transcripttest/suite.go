// Package transcripttest holds what every transcript store must do, as one suite for all of them.
package transcripttest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// Namespace is where the suite's tasks are. It must exist.
const Namespace = "default"

// MaxObjectBytes is what no stored object may reach: etcd refuses 1.5 MiB, and this leaves half of it free.
const MaxObjectBytes = 700 << 10

// Store is a transcript store of which the suite can ask a little more.
type Store interface {
	transcript.Store
	// Inject makes the next appends fail, one fault each.
	Inject(faults ...transcript.Fault)
	// Sizes gives the size of every object that a task's journal takes, as JSON; none for a store without objects.
	Sizes(ctx context.Context, ref transcript.TaskRef) ([]int, error)
}

type rule struct {
	why string
	run func(t *testing.T, s Store)
}

// Run tests the store that open gives. It may give the same one each time: every task of the suite has its own UID.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, group := range []map[string]rule{orderRules, conflictRules, faultRules, sizeRules} {
		for name, r := range group {
			t.Run(name, func(t *testing.T) {
				t.Log(r.why)
				r.run(t, open(t))
			})
		}
	}
}

// errLost is an answer that did not arrive.
var errLost = errors.New("connection reset by peer")

// newTask makes up a task that no other test has.
func newTask(t *testing.T) transcript.TaskRef {
	t.Helper()
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	uid := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	return transcript.TaskRef{Namespace: Namespace, Name: "task-" + uid[:8], UID: types.UID(uid)}
}

// writer appends to a journal and remembers what is in it.
type writer struct {
	t       *testing.T
	store   Store
	ref     transcript.TaskRef
	journal transcript.Journal
	events  []loop.Event
}

// open loads a journal.
func open(t *testing.T, s Store, ref transcript.TaskRef) *writer {
	t.Helper()
	j, events, err := transcript.Load(t.Context(), s, ref)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return &writer{t: t, store: s, ref: ref, journal: j, events: events}
}

func (w *writer) seq() int64 { return int64(len(w.events)) }

// next makes the events of one append, a model reply of each text.
func (w *writer) next(texts ...string) []loop.Event {
	events := make([]loop.Event, 0, len(texts))
	for i, text := range texts {
		events = append(events, reply(w.seq()+int64(i)+1, text))
	}
	return events
}

// try appends events, and remembers them when that succeeds.
func (w *writer) try(events []loop.Event) error {
	err := w.journal.Append(w.t.Context(), w.seq(), events)
	if err == nil {
		w.events = append(w.events, events...)
	}
	return err
}

// add appends replies in one append, which must succeed.
func (w *writer) add(texts ...string) {
	w.t.Helper()
	if err := w.try(w.next(texts...)); err != nil {
		w.t.Fatalf("append after event %d: %v", w.seq(), err)
	}
}

// verify loads the journal anew and holds it against what the writer knows: its events, and the journal's stats.
func (w *writer) verify() {
	w.t.Helper()
	j, events, err := transcript.Load(w.t.Context(), w.store, w.ref)
	if err != nil {
		w.t.Fatalf("load: %v", err)
	}
	if len(events) != len(w.events) {
		w.t.Fatalf("%d events came back of %d", len(events), len(w.events))
	}
	for i := range events {
		if !reflect.DeepEqual(events[i], w.events[i]) {
			w.t.Fatalf("event %d came back as\n%s\nof\n%s", i+1, brief(events[i]), brief(w.events[i]))
		}
	}
	if got, want := j.Stats(), w.journal.Stats(); got != want {
		w.t.Errorf("stats after loading are %+v, while writing they were %+v", got, want)
	}
	if got := j.Stats().Events; got != w.seq() {
		w.t.Errorf("stats tell of %d events, there are %d", got, w.seq())
	}
}

func brief(e loop.Event) string {
	b, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	if len(b) > 300 {
		return string(b[:300]) + "…"
	}
	return string(b)
}

// noise gives text of n bytes that hardly compresses, if at all.
func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	for i := range b {
		b[i] = '#' + b[i]%58 // no character that JSON escapes, up to the backslash, which is left out
		if b[i] == '\\' {
			b[i] = '!'
		}
	}
	return string(b)
}

// prose gives text of n bytes that compresses well.
func prose(n int) string {
	const s = "The agent reads the file, finds the function that fails, and writes a test for it before it changes anything.\n"
	return strings.Repeat(s, n/len(s)+1)[:n]
}

// Text gives text of n bytes, half of which compresses well, like what models and tools write.
func Text(n int) string { return prose(n/2) + noise(n-n/2) }
