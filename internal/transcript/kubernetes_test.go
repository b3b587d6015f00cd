package transcript_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript/transcripttest"
)

var ref = transcript.TaskRef{Namespace: "default", Name: "report", UID: "5f0c7a3e-0000-4000-8000-000000000001"}

const (
	segment0 = "5f0c7a3e-0000-4000-8000-000000000001-00000"
	segment1 = "5f0c7a3e-0000-4000-8000-000000000001-00001"
)

func event(seq int64) loop.Event { return textEvent(seq, "text") }

// large compresses to almost nothing, so that the length of the text is what counts.
func large(seq int64) loop.Event {
	return textEvent(seq, strings.Repeat("Compresses to almost nothing. ", 10_000))
}

func textEvent(seq int64, text string) loop.Event {
	e := transcripttest.Samples()[4]
	e.Seq, e.Nudged = seq, &loop.Nudged{Text: text}
	return e
}

// twoLarge close a segment: each is more than half of what one takes before compression.
func twoLarge(seq int64) []loop.Event { return []loop.Event{large(seq), large(seq + 1)} }

func load(t *testing.T, c client.Client) (transcript.Journal, []loop.Event) {
	t.Helper()
	j, events, err := transcript.Load(t.Context(), transcript.NewKubernetes(c), ref)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return j, events
}

func appendTo(t *testing.T, j transcript.Journal, events ...loop.Event) {
	t.Helper()
	if err := j.Append(t.Context(), events[0].Seq-1, events); err != nil {
		t.Fatalf("append of event %d: %v", events[0].Seq, err)
	}
}

func get(t *testing.T, c client.Client, name string) *v1alpha1.AgentTranscript {
	t.Helper()
	s := &v1alpha1.AgentTranscript{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: name}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// relabel is what somebody does who does not write events.
func relabel(t *testing.T, c client.Client, name, value string) {
	t.Helper()
	s := get(t, c, name)
	s.Labels["example.com/note"] = value
	if err := c.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func TestSegmentsBelongToTheirTask(t *testing.T) {
	c := fakeClient(t)
	j, _ := load(t, c)
	appendTo(t, j, twoLarge(1)...)
	appendTo(t, j, event(3))
	appendTo(t, j, event(4))
	s := get(t, c, segment1)
	if got := s.Labels[transcript.LabelTaskUID]; got != string(ref.UID) {
		t.Errorf("label %q", got)
	}
	owner := metav1.GetControllerOf(s)
	if owner == nil || owner.UID != ref.UID || owner.Name != ref.Name || owner.Kind != "AgentTask" || owner.APIVersion != "agentloop.dev/v1alpha1" {
		t.Errorf("owner %+v", owner)
	}
	if owner != nil && owner.BlockOwnerDeletion != nil {
		t.Error("blockOwnerDeletion needs a right that the operator does not ask for")
	}
	got := s.Segment
	if got.TaskName != ref.Name || got.TaskUID != string(ref.UID) || *got.Index != 1 || got.FirstSeq != 3 || got.LastSeq != 4 || got.Encoding != "zstd/jsonl" {
		t.Errorf("segment %+v", got)
	}
}

func TestAppendIsOneWriteAndNoRead(t *testing.T) {
	var reads, writes int
	c := interceptor.NewClient(fakeClient(t), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, k, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			writes++
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			writes++
			return c.Update(ctx, o, opts...)
		},
	})
	j, _ := load(t, c)
	reads = 0
	for seq := int64(1); seq <= 20; seq++ {
		appendTo(t, j, large(seq))
	}
	if reads != 0 || writes != 20 {
		t.Errorf("20 appends took %d reads and %d writes", reads, writes)
	}
}

// The rule that fences a stale writer: see docs/adr/0002-large-events-close-their-segment.md.
func TestOnlyTheLastSegmentIsOpen(t *testing.T) {
	c := fakeClient(t)
	store := transcripttest.NewKubernetes(c)
	j, _, err := transcript.Load(t.Context(), store, ref)
	if err != nil {
		t.Fatal(err)
	}
	for seq := int64(1); seq <= 40; seq++ {
		appendTo(t, j, large(seq))
	}
	segments, err := store.Segments(t.Context(), ref)
	if err != nil || len(segments) < 3 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	for i, s := range segments {
		_, plain, err := transcript.DecodeSegment(s.Segment.Data)
		if err != nil {
			t.Fatal(err)
		}
		if last := i == len(segments)-1; !last && !transcript.Closed(s.Segment.Data, plain) {
			t.Errorf("segment %d is open and has a successor", i)
		}
	}
}

func TestJournalHoldsOnlyWhatItMustWriteAgain(t *testing.T) {
	c := fakeClient(t)
	j, _ := load(t, c)
	appendTo(t, j, event(1))
	if n := transcript.HeldBytes(j); n == 0 || n > 500 {
		t.Errorf("an open segment of one small event holds %d bytes", n)
	}
	appendTo(t, j, twoLarge(2)...)
	if n := transcript.HeldBytes(j); n != 0 {
		t.Errorf("a closed segment is never written again, yet %d bytes are held", n)
	}
	if j, _ := load(t, c); transcript.HeldBytes(j) != 0 {
		t.Error("a closed segment is held after loading")
	}
}

func TestSegmentThatIsClosedWhileReadIsReadAgain(t *testing.T) {
	base := fakeClient(t)
	writer, _ := load(t, base)
	appendTo(t, writer, event(1))
	torn := false
	c := interceptor.NewClient(base, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if k.Name == segment1 && !torn { // segment 0 was read, with one event
				torn = true
				appendTo(t, writer, twoLarge(2)...)
				appendTo(t, writer, event(4))
			}
			return c.Get(ctx, k, o, opts...)
		},
	})
	j, events := load(t, c)
	if len(events) != 4 || j.Stats() != writer.Stats() {
		t.Errorf("%d events and %+v, want 4 and %+v", len(events), j.Stats(), writer.Stats())
	}
	appendTo(t, j, event(5))
}
