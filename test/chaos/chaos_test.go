//go:build chaos

// Package chaos kills operators, moves leadership and restarts the API server while tasks with tools run, and counts what
// was lost or done twice.
package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
	"github.com/agentloop-dev/agenttask-operator/test/harness"
)

var (
	tasks    = flag.Int("tasks", 60, "tasks at once")
	turns    = flag.Int("turns", 40, "turns of each task")
	kills    = flag.Int("kills", 50, "managers killed by SIGKILL")
	restarts = flag.Int("restarts", 3, "restarts of the API server")
	seed     = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the moments at which things happen")
)

const namespace = "default"

// Every turn but the last calls one tool that has a side effect and one that only reads.
func script(r *fakechat.Request) fakechat.Reply {
	step := r.Replies()
	delay := time.Duration(500+rand.IntN(2500)) * time.Millisecond
	task := strings.TrimPrefix(r.Prompt(), "Work on ")
	if step == *turns-1 {
		return fakechat.Reply{Text: "TASK_COMPLETE: " + task + " is done", In: 100, Out: 10, Delay: delay}
	}
	args := fmt.Sprintf(`{"task":%q,"step":%d}`, task, step)
	return fakechat.Reply{
		Text: fmt.Sprintf("step %d", step), In: 100, Out: 10, Delay: delay,
		Calls: []fakechat.Call{{ID: fmt.Sprintf("bump-%d", step), Name: "effects__bump", Arguments: args}, {ID: fmt.Sprintf("look-%d", step), Name: "effects__look", Arguments: args}},
	}
}

func TestNothingIsLostAndNothingIsDoneTwice(t *testing.T) {
	t.Logf("seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	cluster, chat, effects := world(t)
	pair := startFleet(t, cluster, 2, leased...)
	defer pair.stop()
	pair.chaos(t, cluster, random)
	pair.awaitAll(t)
	verify(t, cluster, chat, effects)
}

// world is a cluster with the tasks, and the servers that they use.
func world(t *testing.T) (*harness.Cluster, *fakechat.Server, *effects) {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	cluster := harness.Start(t)
	e := newEffects()
	tools := httptest.NewServer(e.handler())
	t.Cleanup(func() { tools.CloseClientConnections(); tools.Close() })
	chat := fakechat.New(script)
	models := httptest.NewServer(chat)
	t.Cleanup(func() { models.CloseClientConnections(); models.Close() })
	create(t, cluster.Client, models.URL, tools.URL)
	return cluster, chat, e
}

func create(t *testing.T, c client.Client, modelURL, toolURL string) {
	t.Helper()
	ctx := t.Context()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: namespace} }
	yes, most := true, int32(1000)
	objects := []client.Object{
		&v1alpha1.AgentModel{ObjectMeta: meta("default"), Spec: v1alpha1.AgentModelSpec{
			Provider: v1alpha1.ProviderOpenAI, Model: "fake", Endpoint: modelURL + "/v1",
			Retry: &v1alpha1.RetryPolicy{MaxAttempts: new(int32(20))},
		}},
		&v1alpha1.AgentToolset{ObjectMeta: meta("effects"), Spec: v1alpha1.AgentToolsetSpec{
			URL: toolURL, TrustAnnotations: &yes,
		}},
	}
	for i := range *tasks {
		objects = append(objects, &v1alpha1.AgentTask{ObjectMeta: meta(taskName(i)), Spec: v1alpha1.AgentTaskSpec{
			Prompt: "Work on " + taskName(i), MaxIterations: &most,
			Toolsets: []v1alpha1.ToolsetReference{{Name: "effects", Required: &yes}},
		}})
	}
	for _, o := range objects {
		if err := c.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
}

func taskName(i int) string { return fmt.Sprintf("task-%03d", i) }

// leased makes managers compete for one lease.
var leased = []string{
	"--leader-elect", "--leader-election-namespace=" + namespace,
	"--leader-election-lease-duration=3s", "--leader-election-renew-deadline=2s", "--leader-election-retry-period=500ms",
}

// fleet are the managers of an installation.
type fleet struct {
	cluster  *harness.Cluster
	args     []string
	managers []*harness.Manager
	starts   int
}

func startFleet(t *testing.T, c *harness.Cluster, n int, args ...string) *fleet {
	p := &fleet{cluster: c, managers: make([]*harness.Manager, n), args: append([]string{"--shutdown-grace=2s", "--max-turn-attempts=20"}, args...)}
	for i := range p.managers {
		p.start(t, i)
	}
	return p
}

func (p *fleet) start(t *testing.T, i int) {
	t.Helper()
	p.starts++
	m, err := p.cluster.StartManager(fmt.Sprintf("manager-%d", i), p.args...)
	if err != nil {
		t.Fatal(err)
	}
	p.managers[i] = m
}

func (p *fleet) stop() {
	for _, m := range p.managers {
		m.Signal(syscall.SIGKILL)
	}
}

// chaos kills one or both managers at random moments, and between that stops them politely and restarts the API server.
func (p *fleet) chaos(t *testing.T, c *harness.Cluster, random *rand.Rand) {
	killed, polite, restarted := 0, 0, 0
	for killed < *kills {
		pause(random, 1500, 3500)
		p.revive(t)
		i := random.IntN(2)
		switch {
		case restarted < *restarts && killed >= (restarted+1)**kills/(*restarts+1):
			restarted++
			if err := c.RestartAPIServer(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			t.Logf("API server restarted (%d)", restarted)
		case random.IntN(6) == 0:
			polite++
			p.managers[i].Signal(syscall.SIGTERM)
			p.start(t, i)
			t.Logf("manager %d stopped by SIGTERM (%d)", i, polite)
		default:
			killed++
			p.managers[i].Signal(syscall.SIGKILL)
			if random.IntN(3) == 0 && killed < *kills { // both at once
				killed++
				p.managers[1-i].Signal(syscall.SIGKILL)
				p.start(t, 1-i)
			}
			p.start(t, i)
		}
	}
	t.Logf("killed %d managers by SIGKILL, stopped %d by SIGTERM, restarted the API server %d times; %d managers were started", killed, polite, restarted, p.starts)
}

// revive starts a manager that ended by itself, as one does that lost its lease.
func (p *fleet) revive(t *testing.T) {
	for i, m := range p.managers {
		if m.Exited() {
			p.start(t, i)
		}
	}
}

// pause waits from low to low+spread milliseconds: this is what "at a random moment" means.
func pause(random *rand.Rand, low, spread int) {
	<-time.After(time.Duration(low+random.IntN(spread)) * time.Millisecond)
}

// awaitAll waits until every task has ended, and starts managers again that end by themselves, as a kubelet would.
func (p *fleet) awaitAll(t *testing.T) {
	t.Helper()
	c := p.cluster
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		p.revive(t)
		open := 0
		var list v1alpha1.AgentTaskList
		err := c.Client.List(ctx, &list, client.InNamespace(namespace))
		for i := range list.Items {
			if !list.Items[i].Finished() {
				open++
			}
		}
		if err == nil && open == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d tasks never ended; last error %v\n%s", open, err, c.Logs(40))
		case <-tick.C:
		}
	}
}
