package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// patience bounds what should take moments, on a machine that may be busy.
const patience = 30 * time.Second

var namespaces atomic.Int64

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }

// player plays one scenario through the whole operator.
type player struct {
	*testing.T
	ctx       context.Context
	sc        *looptest.Scenario
	namespace string
	fields    map[string]any
	tools     []looptest.Tool
	uid       transcript.TaskRef
	// generation is that of the task's spec as it was last changed.
	generation int64

	kit      *toolServer
	requests chan *asked
	// clock stands still unless the scenario moves it. It is nil with the shared operator, which goes by the real time.
	clock *looptest.Clock
	op    *operator
	// away: the operator's end that the next turn tells of has come already.
	away bool
	// pending is a request that nobody has answered yet, held an append after which the operator waits.
	pending *asked
	armed   <-chan *held
	held    *held

	modelCalls, holders, offers, wakes int
}

func play(t *testing.T, sc *looptest.Scenario) {
	p := &player{
		T: t, ctx: t.Context(), sc: sc, namespace: fmt.Sprintf("scenario-%d", namespaces.Add(1)),
		fields: looptest.Merged(map[string]any{"prompt": "Do the task."}, sc.Spec), tools: sc.Tools, requests: make(chan *asked),
	}
	if ownOperator(sc) {
		p.clock = looptest.NewClock()
	}
	p.create()
	p.start()
	for i := range sc.Turns {
		p.turn(i)
	}
	p.start()
	p.release()
	p.expect("at the end", &sc.Expect, true)
	if p.pending != nil {
		p.Fatalf("the loop asks for a reply that the scenario does not have\n%s", brief(p.pending.text()))
	}
}

func (p *player) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *player) meta(name string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, Namespace: p.namespace}
	if p.clock == nil {
		m.Labels = map[string]string{sharedLabel: "true"}
	}
	return m
}

// create makes the scenario's objects.
func (p *player) create() {
	p.Helper()
	p.must(kube.Create(p.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}))
	m := &v1alpha1.AgentModel{ObjectMeta: p.meta("default"), Spec: v1alpha1.AgentModelSpec{
		Provider: v1alpha1.ProviderOpenAI, Model: "fake", Endpoint: serveModel(p.T, p.requests),
	}}
	if n := p.sc.Model.ContextWindowTokens; n > 0 {
		m.Spec.ContextWindowTokens = &n
	}
	if r := p.sc.Model.Retry; r.MaxAttempts > 0 || r.MaxElapsed > 0 {
		m.Spec.Retry = &v1alpha1.RetryPolicy{}
		if n := int32(r.MaxAttempts); n > 0 {
			m.Spec.Retry.MaxAttempts = &n
		}
		if r.MaxElapsed > 0 {
			m.Spec.Retry.MaxElapsed = &metav1.Duration{Duration: r.MaxElapsed}
		}
	}
	if n := p.sc.Model.MaxOutputTokens; n > 0 {
		m.Spec.Parameters = &v1alpha1.ModelParameters{MaxOutputTokens: &n}
	}
	p.must(kube.Create(p.ctx, m))
	p.kit = p.serveTools()
	task := &v1alpha1.AgentTask{ObjectMeta: p.meta("task")}
	raw, err := json.Marshal(p.wireFields(p.fields))
	p.must(err)
	p.must(json.Unmarshal(raw, &task.Spec))
	if hasTools(p.sc) {
		p.kit.offer(p.tools)
		p.must(kube.Create(p.ctx, &v1alpha1.AgentToolset{ObjectMeta: p.meta(toolset), Spec: p.toolsetSpec()}))
		required := true
		task.Spec.Toolsets = []v1alpha1.ToolsetReference{{Name: toolset, Required: &required}}
	}
	p.must(kube.Create(p.ctx, task))
	p.uid = transcript.RefOf(task)
	p.generation = task.Generation
}

func hasTools(sc *looptest.Scenario) bool {
	has := len(sc.Tools) > 0
	for i := range sc.Turns {
		has = has || sc.Turns[i].Tools != nil
	}
	return has
}

// ownOperator tells whether a scenario moves the clock, or ends its operator.
func ownOperator(sc *looptest.Scenario) bool {
	own := sc.Expect.Active != nil
	for i := range sc.Turns {
		t := &sc.Turns[i]
		own = own || t.Time != 0 || t.Operator != "" || t.Takes != 0 || t.Crash || t.Error != "" ||
			t.Interrupt == "shuttingDown" || t.Expect != nil && t.Expect.Active != nil
		for _, c := range t.Calls {
			own = own || c.Takes != 0 || c.Crash
		}
	}
	return own
}

