package transcript

import (
	"bytes"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// LabelTaskUID is on every segment, so that a task's segments can be listed.
const LabelTaskUID = "agentloop.dev/task-uid"

const encodingZstdJSONL = "zstd/jsonl"

type kubernetes struct{ c client.Client }

// NewKubernetes keeps journals in AgentTranscript objects, which are the task's own and go with it. The client must read
// from the API server and not from a cache: client.New gives such a one, a manager's GetClient does not.
func NewKubernetes(c client.Client) Store { return &kubernetes{c} }

// segmentName is the name of a task's segment. Two writers that want to start the same segment want the same name, so only
// one of them gets it.
func segmentName(ref TaskRef, index int32) string { return fmt.Sprintf("%s-%05d", ref.UID, index) }

// Read implements Store. It asks for one segment after the other by name, which is a consistent read of each; a list would
// be one call, but of up to every byte of a long journal at once.
func (k *kubernetes) Read(ctx context.Context, ref TaskRef, each func([]loop.Event) error) (Journal, error) {
	j := &kubernetesJournal{c: k.c, ref: ref, index: -1}
	for {
		next, err := k.read(ctx, ref, j.index+1)
		if apierrors.IsNotFound(err) {
			return j, nil
		}
		if err != nil {
			return nil, err
		}
		if j.index >= 0 && !j.closed {
			// Only a closed segment has a successor: this one got its last events after it was read.
			if err := k.readRest(ctx, j, each); err != nil {
				return nil, err
			}
		}
		if first := next.object.Segment.FirstSeq; first != j.seq+1 {
			return nil, fmt.Errorf("segment %s/%s: %w: it begins with event %d, due is %d", ref.Namespace, next.object.Name, ErrCorrupt, first, j.seq+1)
		}
		if err := each(next.events); err != nil {
			return nil, err
		}
		j.moveTo(next.object, next.plain, j.seq+int64(len(next.events)))
	}
}

// readRest reads the journal's last segment again, and gives each what has come since.
func (k *kubernetes) readRest(ctx context.Context, j *kubernetesJournal, each func([]loop.Event) error) error {
	last, err := k.read(ctx, j.ref, j.index)
	if err != nil {
		return err
	}
	s := &last.object.Segment
	if s.FirstSeq != j.segment.Segment.FirstSeq || !bytes.HasPrefix(s.Data, j.segment.Segment.Data) {
		return fmt.Errorf("segment %s/%s: %w: what it held was written over", j.ref.Namespace, last.object.Name, ErrCorrupt)
	}
	known := j.seq + 1 - s.FirstSeq
	if err := each(last.events[known:]); err != nil {
		return err
	}
	j.index--
	j.bytes -= int64(len(j.segment.Segment.Data))
	j.moveTo(last.object, last.plain, s.LastSeq)
	return nil
}

// segment is one that was read and found sound by itself.
type segment struct {
	object *v1alpha1.AgentTranscript
	events []loop.Event
	plain  int
}

func (k *kubernetes) read(ctx context.Context, ref TaskRef, index int32) (*segment, error) {
	s := &segment{object: &v1alpha1.AgentTranscript{}}
	key := client.ObjectKey{Namespace: ref.Namespace, Name: segmentName(ref, index)}
	if err := k.c.Get(ctx, key, s.object); err != nil {
		return nil, fmt.Errorf("segment %s: %w", key, err)
	}
	var err error
	if s.events, s.plain, err = checkSegment(ref, index, &s.object.Segment); err != nil {
		return nil, fmt.Errorf("segment %s: %w", key, err)
	}
	return s, nil
}

// checkSegment decodes a segment and holds what it says of itself against what is in it.
func checkSegment(ref TaskRef, index int32, s *v1alpha1.AgentTranscriptSegment) ([]loop.Event, int, error) {
	if s.Encoding != encodingZstdJSONL {
		return nil, 0, fmt.Errorf("encoding %q: %w", s.Encoding, ErrNewerVersion)
	}
	if s.TaskUID != string(ref.UID) || s.Index == nil || *s.Index != index {
		return nil, 0, fmt.Errorf("%w: it is another task's or has another index than its name says", ErrCorrupt)
	}
	events, plain, err := decodeSegment(s.Data)
	if err != nil {
		return nil, 0, err
	}
	for i := range events {
		if want := s.FirstSeq + int64(i); events[i].Seq != want {
			return nil, 0, fmt.Errorf("%w: event %d where %d is due", ErrCorrupt, events[i].Seq, want)
		}
	}
	if last := events[len(events)-1].Seq; last != s.LastSeq {
		return nil, 0, fmt.Errorf("%w: it ends with event %d, %d is due", ErrCorrupt, last, s.LastSeq)
	}
	return events, plain, nil
}

func newSegment(ref TaskRef, index int32, firstSeq int64, b *batch) *v1alpha1.AgentTranscript {
	return &v1alpha1.AgentTranscript{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ref.Namespace,
			Name:      segmentName(ref, index),
			Labels:    map[string]string{LabelTaskUID: string(ref.UID)},
			// Without blockOwnerDeletion, which would need the right to set finalizers on tasks.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "AgentTask",
				Name: ref.Name, UID: ref.UID, Controller: new(true),
			}},
		},
		Segment: v1alpha1.AgentTranscriptSegment{
			TaskName: ref.Name, TaskUID: string(ref.UID), Index: new(index),
			FirstSeq: firstSeq, LastSeq: b.last, Encoding: encodingZstdJSONL, Data: b.frame,
		},
	}
}
