package envtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/controller"
)

// operator is an operator of one test alone, with a wire to the API server that the test can break.
type operator struct {
	wire    *wire
	cancel  context.CancelFunc
	stopped <-chan struct{}
}

// wire carries requests to the API server, unless fault says otherwise.
type wire struct {
	next http.RoundTripper
	// fault may answer a request itself (a response or an error), or return nil, nil to let it pass.
	fault atomic.Pointer[func(*http.Request, http.RoundTripper) (*http.Response, error)]
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if fault := w.fault.Load(); fault != nil {
		if resp, err := (*fault)(r, w.next); resp != nil || err != nil {
			return resp, err
		}
	}
	return w.next.RoundTrip(r)
}

func (w *wire) fail(fault func(*http.Request, http.RoundTripper) (*http.Response, error)) {
	w.fault.Store(&fault)
}

var errCut = errors.New("the wire is cut")

// cut fails every request.
func cut(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errCut }

func isAppend(r *http.Request) bool {
	return (r.Method == http.MethodPut || r.Method == http.MethodPost) && strings.Contains(r.URL.Path, "/agenttranscripts")
}

// answer makes a Status response of the API server.
func answer(r *http.Request, code int, reason string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// operator starts an operator that sees this test's namespace alone.
func (f *fixture) operator(holder string, change ...func(*controller.Options)) *operator {
	f.Helper()
	return f.operatorOn(&wire{}, holder, change...)
}

func (f *fixture) operatorOn(w *wire, holder string, change ...func(*controller.Options)) *operator {
	f.Helper()
	o := options()
	o.Holder = holder
	for _, c := range change {
		c(&o)
	}
	cfg := rest.CopyConfig(restConfig)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.next = next
		return w
	})
	ctx, cancel := context.WithCancel(context.Background())
	stopped, err := startOperator(ctx, cfg, o, func(mo *ctrl.Options) {
		mo.Cache.DefaultNamespaces = map[string]cache.Config{f.namespace: {}}
	})
	f.must(err)
	f.Cleanup(func() { cancel(); <-stopped })
	return &operator{wire: w, cancel: cancel, stopped: stopped}
}

// crash is the end of an operator as the API server sees it: nothing comes from it any more.
func (o *operator) crash() {
	o.wire.fail(cut)
	o.cancel()
}

// ownTask creates a task that only this test's operators see.
func (f *fixture) ownTask(name string, change ...func(*v1alpha1.AgentTaskSpec)) *v1alpha1.AgentTask {
	f.Helper()
	task := &v1alpha1.AgentTask{ObjectMeta: f.meta(name), Spec: v1alpha1.AgentTaskSpec{Prompt: "Do " + name}}
	task.Labels = map[string]string{ownOperator: "true"}
	for _, c := range change {
		c(&task.Spec)
	}
	f.must(kube.Create(f.ctx, task))
	return task
}

func graceless(o *controller.Options) { o.ShutdownGrace = 0 }

func patient(o *controller.Options) { o.ShutdownGrace = 10 * time.Second }
