//go:build share

package share

import (
	"flag"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
	"github.com/agentloop-dev/agenttask-operator/test/harness"
)

var idle = flag.Int("idle", 5000, "tasks that wait for an answer")

// What waits for people may wait for weeks. All of it lies in journals until it is needed.
func TestIdleTasksTakeNoMemory(t *testing.T) {
	const (
		answered     = 20
		most         = 200 << 20 // bytes beyond the empty operator
		conversation = 100 << 10 // bytes of each task
		before       = 4         // turns that make it
	)
	r := newRig(t)
	r.model(namespace, "default", func(q *fakechat.Request) fakechat.Reply {
		switch turn := q.Replies(); {
		case turn < before:
			return fakechat.Reply{Text: prose(fmt.Sprint(q.Prompt(), turn), conversation/before), In: 100, Out: 100, Chunk: 8192}
		case turn == before:
			return fakechat.Reply{Text: "NEED_INPUT: go on?", In: 100, Out: 10}
		}
		return fakechat.Reply{Text: "TASK_COMPLETE: done", In: 100, Out: 10}
	})
	metrics := freeAddress(t)
	flags := []string{"--metrics-bind-address=" + metrics, "--metrics-secure=false"}
	operator := r.operator("manager", flags...)
	r.looked(metrics, 0)
	empty := operator.rss()

	began := time.Now()
	r.create(tasks("idle", *idle)...)
	asked := r.await("questions", 20*time.Minute, *idle, are("idle", v1alpha1.PhaseNeedsInput))
	atOnce, full := operator.settled(empty + most)
	operator.kill()

	operator = r.operator("restarted", flags...)
	r.looked(metrics, *idle)
	restartedAtOnce, restarted := operator.settled(empty + most)
	t.Logf("%d tasks in NeedsInput, %d KiB each, after %s: RSS empty %s; with them %s, settled %s; after a restart %s, settled %s",
		*idle, conversation>>10, asked.Sub(began).Round(time.Second), mib(empty), mib(atOnce), mib(full), mib(restartedAtOnce), mib(restarted))
	for when, rss := range map[string]int64{"with idle tasks": full, "with idle tasks after a restart": restarted} {
		if rss-empty > most {
			t.Errorf("%s the operator holds %s more than empty, want at most %s", when, mib(rss-empty), mib(most))
		}
	}

	for i := range answered {
		r.patch(numbered("idle", i), `{"resumeInput":"yes"}`)
	}
	r.await("ends of the answered tasks", time.Minute, answered, are("idle", v1alpha1.PhaseSucceeded))
}

// looked waits until an operator has looked at n tasks, and has nothing left to look at.
func (r *rig) looked(metrics string, n int) {
	r.Helper()
	r.until("the operator has looked at all tasks", 5*time.Minute, func() bool {
		looks, err := harness.Sum(r.ctx, metrics, "controller_runtime_reconcile_total", "controller", "agenttask")
		if err != nil || looks < float64(n) {
			return false // the endpoint may not be up yet
		}
		var busy float64
		for _, gauge := range []string{"workqueue_depth", "workqueue_unfinished_work_seconds"} {
			value, err := harness.Sum(r.ctx, metrics, gauge, "name", "agenttask")
			r.must(err)
			busy += value
		}
		return busy == 0
	})
}

func (o *operator) rss() int64 {
	o.r.Helper()
	rss, err := o.RSS()
	o.r.must(err)
	return rss
}

// settled is the memory held now, and once it is below a goal or the collector has had the time of two of its forced runs:
// garbage is nothing that tasks take.
func (o *operator) settled(goal int64) (now, then int64) {
	o.r.Helper()
	now = o.rss()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for then, end := now, time.Now().Add(4*time.Minute); ; then = o.rss() {
		if then <= goal || time.Now().After(end) || o.Exited() {
			return now, then
		}
		<-tick.C
	}
}

// freeAddress is one on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
