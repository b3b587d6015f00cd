package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// isCall tells whether a request is a tools/call, and leaves its body readable.
func isCall(r *http.Request) bool {
	raw, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(raw))
	return r.Method == http.MethodPost && bytes.Contains(raw, []byte(`"tools/call"`))
}

// onCall answers tools/call by f, and everything else by h.
func onCall(h http.Handler, f http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isCall(r) {
			f(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func hangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close() // that is the fault
	}
}

func TestServerThatHangsOnInitializeIsGivenUpAndLeftAlone(t *testing.T) {
	var requests atomic.Int32
	hanging := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // the server only sees a client go once it has read all
		<-r.Context().Done()
	}))
	hanging.Name, hanging.ConnectTimeout = "hanging", 100*time.Millisecond
	var ran counter
	good := serve(t, handlerOf(echoServer(t, &ran), nil))
	clock := newManual()
	p := newPool(t, WithClock(clock))
	sources := []Source{{Key: "h", Config: hanging}, {Key: "g", Config: good}}
	set, err := p.Resolve(t.Context(), sources, loop.Pins{})
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Definitions) != 3 || len(set.Unavailable) != 1 || set.Unavailable[0].Reason != "no answer within 100ms" {
		t.Errorf("%d tools, unavailable: %v", len(set.Definitions), set.Unavailable)
	}
	before := requests.Load()
	for range 10 {
		var unavailable *UnavailableError
		if _, err := p.Tools(t.Context(), "h", hanging); !errors.As(err, &unavailable) || unavailable.RetryAfter <= 0 {
			t.Fatalf("got %v", err)
		}
	}
	got := set.pool.Call(t.Context(), "h", hanging, "x", "")
	wantContent(t, got, true, notRun, "no answer within 100ms")
	if n := requests.Load(); n != before {
		t.Errorf("%d more requests in the pause", n-before)
	}
	clock.advance(2 * time.Second)
	_, _ = p.Tools(t.Context(), "h", hanging)
	if requests.Load() == before {
		t.Error("it was not tried again after the pause")
	}
}

