package loop

import (
	"context"
	"time"
)

// Clock tells the time. Tests bring their own.
type Clock interface {
	Now() time.Time
}

// Model is a language model.
//
// Generate sends one request and returns the assembled reply. While the reply streams it calls onBytes (never nil) with the
// number of bytes of text, reasoning and tool arguments that arrived, from one goroutine. When ctx ends it returns at once.
// With an error, the reply may still be non-nil: it then holds what had arrived, text and usage, and is kept.
// Errors are *ModelError; any other error is treated as a ModelError that may be retried.
// A Model never retries by itself: the loop does.
type Model interface {
	Generate(ctx context.Context, req *Request, onBytes func(n int)) (*Reply, error)
}

// Toolbox runs tool calls. Call never fails the task: what goes wrong (timeout, unknown tool, a server that is gone) is a
// result with IsError, in words that the model can act on. It returns when ctx ends. A call is sent at most once.
type Toolbox interface {
	Call(ctx context.Context, call ToolCall) ToolResult
}

// ModelFunc and ToolboxFunc are functions as ports.
type (
	ModelFunc   func(ctx context.Context, req *Request, onBytes func(n int)) (*Reply, error)
	ToolboxFunc func(ctx context.Context, call ToolCall) ToolResult
	ClockFunc   func() time.Time
)

// Generate calls f.
func (f ModelFunc) Generate(ctx context.Context, req *Request, onBytes func(n int)) (*Reply, error) {
	return f(ctx, req, onBytes)
}

// Call calls f.
func (f ToolboxFunc) Call(ctx context.Context, call ToolCall) ToolResult { return f(ctx, call) }

// Now calls f.
func (f ClockFunc) Now() time.Time { return f() }