// start makes sure that an operator runs, and that it has looked at the task's journal unless the task has ended.
func (p *player) start() {
	p.Helper()
	switch {
	case p.op != nil:
		return
	case p.clock == nil:
		p.op = shared
		return
	}
	task := &v1alpha1.AgentTask{ObjectMeta: p.meta("task")}
	p.must(kube.Get(p.ctx, keyOf(task), task))
	p.holders++
	op, err := startOperator(fmt.Sprintf("%s-operator-%d", p.namespace, p.holders), p.clock,
		cache.Options{DefaultNamespaces: map[string]cache.Config{p.namespace: {}}})
	p.must(err)
	p.Cleanup(op.die)
	p.op = op
	if !task.Finished() {
		p.within("the operator to read the journal", op.wire.noted(op.wire.looked, p.namespace))
	}
}

// leave ends the operator. A crash comes between an append and what would follow it, where there was one.
func (p *player) leave(how string) {
	p.Helper()
	if how == "restarts" {
		p.op.cancel()
		p.within("the operator to know that it is to stop", p.op.stopping) // before it can go on to the next call
		p.release()
		p.op.stop()
	} else {
		p.op.wire.cut.Store(true)
		if p.held != nil {
			p.held.crash()
		}
		p.op.die()
	}
	p.op, p.held, p.armed, p.pending = nil, nil, nil, nil
}

// release lets the operator go on from where it is held, or not be held at all.
func (p *player) release() {
	if p.armed != nil {
		p.op.wire.disarm(p.namespace)
		p.armed = nil
	}
	if p.held != nil {
		p.held.goOn()
		p.held = nil
	}
}

// until goes on with what happens meanwhile until ok.
func (p *player) until(what string, ok func() bool) {
	p.Helper()
	changed, late, again := tasks.changes(p.namespace), time.NewTimer(patience), time.NewTicker(200*time.Millisecond)
	defer late.Stop()
	defer again.Stop()
	for !ok() {
		requests := p.requests
		if p.pending != nil {
			requests = nil
		}
		select {
		case p.pending = <-requests:
		case p.held = <-p.armed:
			p.armed = nil
		case <-p.kit.died:
			hold := p.armed != nil
			p.leave("crashes")
			p.start()
			if hold {
				p.arm()
			}
		case <-changed:
		case <-again.C: // not all that is looked at tells of its changes
		case <-late.C:
			p.Fatalf("waited in vain for %s; the task is %s", what, p.describe())
		}
	}
}

// within waits for a channel to be closed.
func (p *player) within(what string, closed <-chan struct{}) {
	p.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-closed:
	case <-late.C:
		p.Fatalf("waited in vain for %s; the task is %s", what, p.describe())
	}
}

// known waits until the operator's cache holds a generation of an object.
func (p *player) known(o client.Object, generation int64) {
	p.Helper()
	p.must(wait.PollUntilContextTimeout(p.ctx, 2*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := p.op.cached.Get(ctx, keyOf(o), o)
		return err == nil && o.GetGeneration() >= generation, client.IgnoreNotFound(err)
	}))
}

func (p *player) arm() { p.armed = p.op.wire.arm(p.namespace) }

// state is what the task's journal says.
func (p *player) state() *loop.State {
	p.Helper()
	_, events, err := transcript.Load(p.ctx, transcript.NewKubernetes(kube), p.uid)
	p.must(err)
	s, err := loop.Fold(events)
	p.must(err)
	return s
}

func (p *player) now() time.Time {
	if p.clock != nil {
		return p.clock.Now()
	}
	return time.Now()
}

// next is what the loop does next by the journal and the spec as they are, and whether that is to try a failed call again.
func (p *player) next() (a loop.Action, retry bool) {
	p.Helper()
	tools := make([]looptest.Tool, len(p.tools))
	for i, t := range p.tools {
		t.Name = p.visible(t.Name)
		tools[i] = t
	}
	sp, err := p.sc.LoopSpec(p.fields, tools)
	p.must(err)
	s := p.state()
	a = loop.Decide(s, sp, p.now())
	return a, a.Kind == loop.ActionWait && s.Failures > 0
}
