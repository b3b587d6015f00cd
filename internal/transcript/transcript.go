// Package transcript keeps the journals of tasks.
package transcript

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

var (
	// ErrConflict: somebody else appended since; the caller holds stale state and must stop. A journal that has said so
	// once says so for ever: Load a new one.
	ErrConflict = errors.New("the journal was continued by another writer")
	// ErrGone: the journal was deleted, which happens when its task is, or its namespace is about to be.
	ErrGone = errors.New("the journal was deleted")
	// ErrTooLarge: the events do not fit into a journal, and never will. Nothing was written.
	ErrTooLarge = errors.New("too large for the journal")
	// ErrCorrupt: what is stored is no journal. Trying again does not help.
	ErrCorrupt = errors.New("the journal is damaged")
	// ErrNewerVersion: the journal was written by a newer operator, and only such a one can go on with it.
	ErrNewerVersion = errors.New("written by a newer operator")
)

// MaxEventBytes is the size that an event's JSON must not pass. Content is to be cut before.
const MaxEventBytes = 512 << 10

// TaskRef names a task. The UID keeps the journals of tasks apart that had the same name one after the other.
type TaskRef struct {
	Namespace, Name string
	UID             types.UID
}

// RefOf names a task that the API server has given its UID.
func RefOf(task *v1alpha1.AgentTask) TaskRef {
	return TaskRef{Namespace: task.Namespace, Name: task.Name, UID: task.UID}
}

// Stats tell how large a journal is.
type Stats struct {
	// Segments is the number of objects that hold the journal.
	Segments int32
	Events   int64
	// Bytes is what the events take where they are stored, that is after compression.
	Bytes int64
}

// Store opens journals.
type Store interface {
	// Read reads the whole journal of a task, live from the store and never from a cache, and returns a Journal positioned at its
	// end. It gives the events to each, in order and without a gap, part by part: a part comes from at most 1.5 MiB of JSON, so a
	// long journal need not be in memory. An error of each ends the read. A task that has no journal yet gets an empty one;
	// nothing is written.
	Read(ctx context.Context, ref TaskRef, each func([]loop.Event) error) (Journal, error)
}

// Load is Read of a journal that is short enough to be held.
func Load(ctx context.Context, s Store, ref TaskRef) (Journal, []loop.Event, error) {
	var events []loop.Event
	j, err := s.Read(ctx, ref, func(part []loop.Event) error {
		events = append(events, part...)
		return nil
	})
	return j, events, err
}

// Journal is the end of one task's journal, as far as its holder knows. One goroutine uses it at a time.
type Journal interface {
	// Append adds events, all or none of them. The first must have Seq expectSeq+1 and the others follow without a gap.
	//
	// ErrConflict: the journal's last seq is not expectSeq, or another writer got there first. ErrGone and ErrTooLarge:
	// see there. After any other error the outcome is unknown, and nothing is lost: Append may be called again with the
	// same events, and when they had been stored after all, that is noticed and they are not stored twice.
	//
	// Two writers are told apart by what they write, so what a holder writes first must name it (loop.Opened).
	Append(ctx context.Context, expectSeq int64, events []loop.Event) error
	Stats() Stats
}
