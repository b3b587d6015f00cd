package telemetry_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/telemetry"
)

func TestEachExitAndEachTokenIsCountedOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := telemetry.NewMetrics(registry)
	empty := &v1alpha1.AgentTaskStatus{}
	running := &v1alpha1.AgentTaskStatus{Iterations: new(int32(2)), Usage: &v1alpha1.TokenUsage{InputTokens: new(int64(100)), OutputTokens: new(int64(10))}}
	asked := running.DeepCopy()
	asked.ExitReason, asked.ActiveSeconds = v1alpha1.ExitNeedInput, new(int64(5))
	end := running.DeepCopy()
	end.Iterations, end.Usage.InputTokens = new(int32(3)), new(int64(150))
	end.ExitReason, end.CompletionTime, end.ActiveSeconds = v1alpha1.ExitIterationCapReached, &metav1.Time{}, new(int64(7))
	for _, step := range [][2]*v1alpha1.AgentTaskStatus{{empty, running}, {running, asked}, {asked, running}, {running, end}, {end, end}, {end, running}} {
		m.Observe(step[0], step[1])
	}
	want := `
# HELP agenttask_active_seconds Time that tasks spent running until their end, by the shared name of the exit reason.
# TYPE agenttask_active_seconds histogram
agenttask_active_seconds_bucket{exit_reason="iteration_cap_reached",le="1"} 0
agenttask_active_seconds_bucket{exit_reason="iteration_cap_reached",le="4"} 0
agenttask_active_seconds_bucket{exit_reason="iteration_cap_reached",le="16"} 1
agenttask_active_seconds_bucket{exit_reason="iteration_cap_reached",le="64"} 1
agenttask_active_seconds_bucket{exit_reason="iteration_cap_reached",le="256"} 1
agenttask_active_seconds_bucket{exit_reason="iteration_cap_reached",le="1024"} 1
agenttask_active_seconds_bucket{exit_reason="iteration_cap_reached",le="4096"} 1
agenttask_active_seconds_bucket{exit_reason="iteration_cap_reached",le="16384"} 1
agenttask_active_seconds_bucket{exit_reason="iteration_cap_reached",le="65536"} 1
agenttask_active_seconds_bucket{exit_reason="iteration_cap_reached",le="+Inf"} 1
agenttask_active_seconds_sum{exit_reason="iteration_cap_reached"} 7
agenttask_active_seconds_count{exit_reason="iteration_cap_reached"} 1
# HELP agenttask_exits_total Times that the loop of a task stopped, by the shared name of the exit reason; need_input is a pause.
# TYPE agenttask_exits_total counter
agenttask_exits_total{exit_reason="iteration_cap_reached"} 1
agenttask_exits_total{exit_reason="need_input"} 1
# HELP agenttask_iterations_total Turns run.
# TYPE agenttask_iterations_total counter
agenttask_iterations_total 3
# HELP agenttask_tokens_total Tokens used, by gen_ai.token.type.
# TYPE agenttask_tokens_total counter
agenttask_tokens_total{gen_ai_token_type="input"} 150
agenttask_tokens_total{gen_ai_token_type="output"} 10
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
