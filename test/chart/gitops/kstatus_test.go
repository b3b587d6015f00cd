package gitops

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
)

// Flux, `helm --wait` and kpt all judge by this library, so a task must need no configuration with them.
func TestKstatusSeesEveryPhase(t *testing.T) {
	for name, s := range stages {
		t.Run(name, func(t *testing.T) {
			got, err := status.Compute(object(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if got.Status.String() != s.kstatus {
				t.Errorf("kstatus says %s (%s), want %s", got.Status, got.Message, s.kstatus)
			}
		})
	}
}

// An edit of a finished task must not show its old success for the new spec.
func TestKstatusWaitsForTheLastChange(t *testing.T) {
	for name := range stages {
		got, err := status.Compute(stale(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != status.InProgressStatus {
			t.Errorf("%s: kstatus says %s of a status that is about an older generation", name, got.Status)
		}
	}
}

// A pipeline must not go on before the operator has as much as seen the task.
func TestKstatusWaitsForATaskThatNobodyHasSeen(t *testing.T) {
	got, err := status.Compute(fresh(t))
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != status.InProgressStatus {
		t.Errorf("kstatus says %s", got.Status)
	}
}
