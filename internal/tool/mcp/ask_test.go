package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// onAnswer gives the answers to the server's own requests to f, and everything else to h.
func onAnswer(h http.Handler, f func(w http.ResponseWriter, r *http.Request, answer string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(raw))
		if r.Method == http.MethodPost && !bytes.Contains(raw, []byte(`"method"`)) {
			f(w, r, string(raw))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// pingServer has the tool flood as well, which pings the client without end and returns when it may go on.
func pingServer(t *testing.T, ran *counter, onCall bool, goOn <-chan struct{}) *sdk.Server {
	s := echoServer(t, ran)
	sdk.AddTool(s, &sdk.Tool{Name: "flood"},
		func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			on := t.Context() // goes to the listening stream
			if onCall {
				on = ctx
			}
			for range 300 {
				go func() { _ = req.Session.Ping(on, nil) }()
			}
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "flooded"}}}, nil, nil
		})
	return s
}

func TestServerThatAsksWithoutEndHoldsLittle(t *testing.T) {
	tests := map[string]struct {
		transport Transport
		onCall    bool
	}{
		"ListeningStream": {StreamableHTTP, false},
		"CallStream":      {StreamableHTTP, true},
		"OldSSE":          {SSE, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var ran counter
			var inside, most atomic.Int32
			full, deleted := make(chan struct{}), make(chan struct{}, 1)
			listening := make(chan struct{}, 1)
			s := pingServer(t, &ran, tc.onCall, full)
			h := handlerOf(s, nil)
			if tc.transport == SSE {
				h = sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return s }, nil)
			}
			cfg := serve(t, onAnswer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.Method {
				case http.MethodDelete:
					deleted <- struct{}{}
					return
				case http.MethodGet:
					w = &flushed{ResponseWriter: w, ch: listening}
				}
				h.ServeHTTP(w, r)
			}), func(_ http.ResponseWriter, r *http.Request, _ string) {
				n := inside.Add(1)
				if most.Store(max(most.Load(), n)); n == maxAnswers {
					close(full)
				}
				<-r.Context().Done() // it never takes an answer
			}))
			cfg.Transport = tc.transport
			p := newPool(t)
			p.tellTime = time.Hour
			wantTools(t, p, cfg, "echo", "fail", "flood", "wait")
			receive(t, listening, "the listening stream")
			wantContent(t, p.Call(t.Context(), "k", cfg, "flood", ""), false, "flooded")
			wantContent(t, echo(t.Context(), p, cfg, "still"), false, "still")
			if n := most.Load(); n > maxAnswers {
				t.Errorf("%d answers were under way at once", n)
			}
			if err := p.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			if tc.transport == StreamableHTTP {
				receive(t, deleted, "the session's proper end")
			}
		})
	}
}

func TestAnswerThatTheServerDoesNotTakeIsGivenUp(t *testing.T) {
	var ran counter
	listening, ended, goOn := make(chan struct{}, 1), make(chan struct{}, 1000), make(chan struct{})
	close(goOn)
	h := handlerOf(pingServer(t, &ran, false, goOn), nil)
	cfg := serve(t, onAnswer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w = &flushed{ResponseWriter: w, ch: listening}
		}
		h.ServeHTTP(w, r)
	}), func(_ http.ResponseWriter, r *http.Request, _ string) {
		<-r.Context().Done()
		ended <- struct{}{}
	}))
	p := newPool(t)
	p.tellTime = 50 * time.Millisecond
	wantTools(t, p, cfg, "echo", "fail", "flood", "wait")
	receive(t, listening, "the listening stream")
	wantContent(t, p.Call(t.Context(), "k", cfg, "flood", ""), false, "flooded")
	receive(t, ended, "the end of an answer")
}

func TestRequestsOfTheServerAreAnswered(t *testing.T) {
	answers := make(chan string, 1)
	done := make(chan struct{})
	h := handlerOf(echoServer(t, &counter{}), nil)
	cfg := serve(t, onAnswer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			h.ServeHTTP(w, r)
			return
		}
		defer close(done)
		w.Header().Set("Content-Type", eventType)
		ask := func(method, params, want string) {
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":%q,\"params\":%s}\n\n", method, params)
			w.(http.Flusher).Flush()
			select {
			case got := <-answers:
				if !strings.Contains(got, want) {
					t.Errorf("%s: got %s", method, got)
				}
			case <-r.Context().Done():
				t.Errorf("%s: no answer", method)
			}
		}
		for range 3 * maxAnswers {
			ask("ping", "{}", `"result":{}`)
		}
		ask("elicitation/create", `{"message":"Your name?","requestedSchema":{"type":"object","properties":{}}}`, `"error"`)
		ask("sampling/createMessage", `{"messages":[],"maxTokens":1}`, `"error"`)
	}), func(w http.ResponseWriter, _ *http.Request, answer string) {
		answers <- answer
		w.WriteHeader(http.StatusAccepted)
	}))
	p := newPool(t)
	p.listenDelay = time.Hour // the stream is opened once
	wantTools(t, p, cfg, "echo", "fail", "wait")
	receive(t, done, "all the answers")
}
