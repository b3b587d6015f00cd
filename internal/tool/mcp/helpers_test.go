package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// counter counts how often each tool ran with each argument: the side effects.
type counter struct {
	mu sync.Mutex
	n  map[string]int
	// first is closed for each when it ran first.
	first map[string]chan struct{}
}

func (c *counter) began(what string) chan struct{} {
	if c.first == nil {
		c.n, c.first = map[string]int{}, map[string]chan struct{}{}
	}
	if c.first[what] == nil {
		c.first[what] = make(chan struct{})
	}
	return c.first[what]
}

// wait waits until a tool ran.
func (c *counter) wait(t *testing.T, what string) {
	t.Helper()
	c.mu.Lock()
	ch := c.began(what)
	c.mu.Unlock()
	receive(t, ch, what)
}

func (c *counter) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := c.began(what)
	if c.n[what]++; c.n[what] == 1 {
		close(ch)
	}
}

func (c *counter) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

func (c *counter) most() (most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.n {
		most = max(most, n)
	}
	return most
}

// echoServer has the tools echo (returns its argument, and counts), fail (isError) and wait (until the call is cancelled).
func echoServer(t *testing.T, ran *counter) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "echo", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "Says it again."},
		func(_ context.Context, _ *sdk.CallToolRequest, a in) (*sdk.CallToolResult, any, error) {
			ran.add(a.Text)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: a.Text}}}, nil, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "fail"},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return nil, nil, fmt.Errorf("the disk is full")
		})
	sdk.AddTool(s, &sdk.Tool{Name: "wait"},
		func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			ran.add("wait")
			select {
			case <-ctx.Done():
				ran.add("cancelled")
			case <-t.Context().Done(): // the server is about to go
			}
			return nil, nil, ctx.Err()
		})
	return s
}

func addTool(s *sdk.Server, name string) {
	s.AddTool(&sdk.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: name}}}, nil
		})
}

func handlerOf(s *sdk.Server, opts *sdk.StreamableHTTPOptions) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, opts)
}

// serve starts an HTTP server and gives the config of a toolset for it.
func serve(t *testing.T, h http.Handler) Config {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return Config{
		Name: "ts", URL: srv.URL + "/mcp", RequireApproval: ApproveNever,
		HTTP:        &http.Client{Transport: &http.Transport{}},
		CallTimeout: time.Minute, ConnectTimeout: time.Minute,
	}
}

// newPool makes a pool that is shut down with the test, before its servers.
func newPool(t *testing.T, opts ...Option) *Pool {
	t.Helper()
	p := NewPool(opts...)
	p.large.rest = 0 // which no test waits for but its own
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return p
}

func toolNames(tools []Tool) []string {
	var names []string
	for _, t := range tools {
		names = append(names, t.ServerName)
	}
	return names
}

func wantTools(t *testing.T, p *Pool, cfg Config, want ...string) {
	t.Helper()
	tools, err := p.Tools(t.Context(), "k", cfg)
	if err != nil {
		t.Fatalf("Tools: %v", err)
	}
	if got := toolNames(tools); !slices.Equal(got, want) {
		t.Fatalf("tools are %q, want %q", got, want)
	}
}

func echo(ctx context.Context, p *Pool, cfg Config, text string) loop.ToolResult {
	args, _ := json.Marshal(map[string]string{"text": text})
	return p.Call(ctx, "k", cfg, "echo", string(args))
}

func wantContent(t *testing.T, got loop.ToolResult, isError bool, parts ...string) {
	t.Helper()
	if got.IsError != isError {
		t.Errorf("IsError is %v: %q", got.IsError, got.Content)
	}
	for _, part := range parts {
		if !strings.Contains(got.Content, part) {
			t.Errorf("result %q does not say %q", got.Content, part)
		}
	}
}

// manual is a clock that a test moves.
type manual struct {
	mu  sync.Mutex
	now time.Time
}

func newManual() *manual { return &manual{now: time.Unix(1_800_000_000, 0)} }

func (m *manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *manual) advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

// receive waits for a value, and fails the test when none comes.
func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// addBig adds a tool that gives a long text.
func addBig(s *sdk.Server, text string) {
	s.AddTool(&sdk.Tool{Name: "big", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
		})
}
