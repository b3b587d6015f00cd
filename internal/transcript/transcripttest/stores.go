package transcripttest

import (
	"context"
	"encoding/json"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// Memory is the memory store as the suite wants it.
type Memory struct{ *transcript.Memory }

// Sizes implements Store: there are no objects.
func (Memory) Sizes(context.Context, transcript.TaskRef) ([]int, error) { return nil, nil }

// Kubernetes is the Kubernetes store with faults.
type Kubernetes struct {
	transcript.Store
	c client.Client

	mu     sync.Mutex
	faults []transcript.Fault
}

// NewKubernetes makes a store over c, which may be a fake client or one of a real API server without garbage collector:
// the tasks that own the segments do not exist.
func NewKubernetes(c client.WithWatch) *Kubernetes {
	k := &Kubernetes{c: c}
	k.Store = transcript.NewKubernetes(interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return k.write(o, func(o client.Object) error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return k.write(o, func(o client.Object) error { return c.Update(ctx, o, opts...) })
		},
	}))
	return k
}

// write writes o, or fails as the next fault says.
func (k *Kubernetes) write(o client.Object, do func(client.Object) error) error {
	k.mu.Lock()
	var fault transcript.Fault
	if len(k.faults) > 0 {
		fault, k.faults = k.faults[0], k.faults[1:]
	}
	k.mu.Unlock()
	if fault.Err == nil {
		return do(o)
	}
	if fault.Applied {
		// The answer is lost, so the caller's object learns nothing of it. Whether the write succeeded is not told either.
		_ = do(o.DeepCopyObject().(client.Object))
	}
	return fault.Err
}

// Inject implements Store.
func (k *Kubernetes) Inject(faults ...transcript.Fault) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = append(k.faults, faults...)
}

// Segments gives the segments of a task, in order.
func (k *Kubernetes) Segments(ctx context.Context, ref transcript.TaskRef) ([]v1alpha1.AgentTranscript, error) {
	var list v1alpha1.AgentTranscriptList
	err := k.c.List(ctx, &list, client.InNamespace(ref.Namespace), client.MatchingLabels{transcript.LabelTaskUID: string(ref.UID)})
	return list.Items, err // an API server lists by name, and so does the fake
}

// Sizes implements Store.
func (k *Kubernetes) Sizes(ctx context.Context, ref transcript.TaskRef) ([]int, error) {
	segments, err := k.Segments(ctx, ref)
	if err != nil {
		return nil, err
	}
	sizes := make([]int, 0, len(segments))
	for i := range segments {
		b, err := json.Marshal(&segments[i])
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, len(b))
	}
	return sizes, nil
}
