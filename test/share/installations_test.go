//go:build share

package share

import (
	"strings"
	"sync"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// Two managers that both lead are a mistake of whoever installed them, and no fault of a task.
func TestTwoInstallations(t *testing.T) {
	const (
		n      = 20
		during = time.Minute
	)
	t.Run("on the same tasks", func(t *testing.T) {
		r := newRig(t)
		r.model(namespace, "short", slowing(steps(40), time.Second, 0))
		// Longer than two operators leave each other alone, and each longer than the one before, so that none ends in time.
		r.model(namespace, "long", slowing(steps(2), 16*time.Second, 4*time.Second))
		r.operator("first")
		second := r.operator("second")
		r.create(tasks("task-short", n/2, of("short"))...)
		r.create(tasks("task-long", n/2, of("long"))...)
		<-time.After(during)
		second.kill()
		events, logged := r.takeoverEvents(), r.takeoversLogged("first")+r.takeoversLogged("second")
		r.await("the ends", 5*time.Minute, n, over("task-"))
		ends := r.ends("task")
		t.Logf("after %s of two operators on %d tasks: %d lines in the logs and %d events tell of another operator; ends %v", during, n, logged, events, ends)
		if ends["Completed"] != n {
			t.Errorf("%d of %d tasks were completed", ends["Completed"], n)
		}
		if logged == 0 {
			t.Error("no log tells of another operator")
		}
		if events == 0 {
			t.Error("no event AnotherOperator tells of it")
		}
	})
	t.Run("divided by label", func(t *testing.T) {
		r := newRig(t)
		r.model(namespace, "default", steps(20))
		r.operator("team", "--watch-label-selector=team=a")
		r.operator("shared", "--watch-label-selector=team!=a")
		r.create(tasks("ours", n, func(t *v1alpha1.AgentTask) { t.Labels = map[string]string{"team": "a"} })...)
		r.create(tasks("theirs", n)...)
		for _, prefix := range []string{"ours", "theirs"} {
			r.await("the ends", time.Minute, n, are(prefix, v1alpha1.PhaseSucceeded))
		}
		holders := map[string]map[string]bool{}
		for _, prefix := range []string{"ours", "theirs"} {
			holders[prefix] = map[string]bool{}
			for i := range n {
				for _, e := range r.events(numbered(prefix, i)) {
					if e.Opened != nil {
						holders[prefix][e.Opened.Holder] = true
					}
				}
			}
		}
		t.Logf("holders of each half: %d and %d; events AnotherOperator: %d", len(holders["ours"]), len(holders["theirs"]), r.takeoverEvents())
		if len(holders["ours"]) != 1 || len(holders["theirs"]) != 1 {
			t.Errorf("each half must have one holder: %v", holders)
		}
		if n := r.takeoverEvents(); n > 0 {
			t.Errorf("%d events tell of another operator", n)
		}
	})
}

// slowing is the model with calls that take long, and each of one task longer than the one before.
func slowing(next answer, first, more time.Duration) answer {
	var mu sync.Mutex
	calls := map[string]int{}
	return func(q *fakechat.Request) fakechat.Reply {
		mu.Lock()
		defer mu.Unlock()
		reply := next(q)
		reply.Delay = first + time.Duration(calls[q.Prompt()])*more
		calls[q.Prompt()]++
		return reply
	}
}

// ends counts why the tasks with a prefix ended.
func (r *rig) ends(prefix string) map[string]int {
	r.Helper()
	var list v1alpha1.AgentTaskList
	r.must(r.cluster.Client.List(r.ctx, &list))
	out := map[string]int{}
	for i := range list.Items {
		if t := &list.Items[i]; strings.HasPrefix(t.Name, prefix+"-") {
			reason := "none"
			if c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionFinished); c != nil {
				reason = c.Reason
			}
			out[reason]++
		}
	}
	return out
}

// takeoverEvents counts the events that tell of another operator, repetitions of one included.
func (r *rig) takeoverEvents() (n int) {
	r.Helper()
	var list eventsv1.EventList
	r.must(r.cluster.Client.List(r.ctx, &list))
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == "AnotherOperator" {
			n++
			if e.Series != nil {
				n += int(e.Series.Count)
			}
		}
	}
	return n
}

// takeoversLogged counts how often an operator's log tells of another one.
func (r *rig) takeoversLogged(operator string) int {
	r.Helper()
	log, err := r.cluster.Log(operator)
	r.must(err)
	return strings.Count(log, "Another installation of the operator")
}