// Its tools would be held for as long as it is used, and sent with every request. Schemas of tools have no other bound: the
// operator passes them on, and compiles and evaluates none.
func TestServerWhoseListIsHugeIsGivenUp(t *testing.T) {
	half := strings.Repeat("x", maxListBytes/2)
	for name, tool := range map[string]sdk.Tool{
		"descriptions": {Description: half, InputSchema: map[string]any{"type": "object"}},
		"schemas":      {InputSchema: map[string]any{"type": "object", "description": half}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
			for i := range 3 {
				tool.Name = fmt.Sprint("t", i)
				s.AddTool(&sdk.Tool{Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema},
					func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, nil })
			}
			p := newPool(t)
			_, err := p.Tools(t.Context(), "k", serve(t, handlerOf(s, nil)))
			if err == nil || !strings.Contains(err.Error(), "takes more than 2 MiB") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Lists are held for as long as their toolsets are used, so all of them together have a bound. What one namespace takes of it leaves
// some to the others, and a list that was taken once can be read again.
func TestListsOfAllToolsetsTogetherAreBounded(t *testing.T) {
	const each = 1 << 20
	clock, bytes := newManual(), fairshare.NewBytes(8*each)
	p := newPool(t, WithListRoom(bytes), func(p *Pool) { p.now = clock.Now })
	s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "t", Description: strings.Repeat("x", each-1000), InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, nil })
	cfg := serve(t, handlerOf(s, nil))
	ask := func(namespace string, i int) error {
		c := cfg
		c.Namespace = namespace
		_, err := p.Tools(t.Context(), fmt.Sprint(namespace, i), c)
		return err
	}
	for round := range 3 { // a list that is old is read again
		for i := range 6 {
			if err := ask("hog", i); err != nil {
				t.Fatalf("round %d, toolset %d: %v", round, i, err)
			}
		}
		clock.advance(2 * defaultMaxAge)
	}
	var unavailable *UnavailableError
	if err := ask("hog", 6); !errors.As(err, &unavailable) || !strings.Contains(err.Error(), "no memory left for its list of tools") || unavailable.RetryAfter < maxPause {
		t.Errorf("got %v", err)
	}
	if err := ask("other", 0); err != nil {
		t.Errorf("another namespace finds no room: %v", err)
	}
	if used := bytes.Used(); used < 6*each || used > 8*each {
		t.Errorf("%d bytes are taken", used)
	}
	p.mu.Lock()
	entries := slices.Collect(maps.Values(p.entries))
	p.mu.Unlock()
	for _, e := range entries {
		e.drop()
	}
	if used := bytes.Used(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// A toolset's globs that take too long make it unavailable, and say so; a task's are the task's to correct.
func TestGlobsThatTakeTooLongAreToldToTheirAuthor(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	for i := range 50 {
		s.AddTool(&sdk.Tool{Name: fmt.Sprintf("%s%02d", strings.Repeat("a", 120), i), InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, nil })
	}
	cfg := serve(t, handlerOf(s, nil))
	globs := slices.Repeat([]string{"*" + strings.Repeat("a", 100) + "b"}, 64)
	p := newPool(t)
	_, err := p.Resolve(t.Context(), []Source{{Key: "k", Config: cfg, TaskAllow: globs}}, loop.Pins{})
	var unavailable *UnavailableError
	if err == nil || errors.As(err, &unavailable) || !strings.Contains(err.Error(), `toolset "ts": allow: comparing the globs`) {
		t.Errorf("the task's: %v", err)
	}
	cfg.Deny = globs
	_, err = p.Tools(t.Context(), "denied", cfg)
	if !errors.As(err, &unavailable) || !strings.Contains(err.Error(), "spec.allow, spec.deny or spec.approvalTools: comparing the globs") {
		t.Errorf("the toolset's: %v", err)
	}
}

func TestServerThatFailedBeforeHoldsNobodyUpAgain(t *testing.T) {
	var hang atomic.Bool
	cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hang.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	clock := newManual()
	p := newPool(t, WithClock(clock))
	p.secondChance = time.Millisecond
	_, _ = p.Tools(t.Context(), "k", cfg)
	hang.Store(true)
	clock.advance(time.Minute)
	// It would take ten seconds to find out that the server now hangs.
	_, err := p.Tools(t.Context(), "k", cfg)
	if err == nil || err.Error() != `toolset "ts" is not available: the server answered HTTP 500` {
		t.Errorf("got %v", err)
	}
}

func TestPausesDoubleUpToAMinute(t *testing.T) {
	last := time.Duration(0)
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1000: time.Minute} {
		got := pauseAfter(failures)
		if got < want || got >= want+want/5 {
			t.Errorf("after %d failures: %s, want %s and up to a fifth more", failures, got, want)
		}
		last = max(last, got)
	}
	if last > maxPause+maxPause/5 {
		t.Errorf("the longest pause is %s", last)
	}
}

func TestWaitingForToolsEndsWithTheContext(t *testing.T) {
	entered := make(chan struct{}, 8)
	cfg := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		entered <- struct{}{}
		<-r.Context().Done()
	}))
	p := newPool(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-entered
		cancel(loop.ErrCancelled)
	}()
	// Far below ConnectTimeout, or the test's deadline would tell.
	if _, err := p.Tools(ctx, "k", cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("Tools: %v", err)
	}
	wantContent(t, p.Call(ctx, "k", cfg, "x", ""), true, notRun, "the task was cancelled")
}

// dropping closes every second connection as soon as it is accepted.
type dropping struct {
	net.Listener
	n atomic.Int32
}

func (d *dropping) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil || d.n.Add(1)%2 == 1 {
			return conn, err
		}
		_ = conn.Close() // that is the fault
	}
}

