package telemetry

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// NewProvider makes the provider that the OTEL_* environment variables ask for: spans go by OTLP over gRPC to
// OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT). Nil when neither is set. OTEL_TRACES_SAMPLER_ARG is
// the share of tasks that are traced, 1 by default. The caller shuts it down.
func NewProvider(ctx context.Context, version string) (*sdktrace.TracerProvider, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return nil, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if p := os.Getenv(name); p != "" && p != "grpc" {
			return nil, fmt.Errorf("%s is %q: only grpc is there", name, p)
		}
	}
	share := 1.0
	if arg := os.Getenv("OTEL_TRACES_SAMPLER_ARG"); arg != "" {
		var err error
		if share, err = strconv.ParseFloat(arg, 64); err != nil || !(share >= 0 && share <= 1) {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q: use a number from 0 to 1", arg)
		}
	}
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(serviceName.String("agenttask-operator"), serviceVersion.String(version)), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, err
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about), WithIDs(),
		// By the trace's id and not by the parent: the parent of a call is in no process.
		sdktrace.WithSampler(sdktrace.TraceIDRatioBased(share))), nil
}

// WithIDs lets a task's own span have the id that its calls name as their parent.
func WithIDs() sdktrace.TracerProviderOption { return sdktrace.WithIDGenerator(ids{}) }

type rootKey struct{}

func withRoot(ctx context.Context, sc trace.SpanContext) context.Context {
	return context.WithValue(ctx, rootKey{}, sc)
}

// ids makes random ids, but for the span that withRoot names.
type ids struct{}

func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if sc, ok := ctx.Value(rootKey{}).(trace.SpanContext); ok {
		return sc.TraceID(), sc.SpanID()
	}
	var id trace.TraceID
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64()|1) // never all zeros, which is no id
	return id, g.NewSpanID(ctx, id)
}

func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}
