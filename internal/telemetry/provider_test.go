package telemetry_test

import (
	"context"
	"net"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/telemetry"
)

// receiver is as much of a collector as takes spans.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	got chan *collector.ExportTraceServiceRequest
}

func (r receiver) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.got <- req
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestSpansArriveAtACollector(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := receiver{got: make(chan *collector.ExportTraceServiceRequest, 1)}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	p, err := telemetry.NewProvider(t.Context(), "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	tracer := telemetry.NewTracer(p)
	tools := tracer.Toolbox(loop.ToolboxFunc(func(context.Context, loop.ToolCall) loop.ToolResult { return loop.ToolResult{} }))
	tools.Call(tracer.Context(t.Context(), "uid"), loop.ToolCall{Name: "look"})
	if err := p.Shutdown(t.Context()); err != nil { // which sends what is left
		t.Fatal(err)
	}
	resource := (<-r.got).ResourceSpans[0]
	if name := resource.ScopeSpans[0].Spans[0].Name; name != "execute_tool look" {
		t.Errorf("the span is %q", name)
	}
	about := map[string]string{}
	for _, kv := range resource.Resource.Attributes {
		about[kv.Key] = kv.Value.GetStringValue()
	}
	if about["service.name"] != "agenttask-operator" || about["service.version"] != "v1.2.3" {
		t.Errorf("it comes from %v", about)
	}
}
