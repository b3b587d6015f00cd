//go:build share

package share

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
	"github.com/agentloop-dev/agenttask-operator/test/harness"
)

// Who has few tasks does not wait behind who has many.
func TestFairShareBetweenNamespaces(t *testing.T) {
	const (
		slots   = 8
		latency = 200 * time.Millisecond
		few     = 5 // tasks, one more than half of the slots, so that its share is always asked for
		turns   = 20
		many    = 300
	)
	r, heard := newRig(t), newLedger()
	slow := heard.of(func(q *fakechat.Request) fakechat.Reply {
		reply := steps(turns)(q)
		reply.Delay = latency
		return reply
	})
	for _, ns := range []string{"small", "large"} {
		r.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		r.model(ns, "default", slow)
	}
	r.operator("manager", fmt.Sprint("--max-concurrent-turns=", slots))
	r.create(tasks("large", many, in("large"))...)
	r.until("the large namespace has all slots", time.Minute, func() bool { return len(heard.all()) > 2*slots })

	began := time.Now()
	r.create(tasks("small", few, in("small"))...)
	end, err := r.see(time.Minute, few, are("small", v1alpha1.PhaseSucceeded))
	if err != nil {
		t.Errorf("the small namespace's tasks: %v", err)
		end = time.Now()
	}
	share := heard.share("small", began, end)
	alone := time.Duration(few*turns) * latency / (slots / 2)
	t.Logf("%d tasks of %d turns beside %d took %s, with half of the slots for themselves %s; %.0f %% of the calls meanwhile; a turn waits p50 %s in the small namespace, %s in the large",
		few, turns, many, ms(end.Sub(began)), alone, 100*share, ms(harness.Percentile(heard.waits("small"), 50)), ms(harness.Percentile(heard.waits("large"), 50)))
	if share < 0.4 || share > 0.6 {
		t.Errorf("the small namespace had %.0f %% of the calls, want about half", 100*share)
	}
}

// share is the part of a prefix in the calls within a time.
func (l *ledger) share(prefix string, from, to time.Time) float64 {
	ours, all := 0, 0
	for _, e := range l.all() {
		if e.came.Before(from) || e.came.After(to) {
			continue
		}
		all++
		if strings.HasPrefix(e.task, prefix) {
			ours++
		}
	}
	return float64(ours) / float64(max(1, all))
}
