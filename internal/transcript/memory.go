package transcript

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// Memory keeps journals in memory, for tests. It stores what the Kubernetes store does before compression, so that events
// come back as they would there.
type Memory struct {
	mu     sync.Mutex
	tasks  map[TaskRef]*memoryTask
	faults []Fault
}

type memoryTask struct {
	plain []byte
	seq   int64
	gone  bool
}

// Fault is an answer that an append gives instead of its own.
type Fault struct {
	Err error
	// Applied: the events were stored all the same, and only the answer was lost.
	Applied bool
}

// NewMemory gives an empty store.
func NewMemory() *Memory { return &Memory{tasks: map[TaskRef]*memoryTask{}} }

// Inject makes the next appends fail, one fault each.
func (m *Memory) Inject(faults ...Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, faults...)
}

// Delete deletes a task's journal.
func (m *Memory) Delete(ref TaskRef) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tasks[ref]; t != nil {
		t.gone = true
		delete(m.tasks, ref)
	}
}

// task finds what is stored of a task. The caller holds the lock.
func (m *Memory) task(ref TaskRef) *memoryTask {
	t := m.tasks[ref]
	if t == nil {
		t = &memoryTask{}
		m.tasks[ref] = t
	}
	return t
}

// Read implements Store.
func (m *Memory) Read(_ context.Context, ref TaskRef, each func([]loop.Event) error) (Journal, error) {
	m.mu.Lock()
	t := m.task(ref)
	plain := slices.Clone(t.plain)
	m.mu.Unlock()

	j := &memoryJournal{m: m, task: t, bytes: len(plain)}
	for line := range bytes.Lines(plain) {
		e, err := decode(line)
		if err == nil {
			err = each([]loop.Event{e})
		}
		if err != nil {
			return nil, err
		}
		j.seq++
	}
	return j, nil
}

type memoryJournal struct {
	m     *Memory
	task  *memoryTask
	seq   int64
	bytes int
	err   error
}

// Append implements Journal.
func (j *memoryJournal) Append(ctx context.Context, expectSeq int64, events []loop.Event) error {
	if j.err == nil && expectSeq != j.seq {
		j.err = ErrConflict
	}
	if j.err != nil {
		return j.err
	}
	b, err := encode(expectSeq, events)
	if err != nil || len(events) == 0 {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	j.m.mu.Lock()
	defer j.m.mu.Unlock()
	fault := j.m.nextFault()
	if fault.Err != nil && !fault.Applied {
		return fault.Err
	}
	if err := j.store(b); err != nil {
		j.err = err
		return err
	}
	if fault.Err != nil {
		return fault.Err
	}
	j.seq, j.bytes = b.last, len(j.task.plain)
	return nil
}

// store adds b, unless it is there already.
func (j *memoryJournal) store(b *batch) error {
	t := j.task
	switch {
	case t.gone:
		return ErrGone
	case t.seq == j.seq:
		t.plain, t.seq = append(t.plain, b.plain...), b.last
		return nil
	case bytes.Equal(t.plain[j.bytes:], b.plain):
		return nil // an earlier append, whose answer was lost
	}
	return ErrConflict
}

func (m *Memory) nextFault() Fault {
	if len(m.faults) == 0 {
		return Fault{}
	}
	f := m.faults[0]
	m.faults = m.faults[1:]
	return f
}

// Stats implements Journal.
func (j *memoryJournal) Stats() Stats {
	s := Stats{Events: j.seq, Bytes: int64(j.bytes)}
	if j.seq > 0 {
		s.Segments = 1
	}
	return s
}
