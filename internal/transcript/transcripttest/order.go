package transcripttest

import (
	"slices"
	"sync"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

var orderRules = map[string]rule{
	"a task without a journal has an empty one": {
		why: "the first reconcile of a task loads before anything was written",
		run: func(t *testing.T, s Store) {
			w := open(t, s, newTask(t))
			if len(w.events) != 0 || w.journal.Stats() != (transcript.Stats{}) {
				t.Errorf("a new task has %d events and stats %+v", len(w.events), w.journal.Stats())
			}
			w.verify() // loading wrote nothing
		},
	},
	"events come back as they were appended": {
		why: "state is folded from them, and must be the same after a crash",
		run: func(t *testing.T, s Store) {
			for size := 1; size <= len(Samples()); size += 3 {
				w := open(t, s, newTask(t))
				for chunk := range slices.Chunk(Samples(), size) {
					if err := w.try(chunk); err != nil {
						t.Fatalf("append of %d: %v", len(chunk), err)
					}
					w.verify()
				}
			}
		},
	},
	"appends of all sizes come back in order": {
		why: "segments end at places that depend on sizes",
		run: func(t *testing.T, s Store) {
			w := open(t, s, newTask(t))
			for i, size := range []int{1, 9000, 10, 4000, 4000, 4000, 100_000, 1, 1, 70_000, 8000, 200, 20_000} {
				w.add(noise(size))
				if i%3 == 0 {
					w.add(noise(size/2), prose(size), "")
				}
			}
			w.verify()
			w = open(t, s, w.ref) // and a second holder goes on
			w.add("more")
			w.verify()
		},
	},
	"an emptied list is no missing list": {
		why: "an agent that clears its list must not find it full again after a crash",
		run: func(t *testing.T, s Store) {
			w := open(t, s, newTask(t))
			e := event(1, loop.KindToolsReturned)
			e.ToolsReturned = &loop.ToolsReturned{Todo: []loop.TodoItem{}}
			if err := w.try([]loop.Event{e}); err != nil {
				t.Fatal(err)
			}
			w.verify()
		},
	},
	"no events are no append": {
		why: "an action may have nothing to tell",
		run: func(t *testing.T, s Store) {
			w := open(t, s, newTask(t))
			w.add("one")
			if err := w.journal.Append(t.Context(), 1, nil); err != nil {
				t.Errorf("append of nothing: %v", err)
			}
			w.add("two")
			w.verify()
		},
	},
	"gaps and foreign events are refused": {
		why: "what cannot be folded must not get into the journal",
		run: refuseGaps,
	},
	"tasks of the same name do not mix": {
		why: "a task that is deleted and created again starts anew",
		run: func(t *testing.T, s Store) {
			first := open(t, s, newTask(t))
			ref := newTask(t)
			ref.Name = first.ref.Name
			first.add("one", "two")
			second := open(t, s, ref)
			if len(second.events) != 0 {
				t.Fatalf("the second task of the name sees %d events of the first", len(second.events))
			}
			second.add("three")
			first.add("four")
			first.verify()
			second.verify()
		},
	},
	"journals of many tasks are written at once": {
		why: "each journal is used by one goroutine, the store by all",
		run: writeMany,
	},
	"a reader sees a prefix while another writes": {
		why: "a new holder loads while the former one still writes; a torn read would look like a damaged journal",
		run: readWhileWriting,
	},
}

func refuseGaps(t *testing.T, s Store) {
	valid := func(seq int64) loop.Event { return reply(seq, "x") }
	change := func(e loop.Event, f func(*loop.Event)) loop.Event { f(&e); return e }
	for name, events := range map[string][]loop.Event{
		"first too high":     {valid(3)},
		"first too low":      {valid(1)},
		"hole inside":        {valid(2), valid(4)},
		"twice the same":     {valid(2), valid(2)},
		"backwards":          {valid(2), valid(1)},
		"no version":         {change(valid(2), func(e *loop.Event) { e.Version = 0 })},
		"newer version":      {change(valid(2), func(e *loop.Event) { e.Version = loop.EventVersion + 1 })},
		"no payload":         {change(valid(2), func(e *loop.Event) { e.ModelReplied = nil })},
		"foreign payload":    {change(valid(2), func(e *loop.Event) { e.Kind = loop.KindNudged })},
		"two payloads":       {change(valid(2), func(e *loop.Event) { e.Nudged = &loop.Nudged{} })},
		"unknown kind":       {change(valid(2), func(e *loop.Event) { e.Kind = "Danced" })},
		"needless payload":   {change(valid(2), func(e *loop.Event) { e.Kind = loop.KindSuspended })},
		"second one invalid": {valid(2), change(valid(3), func(e *loop.Event) { e.Kind = "" })},
	} {
		w := open(t, s, newTask(t))
		w.add("one")
		if err := w.journal.Append(t.Context(), 1, events); err == nil {
			t.Errorf("%s: accepted", name)
		}
		w.add("two") // nothing was written, and the journal can go on
		w.verify()
	}
}

func writeMany(t *testing.T, s Store) {
	var wg sync.WaitGroup
	for range 8 {
		ref := newTask(t)
		wg.Go(func() {
			j, _, err := transcript.Load(t.Context(), s, ref)
			if err != nil {
				t.Error(err)
				return
			}
			for seq := range int64(12) {
				if err := j.Append(t.Context(), seq, []loop.Event{reply(seq+1, noise(2000))}); err != nil {
					t.Error(err)
					return
				}
			}
			if _, events, err := transcript.Load(t.Context(), s, ref); err != nil || len(events) != 12 {
				t.Errorf("%d events came back of 12: %v", len(events), err)
			}
		})
	}
	wg.Wait()
}

func readWhileWriting(t *testing.T, s Store) {
	ref := newTask(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		j, _, err := transcript.Load(t.Context(), s, ref)
		for seq := int64(0); seq < 60 && err == nil; seq++ {
			err = j.Append(t.Context(), seq, []loop.Event{reply(seq+1, noise(3000))})
		}
		if err != nil {
			t.Error(err)
		}
	}()
	for seen, writing := 0, true; writing; {
		select {
		case <-done:
			writing = false // and read one last time
		default:
		}
		_, events, err := transcript.Load(t.Context(), s, ref)
		if err != nil {
			t.Errorf("load while another writes: %v", err)
			break
		}
		if len(events) < seen {
			t.Errorf("%d events, %d were seen before", len(events), seen)
		}
		seen = len(events)
		if _, err := loop.Fold(events); err != nil {
			t.Errorf("what was read does not fold: %v", err)
		}
	}
	<-done
}