func TestServerThatDropsEverySecondConnectionRunsNothingTwice(t *testing.T) {
	var ran counter
	srv := httptest.NewUnstartedServer(handlerOf(echoServer(t, &ran), nil))
	srv.Listener = &dropping{Listener: srv.Listener}
	srv.Start()
	t.Cleanup(srv.Close)
	// One connection a request, so that half of the requests fail.
	cfg := Config{
		Name: "ts", URL: srv.URL, RequireApproval: ApproveNever,
		HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	p := newPool(t)
	wantTools(t, p, cfg, "echo", "fail", "wait")
	good := 0
	for i := range 40 {
		text := fmt.Sprintf("call %d", i)
		switch got := echo(t.Context(), p, cfg, text); {
		case !got.IsError && got.Content == text && ran.of(text) == 1:
			good++
		case got.IsError && strings.Contains(got.Content, "outcome is unknown") && ran.of(text) <= 1:
		case got.IsError && strings.Contains(got.Content, notRun) && ran.of(text) == 0:
		default:
			t.Errorf("%s: ran %d times, result %q (error %v)", text, ran.of(text), got.Content, got.IsError)
		}
	}
	if good < 10 {
		t.Errorf("only %d of 40 calls gave a result", good)
	}
}

func TestLostAnswerIsNeverAskedForByCallingAgain(t *testing.T) {
	for name, dialect := range dialects() {
		if name == "Redirected" {
			continue // the answer that is lost here would be the redirect
		}
		t.Run(name, func(t *testing.T) {
			var ran counter
			h, transport := dialect(echoServer(t, &ran))
			posts := atomic.Int32{}
			cfg := serve(t, onCall(h, func(w http.ResponseWriter, r *http.Request) {
				posts.Add(1)
				h.ServeHTTP(httptest.NewRecorder(), r) // it runs
				hangUp(w)                              // and nobody hears of it
			}))
			cfg.Transport, cfg.CallTimeout = transport, 5*time.Second
			// A header that makes net/http take a POST for repeatable must not get through.
			cfg.Headers = map[string]string{"Idempotency-Key": "abc", "x-idempotency-key": "abc"}
			p := newPool(t)
			for i := range 5 {
				got := echo(t.Context(), p, cfg, fmt.Sprint(i))
				if transport == StreamableHTTP {
					wantContent(t, got, true, "outcome is unknown")
				}
			}
			// The old transport's server may not have come to run a call yet.
			if posts.Load() != 5 || ran.most() > 1 || (ran.most() == 0 && transport != SSE) {
				t.Errorf("5 calls were posted %d times, and one ran %d times", posts.Load(), ran.most())
			}
		})
	}
}

func TestToolThatAsksForInputIsNotCalledAgain(t *testing.T) {
	var ran counter
	s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			ran.add("ask")
			//nolint:staticcheck // deprecated in the protocol, and the simplest input that a server can ask for
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"roots": &sdk.ListRootsParams{}}}, nil
		})
	cfg := serve(t, handlerOf(s, &sdk.StreamableHTTPOptions{Stateless: true}))
	p := newPool(t)
	wantContent(t, p.Call(t.Context(), "k", cfg, "ask", ""), true, "further input", "outcome is unknown")
	if n := ran.of("ask"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func TestBrokenStreamIsResumedAndTheCallIsSentOnce(t *testing.T) {
	ways := map[string]func(http.Handler) http.Handler{
		"Direct":     func(h http.Handler) http.Handler { return h },
		"Redirected": behindRedirect,
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			var ran counter
			s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
			resumed := make(chan struct{})
			sdk.AddTool(s, &sdk.Tool{Name: "job"},
				func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
					ran.add("job")
					req.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: time.Millisecond})
					select {
					case <-resumed:
					case <-ctx.Done():
					}
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
				})
			h := handlerOf(s, &sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)})
			cfg := serve(t, way(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && r.Header.Get(headerLastEventID) != "" {
					close(resumed)
				}
				h.ServeHTTP(w, r)
			})))
			got := newPool(t).Call(t.Context(), "k", cfg, "job", "")
			wantContent(t, got, false, "done")
			if n := ran.of("job"); n != 1 {
				t.Errorf("it ran %d times", n)
			}
		})
	}
}
