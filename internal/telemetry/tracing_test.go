package telemetry_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/telemetry"
)

// process is what one operator process has of tracing.
func process(out *tracetest.InMemoryExporter) *telemetry.Tracer {
	return telemetry.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(out), telemetry.WithIDs()))
}

func attributes(s tracetest.SpanStub) map[attribute.Key]attribute.Value {
	out := map[attribute.Key]attribute.Value{}
	for _, kv := range s.Attributes {
		out[kv.Key] = kv.Value
	}
	return out
}

func TestATraceIsWholeOverRestarts(t *testing.T) {
	const secret = "tell nobody"
	out := tracetest.NewInMemoryExporter()
	spec := &v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderGemini, Model: "gem", Endpoint: "https://models.example.com:8443/v1"}
	reply := &loop.Reply{
		Model: "gem-001", Finish: loop.FinishToolCalls, Usage: loop.Usage{InputTokens: 100, CachedInputTokens: 40, OutputTokens: 7},
		Blocks: []loop.Block{{Kind: loop.BlockText, Text: secret}},
	}
	request := &loop.Request{Purpose: loop.PurposeTurn, System: secret, MaxOutputTokens: 500}
	model := loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) { return reply, nil })
	tool := loop.ToolboxFunc(func(context.Context, loop.ToolCall) loop.ToolResult {
		return loop.ToolResult{Content: secret, IsError: true}
	})

	first := process(out)
	ctx := first.Context(t.Context(), "uid-1")
	if got, err := first.Model(model, spec).Generate(ctx, request, func(int) {}); got != reply || err != nil {
		t.Fatalf("the reply came as %v, %v", got, err)
	}
	second := process(out)
	ctx = second.Context(t.Context(), "uid-1")
	if got := second.Toolbox(tool).Call(ctx, loop.ToolCall{ID: "c1", Name: "ops__deploy", Arguments: secret}); got.Content != secret || !got.IsError {
		t.Errorf("the result came as %+v", got)
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	task := &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Name: "report", Namespace: "team", UID: "uid-1"}, Spec: v1alpha1.AgentTaskSpec{Prompt: secret}}
	task.Status = v1alpha1.AgentTaskStatus{
		Phase: v1alpha1.PhaseFailed, ExitReason: v1alpha1.ExitIterationCapReached, Output: secret, Iterations: new(int32(1)),
		StartTime: new(metav1.NewTime(start)), CompletionTime: new(metav1.NewTime(start.Add(time.Minute))),
	}
	second.End(task)

	spans := out.GetSpans()
	if len(spans) != 3 {
		t.Fatalf("%d spans, want 3", len(spans))
	}
	chat, execute, whole := spans[0], spans[1], spans[2]
	ids := map[trace.SpanID]bool{}
	for _, s := range spans {
		ids[s.SpanContext.SpanID()] = true
		if !s.SpanContext.IsValid() {
			t.Errorf("%s has no valid ids", s.Name)
		}
		if s.SpanContext.TraceID() != whole.SpanContext.TraceID() {
			t.Errorf("%s is in a trace of its own", s.Name)
		}
		for key, v := range attributes(s) {
			if strings.Contains(v.String(), secret) {
				t.Errorf("%s shows in %s what was said", s.Name, key)
			}
		}
	}
	if len(ids) != 3 {
		t.Errorf("%d span ids, want 3", len(ids))
	}
	for _, s := range []tracetest.SpanStub{chat, execute} {
		if s.Parent.SpanID() != whole.SpanContext.SpanID() {
			t.Errorf("%s is no child of the task's span", s.Name)
		}
	}
	if whole.Parent.IsValid() || whole.EndTime.Sub(whole.StartTime) != time.Minute || whole.Status.Code != codes.Error {
		t.Errorf("the task's span: parent %v, took %s, %v", whole.Parent.IsValid(), whole.EndTime.Sub(whole.StartTime), whole.Status)
	}
	for name, want := range map[string]struct {
		span tracetest.SpanStub
		want map[attribute.Key]string
	}{
		"chat gem": {chat, map[attribute.Key]string{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "gcp.gen_ai", "gen_ai.request.model": "gem", "gen_ai.response.model": "gem-001",
			"gen_ai.usage.input_tokens": "100", "gen_ai.usage.cache_read.input_tokens": "40", "gen_ai.usage.output_tokens": "7",
			"gen_ai.request.max_tokens": "500", "server.address": "models.example.com", "agenttask.call.purpose": "turn",
		}},
		"execute_tool ops__deploy": {execute, map[attribute.Key]string{
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ops__deploy", "gen_ai.tool.call.id": "c1", "error.type": "tool_error",
		}},
		"invoke_agent report": {whole, map[attribute.Key]string{
			"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "report", "gen_ai.agent.id": "uid-1", "k8s.namespace.name": "team",
			"agenttask.exit_reason": "iteration_cap_reached", "gen_ai.agent.finish_reason": "max_iterations", "agenttask.iterations": "1",
		}},
	} {
		got := attributes(want.span)
		if want.span.Name != name {
			t.Errorf("a span is named %q, want %q", want.span.Name, name)
		}
		for key, value := range want.want {
			if got[key].String() != value {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key].String(), value)
			}
		}
	}
}

