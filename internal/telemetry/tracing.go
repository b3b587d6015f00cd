package telemetry

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// Tracer makes the spans of tasks: one for each model call and each tool call, and at a task's end one for the whole of it,
// which is the parent of the others. No span carries a prompt, a reply, an argument or a result. A nil Tracer makes none.
//
// A task may outlive many processes, so nothing of its trace is held in one: the ids of the trace and of the task's span
// follow from the task's UID.
type Tracer struct{ tracer trace.Tracer }

// maxNameBytes bounds the name of a model that a server gives itself.
const maxNameBytes = 256

// NewTracer makes a Tracer of a provider that was made with WithIDs.
func NewTracer(p trace.TracerProvider) *Tracer {
	return &Tracer{tracer: p.Tracer("github.com/agentloop-dev/agenttask-operator")}
}

// root is where a task's own span is. The UID is hashed, since samplers take the bits of a trace id for random.
func root(uid types.UID) trace.SpanContext {
	sum := sha256.Sum256([]byte(uid))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]), TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// Context makes the task's span the parent of what is started in ctx.
func (t *Tracer) Context(ctx context.Context, uid types.UID) context.Context {
	if t == nil {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, root(uid))
}

// Model gives m a span for each call.
func (t *Tracer) Model(m loop.Model, spec *v1alpha1.AgentModelSpec) loop.Model {
	if t == nil {
		return m
	}
	name := opChat + " " + spec.Model
	common := []attribute.KeyValue{
		keyOperation.String(opChat), keyProvider.String(providers[spec.Provider]), keyRequestModel.String(spec.Model),
	}
	if u, err := url.Parse(spec.Endpoint); err == nil && u.Hostname() != "" {
		common = append(common, keyServer.String(u.Hostname()))
	}
	return loop.ModelFunc(func(ctx context.Context, req *loop.Request, onBytes func(int)) (*loop.Reply, error) {
		ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(common...))
		defer span.End() // a panic below ends it too
		span.SetAttributes(keyPurpose.String(string(req.Purpose)))
		if req.MaxOutputTokens > 0 {
			span.SetAttributes(keyMaxTokens.Int64(req.MaxOutputTokens))
		}
		reply, err := m.Generate(ctx, req, onBytes)
		if reply != nil {
			span.SetAttributes(usageAttributes(reply.Usage)...)
			if reply.Model != "" {
				span.SetAttributes(keyResponseModel.String(loop.Cut(strings.ToValidUTF8(reply.Model, "\uFFFD"), maxNameBytes)))
			}
			if reply.Finish != "" {
				span.SetAttributes(keyFinishReasons.StringSlice([]string{string(reply.Finish)}))
			}
		}
		if err != nil {
			fail(span, callError(ctx, err))
		}
		return reply, err
	})
}

func usageAttributes(u loop.Usage) []attribute.KeyValue {
	return []attribute.KeyValue{keyInputTokens.Int64(u.InputTokens), keyCachedTokens.Int64(u.CachedInputTokens), keyOutputTokens.Int64(u.OutputTokens)}
}

// callError is a low-cardinality name of why a call failed.
func callError(ctx context.Context, err error) string {
	var e *loop.ModelError
	switch {
	case ctx.Err() != nil:
		return "interrupted"
	case errors.As(err, &e) && e.Cause != "":
		return string(e.Cause)
	}
	return "_OTHER"
}

func fail(span trace.Span, kind string) {
	span.SetAttributes(keyErrorType.String(kind))
	span.SetStatus(codes.Error, kind)
}

// Toolbox gives tools a span for each call.
func (t *Tracer) Toolbox(tools loop.Toolbox) loop.Toolbox {
	if t == nil {
		return tools
	}
	return loop.ToolboxFunc(func(ctx context.Context, call loop.ToolCall) loop.ToolResult {
		ctx, span := t.tracer.Start(ctx, opExecuteTool+" "+call.Name, trace.WithAttributes(
			keyOperation.String(opExecuteTool), keyToolName.String(call.Name), keyToolCallID.String(call.ID)))
		defer span.End()
		result := tools.Call(ctx, call)
		if result.IsError {
			fail(span, "tool_error")
		}
		return result
	})
}

// End makes the span of a task that has ended, once its status says so.
func (t *Tracer) End(task *v1alpha1.AgentTask) {
	st := &task.Status
	if t == nil || st.StartTime == nil || st.CompletionTime == nil {
		return
	}
	ctx := withRoot(context.Background(), root(task.UID))
	attributes := []attribute.KeyValue{
		keyOperation.String(opInvokeAgent), keyAgentName.String(task.Name), keyAgentID.String(string(task.UID)),
		keyConversation.String(string(task.UID)), keyNamespace.String(task.Namespace),
		keyExitReason.String(st.ExitReason.SharedName()), keyAgentFinish.String(agentFinish[st.ExitReason]),
	}
	if st.Iterations != nil {
		attributes = append(attributes, keyIterations.Int64(int64(*st.Iterations)))
	}
	if u := st.Usage; u != nil && u.InputTokens != nil && u.OutputTokens != nil {
		attributes = append(attributes, keyInputTokens.Int64(*u.InputTokens), keyOutputTokens.Int64(*u.OutputTokens))
	}
	_, span := t.tracer.Start(ctx, opInvokeAgent+" "+task.Name, trace.WithNewRoot(), trace.WithTimestamp(st.StartTime.Time), trace.WithAttributes(attributes...))
	if st.Phase == v1alpha1.PhaseFailed {
		fail(span, st.ExitReason.SharedName())
	}
	span.End(trace.WithTimestamp(st.CompletionTime.Time))
}
