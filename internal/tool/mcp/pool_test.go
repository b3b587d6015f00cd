package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// dialects are the ways in which the go-sdk's server speaks the protocol.
func dialects() map[string]func(*sdk.Server) (http.Handler, Transport) {
	return map[string]func(*sdk.Server) (http.Handler, Transport){
		"SessionsAndStreams": func(s *sdk.Server) (http.Handler, Transport) { return handlerOf(s, nil), StreamableHTTP },
		"SessionsAndJSON": func(s *sdk.Server) (http.Handler, Transport) {
			return handlerOf(s, &sdk.StreamableHTTPOptions{JSONResponse: true}), StreamableHTTP
		},
		"ResumableStreams": func(s *sdk.Server) (http.Handler, Transport) {
			return handlerOf(s, &sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)}), StreamableHTTP
		},
		"Stateless": func(s *sdk.Server) (http.Handler, Transport) {
			return handlerOf(s, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}), StreamableHTTP
		},
		"Redirected": func(s *sdk.Server) (http.Handler, Transport) {
			return behindRedirect(handlerOf(s, nil)), StreamableHTTP
		},
		"OldSSE": func(s *sdk.Server) (http.Handler, Transport) {
			return sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return s }, nil), SSE
		},
	}
}

// behindRedirect serves h at /mcp/ and sends clients of /mcp there, as many servers do it.
func behindRedirect(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, "/mcp/", http.StatusTemporaryRedirect)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func TestEveryDialectListsAndCalls(t *testing.T) {
	for name, dialect := range dialects() {
		t.Run(name, func(t *testing.T) {
			var ran counter
			h, transport := dialect(echoServer(t, &ran))
			cfg := serve(t, h)
			cfg.Transport = transport
			p := newPool(t)
			wantTools(t, p, cfg, "echo", "fail", "wait")
			wantContent(t, echo(t.Context(), p, cfg, "hello"), false, "hello")
			wantContent(t, p.Call(t.Context(), "k", cfg, "fail", ""), true, "the disk is full")
			wantContent(t, p.Call(t.Context(), "k", cfg, "echo", `{"text":7}`), true, "text")
			wantContent(t, p.Call(t.Context(), "k", cfg, "nope", "{}"), true, "nope")
			if n := ran.of("hello"); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
		})
	}
}

func TestCallsOfOneSessionRunAtOnce(t *testing.T) {
	for name, dialect := range dialects() {
		t.Run(name, func(t *testing.T) {
			const n = 8
			var inside atomic.Int32
			all := make(chan struct{})
			s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
			sdk.AddTool(s, &sdk.Tool{Name: "meet"},
				func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
					if inside.Add(1) == n {
						close(all)
					}
					select {
					case <-all:
						return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "met"}}}, nil, nil
					case <-ctx.Done():
						return nil, nil, ctx.Err()
					}
				})
			h, transport := dialect(s)
			cfg := serve(t, h)
			cfg.Transport = transport
			p := newPool(t)
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() { wantContent(t, p.Call(t.Context(), "k", cfg, "meet", ""), false, "met") })
			}
			wg.Wait()
		})
	}
}

func TestFiveHundredToolsAreReadPageByPageAndOnce(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "many", Version: "1"}, &sdk.ServerOptions{PageSize: 20})
	for i := range 500 {
		addTool(s, fmt.Sprintf("tool%03d", i))
	}
	var lists atomic.Int32
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "tools/list" {
				lists.Add(1)
			}
			return next(ctx, method, req)
		}
	})
	cfg := serve(t, handlerOf(s, nil))
	p := newPool(t)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if tools, err := p.Tools(t.Context(), "k", cfg); err != nil || len(tools) != 500 {
				t.Errorf("%d tools, %v", len(tools), err)
			}
		})
	}
	wg.Wait()
	if n := lists.Load(); n != 25 {
		t.Errorf("%d pages were read, want 25", n)
	}
	wantContent(t, p.Call(t.Context(), "k", cfg, "tool499", "{}"), false, "tool499")
}

func TestListIsReadAgainWhenTheServerSaysItChanged(t *testing.T) {
	for name, dialect := range dialects() {
		t.Run(name, func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
			addTool(s, "old")
			h, transport := dialect(s)
			listening := make(chan struct{}, 16)
			cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet || r.Header.Get(headerMethod) == methodListen {
					w = &flushed{ResponseWriter: w, ch: listening}
				}
				h.ServeHTTP(w, r)
			}))
			cfg.Transport = transport
			changed := make(chan string, 16)
			p := newPool(t, WithOnToolsChanged(func(key string) { changed <- key }))
			wantTools(t, p, cfg, "old")
			// Only what is sent while the listening stream is open arrives.
			receive(t, listening, "the listening stream")
			addTool(s, "new")
			if key := receive(t, changed, "the notification"); key != "k" {
				t.Errorf("key is %q", key)
			}
			wantTools(t, p, cfg, "new", "old")
		})
	}
}