// An exporter refuses a whole batch of spans for one text that is too long, or no UTF-8.
func TestTheModelsNameIsWhatASpanCanHave(t *testing.T) {
	for name, c := range map[string]struct{ told, want string }{
		"a name":         {"gpt-x", "gpt-x"},
		"none":           {"", ""},
		"the longest":    {strings.Repeat("n", 256), strings.Repeat("n", 256)},
		"a flood":        {strings.Repeat("n", 1<<20), strings.Repeat("n", 228) + "\n[cut: 1048576 bytes in all]"},
		"bytes, no text": {"a\xff\xfeb", "a\uFFFDb"},
	} {
		out := tracetest.NewInMemoryExporter()
		model := loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
			return &loop.Reply{Model: c.told}, nil
		})
		if _, err := process(out).Model(model, &v1alpha1.AgentModelSpec{}).Generate(t.Context(), &loop.Request{}, func(int) {}); err != nil {
			t.Fatal(err)
		}
		if got := attributes(out.GetSpans()[0])["gen_ai.response.model"].AsString(); got != c.want {
			t.Errorf("%s: got %d bytes, %.300q", name, len(got), got)
		}
	}
}

func TestTasksDoNotShareATrace(t *testing.T) {
	out := tracetest.NewInMemoryExporter()
	tracer := process(out)
	tool := tracer.Toolbox(loop.ToolboxFunc(func(context.Context, loop.ToolCall) loop.ToolResult { return loop.ToolResult{} }))
	tool.Call(tracer.Context(t.Context(), "uid-1"), loop.ToolCall{Name: "a"})
	tool.Call(tracer.Context(t.Context(), "uid-2"), loop.ToolCall{Name: "a"})
	if s := out.GetSpans(); s[0].SpanContext.TraceID() == s[1].SpanContext.TraceID() {
		t.Error("two tasks are in one trace")
	}
}

func TestACallOutsideATaskHasATraceOfItsOwn(t *testing.T) {
	out := tracetest.NewInMemoryExporter()
	tool := process(out).Toolbox(loop.ToolboxFunc(func(context.Context, loop.ToolCall) loop.ToolResult { return loop.ToolResult{} }))
	tool.Call(t.Context(), loop.ToolCall{Name: "a"})
	tool.Call(t.Context(), loop.ToolCall{Name: "a"})
	s := out.GetSpans()
	one, two := s[0].SpanContext, s[1].SpanContext
	if !one.IsValid() || !two.IsValid() || one.TraceID() == two.TraceID() || one.SpanID() == two.SpanID() {
		t.Errorf("got %+v and %+v", one, two)
	}
}

