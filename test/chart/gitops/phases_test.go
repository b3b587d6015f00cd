// Package gitops holds the proof that the recipes of docs/gitops.md see every phase of a task for what it is.
package gitops

import (
	"encoding/json"
	"os/exec"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

const root = "../../.."

// stage is what each tool must make of a task.
type stage struct {
	kstatus string // Flux, helm --wait, kpt
	argo    string
	flux    string // by the healthCheckExprs of docs/gitops.md
}

var (
	working = stage{"InProgress", "Progressing", "InProgress"}
	waiting = stage{"InProgress", "Suspended", "Current"}
	failed  = stage{"Failed", "Degraded", "Failed"}
)

// stages are the tasks that hack/gitops/phases prints.
var stages = map[string]stage{
	"just seen": working, "model missing": working, "running": working, "retrying": working,
	"asks a question": waiting, "asks for approval": waiting, "suspended": waiting,
	"journal damaged":     {"Failed", "Degraded", "InProgress"}, // the expressions are about phases alone
	"Completed":           {"Current", "Healthy", "Current"},
	"IterationCapReached": failed, "TokenBudgetExceeded": failed, "TimeBudgetExceeded": failed,
	"InputTimeout": failed, "NoProgress": failed, "Cancelled": failed, "Error": failed,
}

// tasks runs hack/gitops/phases. It is part of the operator's own module, so that its dependencies stay out of this one.
var tasks = sync.OnceValues(func() (map[string]map[string]any, error) {
	command := exec.Command("go", "run", "./hack/gitops/phases")
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		return nil, err
	}
	parsed := map[string]map[string]any{}
	return parsed, json.Unmarshal(out, &parsed)
})

// object is the task in that stage, as the API server shows it.
func object(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	all, err := tasks()
	if err != nil {
		t.Fatal(err)
	}
	if all[name] == nil {
		t.Fatalf("hack/gitops/phases prints no task %q", name)
	}
	// By way of JSON, so that numbers are what the API machinery reads.
	text, err := json.Marshal(all[name])
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestEveryPhaseAndExitReasonIsCovered(t *testing.T) {
	phases, reasons := map[string]bool{}, map[string]bool{}
	for name := range stages {
		phase, _, _ := unstructured.NestedString(object(t, name).Object, "status", "phase")
		reason, _, _ := unstructured.NestedString(object(t, name).Object, "status", "exitReason")
		phases[phase], reasons[reason] = true, true
	}
	for _, p := range []v1alpha1.AgentTaskPhase{
		v1alpha1.PhasePending, v1alpha1.PhaseRunning, v1alpha1.PhaseNeedsInput, v1alpha1.PhaseSuspended,
		v1alpha1.PhaseSucceeded, v1alpha1.PhaseFailed, v1alpha1.PhaseCancelled,
	} {
		if !phases[string(p)] {
			t.Errorf("no stage has phase %s", p)
		}
	}
	for _, r := range []v1alpha1.LoopExitReason{
		v1alpha1.ExitCompleted, v1alpha1.ExitNeedInput, v1alpha1.ExitIterationCapReached, v1alpha1.ExitTokenBudgetExceeded,
		v1alpha1.ExitTimeBudgetExceeded, v1alpha1.ExitInputTimeout, v1alpha1.ExitNoProgress, v1alpha1.ExitCancelled, v1alpha1.ExitError,
	} {
		if !reasons[string(r)] {
			t.Errorf("no stage has exit reason %s", r)
		}
	}
}

// fresh is a task that the operator has not seen yet, and stale one whose last change it has not seen.
func fresh(t *testing.T) *unstructured.Unstructured {
	o := object(t, "just seen")
	o.Object["status"] = map[string]any{"observedGeneration": int64(-1)} // as the API server defaults it
	return o
}

func stale(t *testing.T, name string) *unstructured.Unstructured {
	o := object(t, name)
	o.SetGeneration(o.GetGeneration() + 1)
	return o
}
