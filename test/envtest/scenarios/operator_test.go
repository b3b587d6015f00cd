package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/agentloop-dev/agenttask-operator/internal/controller"
	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/test/controlplane"
)

// sharedLabel is on what the shared operator sees.
const sharedLabel = "scenarios/shared"

var (
	sharedSelector = labels.SelectorFromSet(labels.Set{sharedLabel: "true"})
	errCut         = errors.New("the operator is dead")
)

// operator is a whole operator with its own connection to the API server.
type operator struct {
	wire   *wire
	cancel context.CancelFunc
	// stopping is closed once its controllers know that they are to stop, stopped once they have.
	stopping, stopped chan struct{}
	// cached reads what the operator knows.
	cached client.Reader
}

// startOperator runs an operator. Without a clock it goes by the real time.
func startOperator(holder string, clock loop.Clock, scope cache.Options) (*operator, error) {
	ctx, cancel := context.WithCancel(context.Background())
	o := &operator{wire: newWire(), cancel: cancel, stopping: make(chan struct{}), stopped: make(chan struct{})}
	cfg := rest.CopyConfig(restConfig)
	cfg.Wrap(o.wire.wrap)
	skipNames, grace := true, 5*time.Second // several operators of one process
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: controlplane.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Cache: scope,
		Controller: config.Controller{SkipNameValidation: &skipNames}, GracefulShutdownTimeout: &grace,
	})
	if err == nil {
		err = controller.SetupWithManager(mgr, controller.Options{
			Holder: holder, MaxConcurrentTurns: 32, MaxTurnAttempts: 3, Guard: &egress.Guard{}, Clock: clock,
			Backoff: func(n int) time.Duration { return time.Duration(n) * time.Second }, // the one that scenarios go by
		})
	}
	if err == nil {
		err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			<-ctx.Done()
			close(o.stopping)
			return nil
		}))
	}
	if err != nil {
		cancel()
		return nil, err
	}
	o.cached = mgr.GetClient()
	go func() {
		defer close(o.stopped)
		_ = mgr.Start(ctx)
	}()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		cancel()
		return nil, fmt.Errorf("the cache did not sync")
	}
	return o, nil
}

// stop lets the operator end as it does when it is asked to.
func (o *operator) stop() {
	o.cancel()
	<-o.stopped
}

// die ends the operator so that nothing it does from now on reaches the API server.
func (o *operator) die() {
	o.wire.cut.Store(true)
	o.stop()
}

// wire is an operator's connection to the API server. It can be cut, and it can hold the operator right after an append to a
// journal: what happens between two steps of a task happens there.
type wire struct {
	cut atomic.Bool

	mu    sync.Mutex
	armed map[string]chan *held // by namespace
	// looked is closed for a namespace once one of its journals was read or begun.
	looked map[string]chan struct{}
}

// held is an append that is in the journal, while the operator does not know yet.
type held struct{ verdict chan error }

func (h *held) goOn()  { h.verdict <- nil }
func (h *held) crash() { h.verdict <- errCut }

func newWire() *wire {
	return &wire{armed: map[string]chan *held{}, looked: map[string]chan struct{}{}}
}

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if w.cut.Load() {
			return nil, errCut
		}
		resp, err := next.RoundTrip(req)
		if namespace, ok := journalOf(req); ok && err == nil {
			err = w.passed(req, resp, namespace)
			if err != nil {
				_ = resp.Body.Close()
				return nil, err
			}
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// journalOf is the namespace of a request for a journal.
func journalOf(req *http.Request) (string, bool) {
	_, rest, _ := strings.Cut(req.URL.Path, "/namespaces/")
	namespace, resource, _ := strings.Cut(rest, "/")
	return namespace, strings.HasPrefix(resource, "agenttranscripts")
}

// passed notes what became of a request for a journal, and holds the append that is waited for.
func (w *wire) passed(req *http.Request, resp *http.Response, namespace string) error {
	w.note(w.looked, namespace)
	if req.Method == http.MethodGet {
		return nil
	}
	if resp.StatusCode > 299 {
		return nil
	}
	w.mu.Lock()
	armed := w.armed[namespace]
	delete(w.armed, namespace)
	w.mu.Unlock()
	if armed == nil {
		return nil
	}
	h := &held{verdict: make(chan error, 1)}
	armed <- h
	select {
	case err := <-h.verdict:
		return err
	case <-req.Context().Done():
		return req.Context().Err()
	}
}

// arm holds the next append.
func (w *wire) arm(namespace string) <-chan *held {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := make(chan *held, 1)
	w.armed[namespace] = ch
	return ch
}

func (w *wire) disarm(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.armed, namespace)
}

// noted is closed once it was noted.
func (w *wire) noted(what map[string]chan struct{}, namespace string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if what[namespace] == nil {
		what[namespace] = make(chan struct{})
	}
	return what[namespace]
}

func (w *wire) note(what map[string]chan struct{}, namespace string) {
	ch := w.noted(what, namespace)
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-ch:
	default:
		close(ch)
	}
}
