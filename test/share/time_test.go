//go:build share

package share

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// maxDuration is about the time that a task runs. That nobody was there to run it is not its fault.
func TestDownOperatorIsNoRunningTime(t *testing.T) {
	const most, away = 30 * time.Second, 40 * time.Second
	r, hang := newRig(t), newHang()
	r.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	first := make(chan struct{}) // closed to let the first turn end
	r.model(namespace, "default", func(q *fakechat.Request) fakechat.Reply {
		select {
		case <-first:
		case <-q.Gone:
		}
		return steps(2)(q)
	})
	r.model("other", "default", hang.answer)
	operator := r.operator("manager", "--max-concurrent-turns=1")

	r.create(task("limited", lasting(most)))
	r.await("the first turn", time.Minute, 1, is("limited", v1alpha1.PhaseRunning))
	r.create(task("holder", in("other")))
	close(first)
	r.until("the other task holds the only slot, between the two turns of the first", time.Minute, func() bool { return hang.has("holder") })
	operator.kill()
	<-time.After(away)

	hang.release()
	r.operator("manager", "--max-concurrent-turns=1")
	r.await("the end", time.Minute, 1, over("limited"))
	r.endedInTime("limited", most, fmt.Sprintf("the operator was away for %s between two turns", away))
}

// A task that waits for its turn at a model is no slower than its owner asked for.
func TestWaitingForAModelIsNoRunningTime(t *testing.T) {
	const most, perMinute, turns = 5 * time.Second, 6, 3 // one call in ten seconds
	r, heard := newRig(t), newLedger()
	r.model(namespace, "default", heard.of(steps(turns)), func(m *v1alpha1.AgentModelSpec) {
		m.Limits = &v1alpha1.ModelLimits{RequestsPerMinute: ptr.To[int64](perMinute)}
	})
	r.operator("manager")
	r.create(task("spender"))
	r.until("the other task has used the first call up", time.Minute, func() bool { return len(heard.prompts()) > 0 })
	began := time.Now()
	r.create(task("patient", lasting(most)))
	end := r.await("the end", 3*time.Minute, 1, over("patient"))
	r.endedInTime("patient", most, fmt.Sprintf("it waited for requestsPerMinute most of %s", end.Sub(began).Round(time.Second)))
	if end.Sub(began) < most {
		t.Errorf("it never waited longer than its maxDuration, so this showed nothing")
	}
}

// endedInTime holds a task to have completed with its clock still short of maxDuration.
func (r *rig) endedInTime(name string, most time.Duration, what string) {
	r.Helper()
	status := r.get(name).Status
	r.Logf("%s; of maxDuration %s it was active for %d s: %s, %s", what, most, ptr.Deref(status.ActiveSeconds, 0), status.ExitReason, status.Message)
	if status.ExitReason != v1alpha1.ExitCompleted {
		r.Errorf("it ended as %s: %s", status.ExitReason, status.Message)
	}
}
