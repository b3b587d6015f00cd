package gitops

import (
	"os"
	"testing"

	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"sigs.k8s.io/yaml"
)

// exprs reads the recipe of docs/gitops.md into Flux's own type, and compiles it with Flux's own evaluator.
func exprs(t *testing.T) *cel.StatusEvaluator {
	t.Helper()
	text, err := os.ReadFile("../../../hack/gitops/flux-health-check-exprs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var recipe struct {
		HealthCheckExprs []kustomize.CustomHealthCheck `json:"healthCheckExprs"`
	}
	if err := yaml.UnmarshalStrict(text, &recipe); err != nil {
		t.Fatal(err)
	}
	if len(recipe.HealthCheckExprs) != 1 {
		t.Fatalf("the recipe has %d health checks, want 1", len(recipe.HealthCheckExprs))
	}
	evaluator, err := cel.NewStatusEvaluator(&recipe.HealthCheckExprs[0].HealthCheckExpressions)
	if err != nil {
		t.Fatal(err)
	}
	return evaluator
}

func TestFluxHealthCheckExprsSeeEveryPhase(t *testing.T) {
	evaluator := exprs(t)
	for name, s := range stages {
		t.Run(name, func(t *testing.T) {
			got, err := evaluator.Evaluate(t.Context(), object(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if got.Status.String() != s.flux {
				t.Errorf("Flux says %s, want %s", got.Status, s.flux)
			}
		})
	}
}

// Flux asks again after an error, so a task without status is not done either.
func TestFluxHealthCheckExprsNeverCallAnUnseenTaskDone(t *testing.T) {
	if got, err := exprs(t).Evaluate(t.Context(), fresh(t)); err == nil && got.Status.String() != "InProgress" {
		t.Errorf("Flux says %s of a task without status", got.Status)
	}
}