func TestASuccessIsNotMarkedAsAnError(t *testing.T) {
	out := tracetest.NewInMemoryExporter()
	tracer := process(out)
	model := loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) { return &loop.Reply{}, nil })
	if _, err := tracer.Model(model, &v1alpha1.AgentModelSpec{}).Generate(t.Context(), &loop.Request{}, func(int) {}); err != nil {
		t.Fatal(err)
	}
	tracer.Toolbox(loop.ToolboxFunc(func(context.Context, loop.ToolCall) loop.ToolResult { return loop.ToolResult{} })).Call(t.Context(), loop.ToolCall{})
	now := new(metav1.Now())
	tracer.End(&v1alpha1.AgentTask{Status: v1alpha1.AgentTaskStatus{
		Phase: v1alpha1.PhaseSucceeded, ExitReason: v1alpha1.ExitCompleted, StartTime: now, CompletionTime: now,
	}})
	spans := out.GetSpans()
	if len(spans) != 3 {
		t.Fatalf("%d spans, want 3", len(spans))
	}
	for _, s := range spans {
		if _, has := attributes(s)["error.type"]; has || s.Status.Code == codes.Error {
			t.Errorf("%s: %v, %v", s.Name, s.Status, s.Attributes)
		}
	}
}

func TestATaskThatDidNotRunOrEndHasNoSpan(t *testing.T) {
	now := new(metav1.Now())
	for name, status := range map[string]v1alpha1.AgentTaskStatus{"not started": {CompletionTime: now}, "not ended": {StartTime: now}} {
		out := tracetest.NewInMemoryExporter()
		process(out).End(&v1alpha1.AgentTask{Status: status})
		if n := len(out.GetSpans()); n != 0 {
			t.Errorf("%s: %d spans", name, n)
		}
	}
}

func TestAFailedCallSaysWhyInAName(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		err  error
		want string
	}{
		"a typed error":  {t.Context(), &loop.ModelError{Cause: loop.CauseModelAuthenticationFailed, Detail: "key sk-123"}, string(loop.CauseModelAuthenticationFailed)},
		"another error":  {t.Context(), errors.New("sk-123"), "_OTHER"},
		"an interrupted": {interrupted, errors.New("sk-123"), "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			out := tracetest.NewInMemoryExporter()
			m := process(out).Model(loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) { return nil, test.err }), &v1alpha1.AgentModelSpec{})
			if _, err := m.Generate(test.ctx, &loop.Request{}, func(int) {}); !errors.Is(err, test.err) {
				t.Fatalf("the error came as %v", err)
			}
			s := out.GetSpans()[0]
			if got := attributes(s)["error.type"].AsString(); got != test.want || s.Status.Description != test.want {
				t.Errorf("error.type %q, status %q, want %q", got, s.Status.Description, test.want)
			}
		})
	}
}

func TestWithoutATracerNothingIsInTheWay(t *testing.T) {
	var tracer *telemetry.Tracer
	ctx := t.Context()
	if tracer.Context(ctx, "uid") != ctx {
		t.Error("the context was changed")
	}
	reply := &loop.Reply{}
	model := tracer.Model(loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) { return reply, nil }), &v1alpha1.AgentModelSpec{})
	if got, err := model.Generate(ctx, &loop.Request{}, func(int) {}); got != reply || err != nil {
		t.Errorf("the reply came as %v, %v", got, err)
	}
	result := loop.ToolResult{Content: "seen"}
	tools := tracer.Toolbox(loop.ToolboxFunc(func(context.Context, loop.ToolCall) loop.ToolResult { return result }))
	if got := tools.Call(ctx, loop.ToolCall{}); got != result {
		t.Errorf("the result came as %+v", got)
	}
	tracer.End(&v1alpha1.AgentTask{})
}

func TestTracingIsConfiguredByItsStandardVariables(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		on   bool
		fail string
	}{
		"nothing set":           {},
		"an endpoint":           {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		"one for traces":        {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		"the protocol":          {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, on: true},
		"a protocol for traces": {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, fail: "only grpc"},
		"a share":               {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER_ARG": "0.5"}, on: true},
		"below nothing":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER_ARG": "-1"}, fail: "from 0 to 1"},
		"no number":             {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER_ARG": "half"}, fail: "from 0 to 1"},
		"another protocol":      {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, fail: "only grpc"},
		"no share":              {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER_ARG": "2"}, fail: "from 0 to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_TRACES_SAMPLER_ARG"} {
				t.Setenv(key, test.env[key])
			}
			p, err := telemetry.NewProvider(t.Context(), "v1")
			if (p != nil) != test.on || (err == nil) != (test.fail == "") || err != nil && !strings.Contains(err.Error(), test.fail) {
				t.Fatalf("got %v, %v", p, err)
			}
			if p != nil {
				if err := p.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
