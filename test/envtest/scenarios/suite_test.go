// Package scenarios plays the loop's scenarios through the whole operator, against a real kube-apiserver and etcd, with a
// model and a tool server that are reached over HTTP.
package scenarios

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/controlplane"
)

var (
	restConfig *rest.Config
	// kube reads from the API server and writes.
	kube client.Client
	// shared runs the scenarios that neither move the clock nor end their operator.
	shared *operator
	tasks  = &watcher{latest: map[string]*v1alpha1.AgentTask{}, changed: map[string]chan struct{}{}}
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given { // a scenario waits for the API server most of the time, so more of them run at once than there are processors
		_ = flag.Set("test.parallel", "8")
	}
	os.Exit(runSuite(m))
}

func runSuite(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	env, err := controlplane.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = env.Stop() }()
	restConfig = env.Config
	restConfig.QPS = -1
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.stop()
	return m.Run()
}

func prepare(ctx context.Context) (err error) {
	if kube, err = client.New(restConfig, client.Options{Scheme: controlplane.Scheme}); err != nil {
		return err
	}
	if err := tasks.start(ctx); err != nil {
		return err
	}
	shared, err = startOperator("shared", nil, cache.Options{DefaultLabelSelector: sharedSelector})
	return err
}

// watcher knows the newest of every task, by namespace: each scenario has one, in a namespace of its own.
type watcher struct {
	mu      sync.Mutex
	latest  map[string]*v1alpha1.AgentTask
	changed map[string]chan struct{}
}

func (w *watcher) start(ctx context.Context) error {
	c, err := cache.New(restConfig, cache.Options{Scheme: controlplane.Scheme})
	if err != nil {
		return err
	}
	informer, err := c.GetInformer(ctx, &v1alpha1.AgentTask{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: w.note, UpdateFunc: func(_, now any) { w.note(now) },
	}); err != nil {
		return err
	}
	go func() { _ = c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		return fmt.Errorf("the cache did not sync")
	}
	return nil
}

func (w *watcher) note(o any) {
	task, ok := o.(*v1alpha1.AgentTask)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest[task.Namespace] = task
	select {
	case w.signal(task.Namespace) <- struct{}{}:
	default: // one that was not taken yet tells of this too
	}
}

// signal is where a namespace's changes are told of. The caller holds the lock.
func (w *watcher) signal(namespace string) chan struct{} {
	if w.changed[namespace] == nil {
		w.changed[namespace] = make(chan struct{}, 1)
	}
	return w.changed[namespace]
}

func (w *watcher) changes(namespace string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.signal(namespace)
}

// task is the newest of a namespace's task, empty before there is one.
func (w *watcher) task(namespace string) *v1alpha1.AgentTask {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.latest[namespace]; t != nil {
		return t
	}
	return &v1alpha1.AgentTask{}
}
