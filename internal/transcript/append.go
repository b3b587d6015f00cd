package transcript

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// putAttempts is how often a segment is written again because others changed its metadata. None is expected to.
const putAttempts = 4

// kubernetesJournal is the end of a journal: its last segment and no events, since thousands of them are held at once.
type kubernetesJournal struct {
	c       client.Client
	ref     TaskRef
	segment *v1alpha1.AgentTranscript // the last one, nil for none; without data once it is closed
	index   int32                     // its index, -1 for none
	plain   int                       // the length of its data before compression
	closed  bool
	seq     int64
	bytes   int64
	err     error // ErrConflict or ErrGone, once that is known
}

// Stats implements Journal.
func (j *kubernetesJournal) Stats() Stats {
	return Stats{Segments: j.index + 1, Events: j.seq, Bytes: j.bytes}
}

// moveTo makes s, which is the next segment, the journal's last one.
func (j *kubernetesJournal) moveTo(s *v1alpha1.AgentTranscript, plain int, seq int64) {
	j.index++
	j.hold(s, plain, seq)
	j.bytes += int64(len(s.Segment.Data))
	j.release()
}

// hold takes over the last segment as it is stored now.
func (j *kubernetesJournal) hold(s *v1alpha1.AgentTranscript, plain int, seq int64) {
	// One empty entry makes the API server forget who wrote which field; with none it would go on tracking that. Nobody applies
	// transcripts, and tracking their fields took a fifth of the time of an append.
	s.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	j.segment, j.plain, j.seq = s, plain, seq
	j.closed = closed(s.Segment.Data, plain)
}

// release drops the data of a closed segment: it is never written again.
func (j *kubernetesJournal) release() {
	if j.closed {
		j.segment.Segment.Data = nil
	}
}

// Append implements Journal with one API write.
func (j *kubernetesJournal) Append(ctx context.Context, expectSeq int64, events []loop.Event) error {
	if j.err == nil && expectSeq != j.seq {
		j.err = fmt.Errorf("%w: it ends with event %d, not %d", ErrConflict, j.seq, expectSeq)
	}
	if j.err != nil {
		return j.err
	}
	b, err := encode(expectSeq, events)
	if err != nil || len(events) == 0 {
		return err
	}
	if j.index < 0 || j.closed {
		err = j.create(ctx, b)
	} else {
		err = j.put(ctx, b)
	}
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrGone) {
		j.err = err
	}
	return err
}

// create starts the next segment. It is called only when the last one is closed: were it still open, another writer could
// go on there, and neither would notice the other.
func (j *kubernetesJournal) create(ctx context.Context, b *batch) error {
	s := newSegment(j.ref, j.index+1, j.seq+1, b)
	err := j.c.Create(ctx, s)
	switch {
	case apierrors.IsAlreadyExists(err):
		live, err := j.live(ctx, s.Name)
		if err != nil {
			return err
		}
		if !b.isTail(live.Segment.Data, nil) {
			return fmt.Errorf("%w, who started segment %s", ErrConflict, s.Name)
		}
		// Our own, from an attempt whose answer was lost.
		if err := j.checkLast(ctx, live, j.index+1, len(b.plain)); err != nil {
			return err
		}
		s = live
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("%w with its namespace %s: %w", ErrGone, j.ref.Namespace, err)
	case err != nil:
		return fmt.Errorf("start segment %s: %w", s.Name, err)
	}
	j.moveTo(s, len(b.plain), b.last)
	return nil
}

// put writes the open segment anew, with b at its end.
func (j *kubernetesJournal) put(ctx context.Context, b *batch) error {
	name := j.segment.Name
	for range putAttempts {
		s := &v1alpha1.AgentTranscript{ObjectMeta: *j.segment.ObjectMeta.DeepCopy(), Segment: j.segment.Segment}
		s.Segment.Data = slices.Concat(j.segment.Segment.Data, b.frame)
		s.Segment.LastSeq = b.last
		err := j.c.Update(ctx, s)
		switch {
		case err == nil:
			j.extend(s, b)
			return nil
		case apierrors.IsNotFound(err):
			return fmt.Errorf("%w: segment %s is not there any more", ErrGone, name)
		case !apierrors.IsConflict(err):
			return fmt.Errorf("write segment %s: %w", name, err)
		}
		live, err := j.live(ctx, name)
		if err != nil {
			return err
		}
		before := j.segment.Segment.Data
		switch {
		case b.isTail(live.Segment.Data, before):
			// Our own, from an attempt whose answer was lost.
			if err := j.checkLast(ctx, live, j.index, j.plain+len(b.plain)); err != nil {
				return err
			}
			j.extend(live, b)
			return nil
		case !bytes.Equal(live.Segment.Data, before):
			return fmt.Errorf("%w in segment %s", ErrConflict, name)
		}
		j.hold(live, j.plain, j.seq) // only its metadata was changed, by somebody who does not write events
	}
	return fmt.Errorf("write segment %s: others keep changing its metadata", name)
}

// extend takes over the last segment after b was added to it.
func (j *kubernetesJournal) extend(s *v1alpha1.AgentTranscript, b *batch) {
	j.bytes += int64(len(s.Segment.Data) - len(j.segment.Segment.Data))
	j.hold(s, j.plain+len(b.plain), b.last)
	j.release()
}

// checkLast makes sure that s, which our own earlier attempt wrote, is still the journal's last segment. In a closed one
// the append of another writer since would not show.
func (j *kubernetesJournal) checkLast(ctx context.Context, s *v1alpha1.AgentTranscript, index int32, plain int) error {
	if !closed(s.Segment.Data, plain) {
		return nil
	}
	next := segmentName(j.ref, index+1)
	switch _, err := j.live(ctx, next); {
	case errors.Is(err, ErrGone):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w, who started segment %s", ErrConflict, next)
}

// live reads a segment as it is stored now, after a write was refused.
func (j *kubernetesJournal) live(ctx context.Context, name string) (*v1alpha1.AgentTranscript, error) {
	s := &v1alpha1.AgentTranscript{}
	err := j.c.Get(ctx, client.ObjectKey{Namespace: j.ref.Namespace, Name: name}, s)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: segment %s is not there any more", ErrGone, name)
	}
	if err != nil {
		return nil, fmt.Errorf("read segment %s: %w", name, err)
	}
	return s, nil
}
