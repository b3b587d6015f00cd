package controller

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

func TestToolsWhoseSchemasWereRefusedAreNamedUntilAfterTheEnd(t *testing.T) {
	refused := func(tool string) loop.Event {
		return loop.Event{Kind: loop.KindModelFailed, ModelFailed: &loop.ModelFailed{Purpose: loop.PurposeTurn, Retry: true, RefusedTool: tool, Message: "It was refused."}}
	}
	many := []loop.Event{opened()}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		many = append(many, refused("bad__"+name))
	}
	for name, c := range map[string]struct {
		events []loop.Event
		names  string // empty for no condition
		reason string // of Reconciling: a refusal is no failure that is waited for
	}{
		"none":          {[]loop.Event{opened()}, "", "Running"},
		"one":           {[]loop.Event{opened(), refused("bad__query")}, ": bad__query. ", "Running"},
		"in order":      {[]loop.Event{opened(), refused("bad__query"), refused("bad__list")}, ": bad__list, bad__query. ", "Running"},
		"many":          {many, ": bad__a, bad__b, bad__c, bad__d, bad__e, others. ", "Running"},
		"after the end": {[]loop.Event{opened(), refused("bad__query"), finished(loop.ExitCompleted, "")}, ": bad__query. ", "Completed"},
	} {
		t.Run(name, func(t *testing.T) {
			st := ProjectStatus(&v1alpha1.AgentTaskStatus{}, Projection{State: fold(t, c.events...), Now: start})
			got := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionToolsWithheld)
			if (got != nil) != (c.names != "") || got != nil && (got.Reason != "SchemaRefused" || !strings.Contains(got.Message, c.names)) {
				t.Errorf("got %+v, want it to name %q", got, c.names)
			}
			if r := conditionsReason(&st); r != c.reason {
				t.Errorf("Reconciling says %s, want %s", r, c.reason)
			}
		})
	}
}
