package agenttest

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/agentloop-dev/agenttask-operator/internal/controller"
	"github.com/agentloop-dev/agenttask-operator/internal/egress"
)

// Options say how an operator runs. The zero value suits most suites.
type Options struct {
	// Namespaces that it looks at; empty means all. Two operators at once must not look at the same.
	Namespaces []string
	// Clock is the time that it goes by; nil means the real one.
	Clock *Clock
	// MaxConcurrentTurns bounds the calls that run at once; 0 means 16.
	MaxConcurrentTurns int
	// Patience bounds the Await helpers; 0 means a minute.
	Patience time.Duration
	// Backoff is how long to wait after the nth failure of a model call; nil means as in production, from a second to a minute.
	Backoff func(n int) time.Duration
}

// Operator is an operator that runs in this process, until the test ends or Stop is called.
type Operator struct {
	// Client reads and writes the cluster, without a cache.
	Client client.WithWatch

	t        testing.TB
	ctx      context.Context
	cancel   context.CancelFunc
	stopped  chan struct{}
	patience time.Duration
}

var holders atomic.Int64

// Start starts an operator on a cluster that has the CRDs. The test fails when it cannot.
func Start(t testing.TB, cfg *rest.Config, o Options) *Operator {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	op := &Operator{Client: c, t: t, stopped: make(chan struct{}), patience: cmp.Or(o.Patience, time.Minute)}
	// Not the test's own context, which ends before the cleanup in which the operator is stopped in order.
	op.ctx, op.cancel = context.WithCancel(context.WithoutCancel(t.Context()))
	if err := op.start(cfg, scheme, &o); err != nil {
		op.cancel()
		t.Fatal(err)
	}
	t.Cleanup(op.Stop)
	return op
}

func (op *Operator) start(cfg *rest.Config, scheme *runtime.Scheme, o *Options) error {
	skip := true // several operators may run in one process, one after the other
	mo := ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip}}
	if len(o.Namespaces) > 0 {
		mo.Cache.DefaultNamespaces = map[string]cache.Config{}
		for _, n := range o.Namespaces {
			mo.Cache.DefaultNamespaces[n] = cache.Config{}
		}
	}
	mgr, err := ctrl.NewManager(rest.CopyConfig(cfg), mo)
	if err != nil {
		return err
	}
	co := controller.Options{
		Holder: fmt.Sprintf("agenttest-%d", holders.Add(1)), MaxConcurrentTurns: cmp.Or(o.MaxConcurrentTurns, 16), MaxTurnAttempts: 3,
		ShutdownGrace: time.Second, Guard: &egress.Guard{}, Backoff: o.Backoff,
	}
	if o.Clock != nil {
		co.Clock = o.Clock
	}
	tasks, err := controller.Setup(mgr, co)
	if err != nil {
		return err
	}
	if o.Clock != nil {
		o.Clock.onMove(func() { _ = tasks.WakeAll(op.ctx) }) // an operator that is stopped has nothing to wake
	}
	go func() {
		defer close(op.stopped)
		if err := mgr.Start(op.ctx); err != nil {
			op.t.Errorf("the operator: %v", err)
		}
	}()
	if !mgr.GetCache().WaitForCacheSync(op.ctx) {
		return fmt.Errorf("the operator's cache did not sync")
	}
	return nil
}

// Stop stops the operator and waits until it has. Tasks are let go as by a SIGTERM, so the next operator goes on with them at once.
func (op *Operator) Stop() {
	op.cancel()
	<-op.stopped
}
