package transcript_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript/transcripttest"
)

func TestChangeOfMetadataIsNoConflict(t *testing.T) {
	c := fakeClient(t)
	j, _ := load(t, c)
	appendTo(t, j, event(1))
	relabel(t, c, segment0, "one")
	appendTo(t, j, event(2))
	relabel(t, c, segment0, "two")
	appendTo(t, j, event(3))
	if got := get(t, c, segment0).Labels["example.com/note"]; got != "two" {
		t.Errorf("the label of somebody else became %q", got)
	}
	if _, events := load(t, c); len(events) != 3 {
		t.Errorf("%d events, want 3", len(events))
	}
}

func TestEndlessChangeOfMetadataIsNoConflictEither(t *testing.T) {
	base, busy := fakeClient(t), true
	c := interceptor.NewClient(base, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if busy {
				relabel(t, base, segment0, o.GetResourceVersion())
			}
			return c.Update(ctx, o, opts...)
		},
	})
	j, _ := load(t, c)
	appendTo(t, j, event(1))
	err := j.Append(t.Context(), 1, []loop.Event{event(2)})
	if err == nil || errors.Is(err, transcript.ErrConflict) {
		t.Errorf("nobody else appended, want an error that may be tried again, got %v", err)
	}
	busy = false
	appendTo(t, j, event(2))
}

func TestLostAnswerThenChangeOfMetadata(t *testing.T) {
	c := fakeClient(t)
	store := transcripttest.NewKubernetes(c)
	j, _, err := transcript.Load(t.Context(), store, ref)
	if err != nil {
		t.Fatal(err)
	}
	for seq := int64(1); seq <= 2; seq++ { // a segment that is created, and one that is written again
		store.Inject(transcript.Fault{Err: errors.New("timeout"), Applied: true})
		if err := j.Append(t.Context(), seq-1, []loop.Event{event(seq)}); err == nil {
			t.Fatal("want the fault")
		}
		relabel(t, c, segment0, "x")
		appendTo(t, j, event(seq))
	}
	appendTo(t, j, event(3))
	if _, events := load(t, c); len(events) != 3 {
		t.Errorf("%d events, want 3", len(events))
	}
}

// The read that tells a conflict from a lost answer may fail as well.
func TestConflictThatCannotBeLookedIntoIsTriedAgain(t *testing.T) {
	down := false
	c := interceptor.NewClient(fakeClient(t), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if down {
				return apierrors.NewInternalError(errors.New("etcd is away"))
			}
			return c.Get(ctx, k, o, opts...)
		},
	})
	for name, first := range map[string][]loop.Event{"open": {event(1)}, "closed": twoLarge(1)} {
		t.Run(name, func(t *testing.T) {
			if err := c.DeleteAllOf(t.Context(), &v1alpha1.AgentTranscript{}, client.InNamespace(ref.Namespace)); err != nil {
				t.Fatal(err)
			}
			j, _ := load(t, c)
			appendTo(t, j, first...)
			other, events := load(t, c)
			seq := int64(len(events))
			appendTo(t, other, textEvent(seq+1, "another's"))
			down = true
			err := j.Append(t.Context(), seq, []loop.Event{event(seq + 1)})
			down = false
			if !apierrors.IsInternalError(err) {
				t.Errorf("want the API server's error, got %v", err)
			}
			if err := j.Append(t.Context(), seq, []loop.Event{event(seq + 1)}); !errors.Is(err, transcript.ErrConflict) {
				t.Errorf("want a conflict, got %v", err)
			}
		})
	}
}

func TestDeletedJournalIsGone(t *testing.T) {
	segments := schema.GroupResource{Group: "agentloop.dev", Resource: "agenttranscripts"}
	terminating := apierrors.NewForbidden(segments, "x", errors.New("namespace default is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		why    string
		before []loop.Event
		create error
	}{
		"open segment":          {why: "the task was deleted, and its segments with it", before: []loop.Event{event(1)}},
		"namespace away":        {why: "a segment cannot be created in it", create: apierrors.NewNotFound(segments, "default")},
		"namespace terminating": {why: "nothing new is let in", before: twoLarge(1), create: terminating},
	} {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.why)
			var createErr error
			c := interceptor.NewClient(fakeClient(t), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if createErr != nil {
						return createErr
					}
					return c.Create(ctx, o, opts...)
				},
			})
			j, _ := load(t, c)
			if len(tc.before) > 0 {
				appendTo(t, j, tc.before...)
			}
			if createErr = tc.create; createErr == nil {
				if err := c.Delete(t.Context(), get(t, c, segment0)); err != nil {
					t.Fatal(err)
				}
			}
			seq := int64(len(tc.before))
			for range 2 {
				if err := j.Append(t.Context(), seq, []loop.Event{event(seq + 1)}); !errors.Is(err, transcript.ErrGone) {
					t.Errorf("want ErrGone, got %v", err)
				}
				createErr = nil // once gone, a journal does not come back in pieces
			}
		})
	}
}
