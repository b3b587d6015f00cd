package mcp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

func TestTenMegabyteResultIsCut(t *testing.T) {
	for name, dialect := range dialects() {
		if name == "ResumableStreams" || name == "Stateless" || name == "Redirected" {
			continue // their answers take the same ways, and 10 MB take their time
		}
		t.Run(name, func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
			addBig(s, strings.Repeat("0123456789abcdef", 10<<20/16))
			h, transport := dialect(s)
			cfg := serve(t, h)
			cfg.Transport = transport
			p := newPool(t)
			got := p.Call(t.Context(), "k", cfg, "big", "")
			wantContent(t, got, false, "[cut: ", " of 10485760 bytes shown]")
			if len(got.Content) > DefaultMaxResultBytes {
				t.Errorf("%d bytes", len(got.Content))
			}
		})
	}
}

// endless writes JSON strings until the client goes away, and counts the bytes.
func endless(w io.Writer, start string, sent *atomic.Int64) {
	_, err := io.WriteString(w, start)
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for err == nil {
		var n int
		n, err = w.Write(chunk)
		sent.Add(int64(n))
	}
}

func TestEndlessResultIsGivenUpAndHarmsNoOtherCall(t *testing.T) {
	bodies := map[string]struct{ contentType, start string }{
		"JSON":   {jsonType, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`},
		"Stream": {eventType, `data: {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`},
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			var ran counter
			var sent atomic.Int64
			release := make(chan struct{})
			h := handlerOf(echoServer(t, &ran), nil)
			cfg := serve(t, onCall(h, func(w http.ResponseWriter, r *http.Request) {
				if ran.add("call"); ran.of("call") == 1 {
					<-release
					h.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", body.contentType)
				endless(w, body.start, &sent)
			}))
			p := newPool(t)
			first := make(chan loop.ToolResult, 1)
			go func() { first <- echo(context.Background(), p, cfg, "first") }()
			ran.wait(t, "call")
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			wantContent(t, p.Call(t.Context(), "k", cfg, "big", ""), true, "more than 16 MiB", "has run")
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
				t.Errorf("%d bytes are still held", grown)
			}
			// What the kernel and net/http buffer comes on top.
			if n := sent.Load(); n > 64<<20 {
				t.Errorf("%d bytes were taken", n)
			}
			close(release)
			wantContent(t, receive(t, first, "the other call"), false, "first")
		})
	}
}

// interruptWait calls the tool wait, cancels the task while it runs, and expects that both sides are told. The context is the
// cancelled task's.
func interruptWait(t *testing.T, p *Pool, cfg Config, ran *counter) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	results := make(chan loop.ToolResult, 1)
	go func() { results <- p.Call(ctx, "k", cfg, "wait", "") }()
	ran.wait(t, "wait")
	cancel(loop.ErrCancelled)
	wantContent(t, receive(t, results, "the interrupted call"), true, "the task was cancelled", "outcome is unknown")
	ran.wait(t, "cancelled")
	return ctx
}

func TestCallsEndWithTimeoutAndContext(t *testing.T) {
	for name, dialect := range dialects() {
		t.Run(name, func(t *testing.T) {
			var ran counter
			h, transport := dialect(echoServer(t, &ran))
			cfg := serve(t, h)
			cfg.Transport = transport
			p := newPool(t)
			wantTools(t, p, cfg, "echo", "fail", "wait")

			ctx := interruptWait(t, p, cfg, &ran)

			short := cfg
			short.CallTimeout = 50 * time.Millisecond
			got := p.Call(t.Context(), "short", short, "wait", "")
			wantContent(t, got, true, "No answer within 50ms", "outcome is unknown")
			wantContent(t, p.Call(ctx, "k", cfg, "wait", ""), true, notRun, "the task was cancelled")
			// The session is as good as before.
			wantContent(t, echo(t.Context(), p, cfg, "still"), false, "still")
		})
	}
}

// A server of the old transport may run the tool before it has answered the POST that asked for it.
func TestCallInterruptedBeforeItsPostIsAnsweredIsCancelledAtTheServer(t *testing.T) {
	var ran counter
	var sessions atomic.Int32
	h := sdk.NewSSEHandler(func(*http.Request) *sdk.Server { sessions.Add(1); return echoServer(t, &ran) }, nil)
	cfg := serve(t, onCall(h, func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(httptest.NewRecorder(), r)
		if ran.of("cancelled") == 0 {
			<-r.Context().Done() // the client has gone
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	cfg.Transport = SSE
	p := newPool(t)
	interruptWait(t, p, cfg, &ran)
	wantContent(t, echo(t.Context(), p, cfg, "still"), false, "still")
	if n := sessions.Load(); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}
