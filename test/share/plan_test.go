//go:build share

package share

import (
	"slices"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// After every wait, what was read before it may no longer be true.
func TestPlanIsNewAfterWaiting(t *testing.T) {
	r, hang, heard := newRig(t), newHang(), newLedger()
	r.model(namespace, "default", steps(1))
	r.model(namespace, "hung", heard.of(hang.answer)) // of another model it would get a slot beyond the one
	r.operator("manager", "--max-concurrent-turns=1")

	r.create(task("holder", of("hung")))
	r.until("the only slot is held", time.Minute, func() bool { return hang.has("holder") })
	r.create(task("edited", of("hung")))
	r.await("the first status of the task that waits", 10*time.Second, 1, func(t sight) bool { return t.Name == "edited" && told(t) })
	r.patch("edited", `{"prompt":"the new prompt","suspend":true}`)
	if _, err := r.see(giveUp, 1, is("edited", v1alpha1.PhaseSuspended)); err != nil {
		t.Errorf("a task that waits for a slot is not suspended: %v", err)
	}

	hang.release()
	r.await("the holder's end", 10*time.Second, 1, is("holder", v1alpha1.PhaseSucceeded))
	r.create(task("next")) // once this has had the slot, the other would have had it, too
	r.await("the next task's end", 10*time.Second, 1, is("next", v1alpha1.PhaseSucceeded))
	if got := heard.prompts(); !slices.Equal(got, []string{"holder"}) {
		t.Errorf("the suspended task ran with the prompts %q", got)
	}
	if phase := r.get("edited").Status.Phase; phase != v1alpha1.PhaseSuspended {
		t.Errorf("the suspended task is %s", phase)
	}

	r.patch("edited", `{"suspend":false}`)
	r.await("the end of what is no longer suspended", 10*time.Second, 1, is("edited", v1alpha1.PhaseSucceeded))
	if got, want := heard.prompts(), []string{"holder", "the new prompt"}; !slices.Equal(got, want) {
		t.Errorf("the server saw the prompts %q, want %q", got, want)
	}
}
