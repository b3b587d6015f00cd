// Package telemetry counts what tasks do. No metric has a label for a single object: their number must not grow with the
// tasks.
package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// Metrics counts from one written status to the next.
type Metrics struct {
	exits      *prometheus.CounterVec
	iterations prometheus.Counter
	tokens     *prometheus.CounterVec
	duration   *prometheus.HistogramVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		exits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agenttask_exits_total", Help: "Times that the loop of a task stopped, by the shared name of the exit reason; need_input is a pause.",
		}, []string{"exit_reason"}),
		iterations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agenttask_iterations_total", Help: "Turns run.",
		}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agenttask_tokens_total", Help: "Tokens used, by gen_ai.token.type.",
		}, []string{"gen_ai_token_type"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agenttask_active_seconds", Help: "Time that tasks spent running until their end, by the shared name of the exit reason.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 9), // 1 s to 18 h
		}, []string{"exit_reason"}),
	}
	r.MustRegister(m.exits, m.iterations, m.tokens, m.duration)
	return m
}

// Observe counts what changed between two statuses of a task that were written one after the other.
func (m *Metrics) Observe(was, now *v1alpha1.AgentTaskStatus) {
	if m == nil {
		return
	}
	m.iterations.Add(grown(was.Iterations, now.Iterations))
	old, current := usage(was), usage(now)
	m.tokens.WithLabelValues("input").Add(grown(old.InputTokens, current.InputTokens))
	m.tokens.WithLabelValues("output").Add(grown(old.OutputTokens, current.OutputTokens))
	if now.ExitReason == "" || now.ExitReason == was.ExitReason {
		return
	}
	reason := now.ExitReason.SharedName()
	m.exits.WithLabelValues(reason).Inc()
	if now.CompletionTime != nil && now.ActiveSeconds != nil {
		m.duration.WithLabelValues(reason).Observe(float64(*now.ActiveSeconds))
	}
}

func usage(s *v1alpha1.AgentTaskStatus) v1alpha1.TokenUsage {
	if s.Usage == nil {
		return v1alpha1.TokenUsage{}
	}
	return *s.Usage
}

// grown is by how much a count grew; a counter never goes back.
func grown[N int32 | int64](was, now *N) float64 {
	var a, b N
	if was != nil {
		a = *was
	}
	if now != nil {
		b = *now
	}
	return float64(max(0, b-a))
}
