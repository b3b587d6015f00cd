// Package envtest runs the whole operator against a real kube-apiserver and etcd.
package envtest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/controller"
	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/test/controlplane"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

var (
	restConfig *rest.Config
	kube       client.WithWatch
	// strict refuses unknown fields, as kubectl does.
	strict client.Client
)

func TestMain(m *testing.M) { os.Exit(runSuite(m)) }

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
	if kube, err = client.NewWithWatch(restConfig, client.Options{Scheme: controlplane.Scheme}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	strict = client.WithFieldValidation(kube, metav1.FieldValidationStrict)
	ctx, cancel := context.WithCancel(context.Background())
	stopped, err := startOperator(ctx, restConfig, options(), leaveAloneOwn)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		cancel()
		return 1
	}
	code := m.Run()
	cancel()
	<-stopped
	return code
}

func options() controller.Options {
	return controller.Options{
		Holder: "suite", MaxConcurrentTurns: 64, StatusInterval: 100 * time.Millisecond,
		MaxTurnAttempts: 3, ShutdownGrace: time.Second, Guard: &egress.Guard{},
	}
}

// startOperator runs an operator in this process until ctx ends; the channel closes once it has stopped.
func startOperator(ctx context.Context, cfg *rest.Config, o controller.Options, change ...func(*ctrl.Options)) (<-chan struct{}, error) {
	skipNames := true // several operators of one process
	grace := 20 * time.Second
	mo := ctrl.Options{
		Scheme: controlplane.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skipNames}, GracefulShutdownTimeout: &grace,
	}
	for _, c := range change {
		c(&mo)
	}
	mgr, err := ctrl.NewManager(rest.CopyConfig(cfg), mo)
	if err != nil {
		return nil, err
	}
	if err := controller.SetupWithManager(mgr, o); err != nil {
		return nil, err
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = mgr.Start(ctx)
	}()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("the cache did not sync")
	}
	return stopped, nil
}

// ownOperator labels tasks that the suite's operator must not see: their test runs operators of its own.
const ownOperator = "test.agentloop.dev/own-operator"

func leaveAloneOwn(o *ctrl.Options) {
	own, err := labels.Parse("!" + ownOperator)
	if err != nil {
		panic(err)
	}
	o.Cache.ByObject = map[client.Object]cache.ByObject{&v1alpha1.AgentTask{}: {Label: own}}
}

// patience bounds what should take moments, on a machine that may be busy.
const patience = 60 * time.Second

var namespaces atomic.Int64

// fixture is a namespace of its own for one test.
type fixture struct {
	*testing.T
	ctx       context.Context
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, ctx: t.Context(), namespace: fmt.Sprintf("test-%d", namespaces.Add(1))}
	f.must(kube.Create(f.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}))
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// chatModel creates an AgentModel named default on a fake chat server.
func (f *fixture) chatModel(answer func(*fakechat.Request) fakechat.Reply) *fakechat.Server {
	f.Helper()
	chat := fakechat.New(answer)
	server := httptest.NewServer(chat)
	f.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	f.model("default", v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, Model: "fake", Endpoint: server.URL + "/v1"})
	return chat
}

// scripted creates an AgentModel named default that answers from a list of texts.
func (f *fixture) scripted(texts ...string) {
	f.Helper()
	var replies []v1alpha1.ScriptedReply
	for _, t := range texts {
		replies = append(replies, v1alpha1.ScriptedReply{Text: &t})
	}
	f.model("default", v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderScripted, Scripted: &v1alpha1.Script{Replies: replies}})
}

func (f *fixture) model(name string, spec v1alpha1.AgentModelSpec) {
	f.Helper()
	f.must(kube.Create(f.ctx, &v1alpha1.AgentModel{ObjectMeta: f.meta(name), Spec: spec}))
}

func (f *fixture) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: f.namespace}
}

// task creates an AgentTask.
func (f *fixture) task(name string, change ...func(*v1alpha1.AgentTaskSpec)) *v1alpha1.AgentTask {
	f.Helper()
	task := &v1alpha1.AgentTask{ObjectMeta: f.meta(name), Spec: v1alpha1.AgentTaskSpec{Prompt: "Do " + name}}
	for _, c := range change {
		c(&task.Spec)
	}
	f.must(kube.Create(f.ctx, task))
	return task
}

// await watches a task until it is as wanted.
func (f *fixture) await(name, what string, ok func(*v1alpha1.AgentTask) bool) *v1alpha1.AgentTask {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	list := &v1alpha1.AgentTaskList{}
	f.must(kube.List(ctx, list, client.InNamespace(f.namespace)))
	w, err := kube.Watch(ctx, &v1alpha1.AgentTaskList{}, client.InNamespace(f.namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	f.must(err)
	defer w.Stop()
	var last *v1alpha1.AgentTask
	for i := range list.Items {
		if t := &list.Items[i]; t.Name == name {
			last = t
		}
	}
	for last == nil || !ok(last) {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				f.Fatalf("task %s: the watch ended while waiting for %s", name, what)
			}
			if t, isTask := e.Object.(*v1alpha1.AgentTask); isTask && t.Name == name {
				last = t
			}
		case <-ctx.Done():
			f.Fatalf("task %s never was %s; it is %s", name, what, describe(last))
		}
	}
	return last
}

func (f *fixture) awaitPhase(name string, p v1alpha1.AgentTaskPhase) *v1alpha1.AgentTask {
	f.Helper()
	return f.await(name, string(p), func(t *v1alpha1.AgentTask) bool { return t.Status.Phase == p })
}

func (f *fixture) awaitEnd(name string) *v1alpha1.AgentTask {
	f.Helper()
	return f.await(name, "finished", (*v1alpha1.AgentTask).Finished)
}

func (f *fixture) awaitExit(name string, want v1alpha1.LoopExitReason) *v1alpha1.AgentTask {
	f.Helper()
	task := f.awaitEnd(name)
	if task.Status.ExitReason != want {
		f.Fatalf("task %s ended as %s, want %s", name, describe(task), want)
	}
	return task
}

// patch merges JSON into a task.
func (f *fixture) patch(name, json string) {
	f.Helper()
	f.must(f.tryPatch(name, json))
}

func (f *fixture) tryPatch(name, json string) error {
	return kube.Patch(f.ctx, &v1alpha1.AgentTask{ObjectMeta: f.meta(name)}, client.RawPatch("application/merge-patch+json", []byte(json)))
}

func rawJSON(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

func describe(t *v1alpha1.AgentTask) string {
	if t == nil {
		return "missing"
	}
	var conditions []string
	for _, c := range t.Status.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s(%s)", c.Type, c.Status, c.Reason))
	}
	return fmt.Sprintf("%s/%s %q [%s]", t.Status.Phase, t.Status.ExitReason, t.Status.Message, strings.Join(conditions, " "))
}

// awaitGone polls until an object is not there any more.
func (f *fixture) awaitGone(o client.Object) {
	f.Helper()
	f.poll("the object is gone", func(ctx context.Context) (bool, error) {
		err := kube.Get(ctx, client.ObjectKeyFromObject(o), o)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// poll asks until something is so.
func (f *fixture) poll(what string, ok func(context.Context) (bool, error)) {
	f.Helper()
	if err := wait.PollUntilContextTimeout(f.ctx, 50*time.Millisecond, patience, true, ok); err != nil {
		f.Fatalf("%s: %v", what, err)
	}
}