// flushed tells when its headers went out.
type flushed struct {
	http.ResponseWriter
	ch chan struct{}
}

func (f *flushed) Flush() {
	f.ResponseWriter.(http.Flusher).Flush()
	select {
	case f.ch <- struct{}{}:
	default:
	}
}

func TestListIsReadAgainWhenItIsOld(t *testing.T) {
	servers := map[string]*sdk.StreamableHTTPOptions{
		"Sessions": nil,
		// With this protocol the server may say for how long its list is good. The list may change all the same.
		"Stateless": {Stateless: true},
	}
	for name, opts := range servers {
		t.Run(name, func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, &sdk.ServerOptions{
				SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.TTLMs = int(time.Hour.Milliseconds()) },
			})
			addTool(s, "old")
			h := handlerOf(s, opts)
			cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet || r.Header.Get(headerMethod) == methodListen {
					w.WriteHeader(http.StatusMethodNotAllowed) // it never notifies
					return
				}
				h.ServeHTTP(w, r)
			}))
			clock := newManual()
			p := newPool(t, WithClock(clock), WithListMaxAge(time.Minute))
			wantTools(t, p, cfg, "old")
			addTool(s, "new")
			wantTools(t, p, cfg, "old")
			clock.advance(time.Minute)
			wantTools(t, p, cfg, "new", "old")
		})
	}
}

func TestIdleSessionIsClosedAndComesBack(t *testing.T) {
	var ran counter
	h := handlerOf(echoServer(t, &ran), nil)
	deleted := make(chan struct{}, 4)
	cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if r.Method == http.MethodDelete {
			deleted <- struct{}{}
		}
	}))
	p := newPool(t, WithIdleTimeout(time.Millisecond))
	wantTools(t, p, cfg, "echo", "fail", "wait")
	receive(t, deleted, "the end of the idle session")
	wantContent(t, echo(t.Context(), p, cfg, "again"), false, "again")
}

func TestCloseLetsCallsFinish(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "slow"},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			close(started)
			<-finish
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
		})
	cfg := serve(t, handlerOf(s, nil))
	p := newPool(t)
	results := make(chan string, 1)
	go func() { results <- p.Call(context.Background(), "k", cfg, "slow", "").Content }()
	receive(t, started, "the call")
	p.Close("k")
	close(finish)
	if got := receive(t, results, "the result"); got != "done" {
		t.Errorf("got %q", got)
	}
}

func TestShutdownBreaksOffWhatDoesNotEnd(t *testing.T) {
	var ran counter
	cfg := serve(t, handlerOf(echoServer(t, &ran), nil))
	p := NewPool()
	wantTools(t, p, cfg, "echo", "fail", "wait")
	results := make(chan string, 1)
	go func() { results <- p.Call(context.Background(), "k", cfg, "wait", "").Content }()
	ran.wait(t, "wait")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	if got := receive(t, results, "the result"); !strings.Contains(got, "outcome is unknown") {
		t.Errorf("got %q", got)
	}
	var unavailable *UnavailableError
	if _, err := p.Tools(t.Context(), "k", cfg); !errors.As(err, &unavailable) {
		t.Errorf("after Shutdown: %v", err)
	}
}

func TestArgumentsMustBeAJSONObject(t *testing.T) {
	var ran counter
	cfg := serve(t, handlerOf(echoServer(t, &ran), nil))
	p := newPool(t)
	for _, args := range []string{`{"text":`, `[]`, `"x"`, `7`, `null`, `{} {}`, `{'a':1}`} {
		got := p.Call(t.Context(), "k", cfg, "echo", args)
		wantContent(t, got, true, notRun, "JSON")
	}
	if ran.most() != 0 {
		t.Error("a malformed call ran")
	}
}

func TestLargeNumbersInArgumentsStayExact(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "id", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(req.Params.Arguments)}}}, nil
		})
	cfg := serve(t, handlerOf(s, nil))
	got := newPool(t).Call(t.Context(), "k", cfg, "id", `{"id": 12345678901234567890}`)
	wantContent(t, got, false, "12345678901234567890")
}

func TestLargeNumbersInStructuredContentStayExact(t *testing.T) {
	for name, dialect := range dialects() {
		t.Run(name, func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
			s.AddTool(&sdk.Tool{Name: "id", InputSchema: map[string]any{"type": "object"}},
				func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					return &sdk.CallToolResult{StructuredContent: json.RawMessage(`{"id":12345678901234567890}`)}, nil
				})
			h, transport := dialect(s)
			cfg := serve(t, h)
			cfg.Transport = transport
			wantContent(t, newPool(t).Call(t.Context(), "k", cfg, "id", ""), false, `{"id":12345678901234567890}`)
		})
	}
}

func TestServerWithoutToolsHasNone(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	p := newPool(t)
	cfg := serve(t, handlerOf(s, nil))
	if tools, err := p.Tools(t.Context(), "k", cfg); err != nil || !slices.Equal(toolNames(tools), nil) {
		t.Errorf("%v, %v", tools, err)
	}
}
