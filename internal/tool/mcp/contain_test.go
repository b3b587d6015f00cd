package mcp

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// badAnswer is what a server may answer to a call that is not MCP, and what the model is told.
type badAnswer struct {
	answer http.HandlerFunc
	want   []string
}

func badAnswers() map[string]badAnswer {
	write := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	const message = `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"quota used up"}}`
	return map[string]badAnswer{
		"Unauthorized":   {write(401, "text/plain", "secret body"), []string{notRun, "credentials (HTTP 401)"}},
		"TooMany":        {write(429, "text/plain", "secret body"), []string{notRun, "HTTP 429"}},
		"ServerError":    {write(500, "text/html", "secret body"), []string{"HTTP 500", "outcome is unknown"}},
		"BadGateway":     {write(502, "text/html", "secret body"), []string{"HTTP 502", "outcome is unknown"}},
		"ErrorIn400":     {write(400, jsonType, message), []string{"quota used up"}},
		"ArgumentsIn400": {write(400, jsonType, `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no such shell session"}}`), []string{"no such shell session"}},
		"ErrorIn200":     {write(200, jsonType, message), []string{"quota used up"}},
		"NoJSON":         {write(200, jsonType, "secret body"), []string{"outcome is unknown"}},
		"NoResponse":     {write(200, jsonType, `{"jsonrpc":"2.0","method":"x"}`), []string{"outcome is unknown"}},
		"OtherType":      {write(200, "text/plain", "secret body"), []string{"outcome is unknown"}},
		"Accepted":       {write(202, "", ""), []string{"outcome is unknown"}},
		"EmptyStream":    {write(200, eventType, ""), []string{"outcome is unknown"}},
		"BadEvent":       {write(200, eventType, "data: {\"secret body\n\n"), []string{"outcome is unknown"}},
		"BadLine":        {write(200, eventType, "secret body\n\n"), []string{"outcome is unknown"}},
		"HalfAnEvent":    {write(200, eventType, `data: {"jsonrpc":"2.0","id":`), []string{"outcome is unknown"}},
		"StreamNoResume": {write(200, eventType, "id: 1\nretry: 1\ndata: \n\n"), []string{"outcome is unknown"}},
		"OtherSession": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(headerSession, "another")
			write(200, jsonType, message)(w, r)
		}, []string{"quota used up"}},
	}
}

func TestBadAnswerHarmsItsOwnCallOnly(t *testing.T) {
	for name, fault := range badAnswers() {
		t.Run(name, func(t *testing.T) {
			var ran counter
			release := make(chan struct{})
			h := handlerOf(echoServer(t, &ran), nil)
			cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Header.Get(headerLastEventID) != "":
					w.WriteHeader(http.StatusMethodNotAllowed) // streams cannot be resumed here
				case isCall(r) && ran.of("call") == 0:
					ran.add("call")
					<-release
					h.ServeHTTP(w, r)
				case isCall(r):
					fault.answer(w, r)
				default:
					h.ServeHTTP(w, r)
				}
			}))
			p := newPool(t)
			first := make(chan loop.ToolResult, 1)
			go func() { first <- echo(context.Background(), p, cfg, "first") }()
			ran.wait(t, "call")
			got := echo(t.Context(), p, cfg, "second")
			wantContent(t, got, true, fault.want...)
			if strings.Contains(got.Content, "secret body") {
				t.Errorf("%q repeats the server's body", got.Content)
			}
			close(release)
			wantContent(t, receive(t, first, "the other call"), false, "first")
		})
	}
}

func TestServerThatIsGoneGetsNoCall(t *testing.T) {
	var ran counter
	srv := httptest.NewServer(handlerOf(echoServer(t, &ran), nil))
	cfg := Config{
		Name: "ts", URL: srv.URL,
		// Otherwise the request may be written to a connection whose end is not noticed yet, and then nothing is certain.
		HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	p := newPool(t)
	wantContent(t, echo(t.Context(), p, cfg, "one"), false, "one")
	srv.CloseClientConnections()
	srv.Close()
	got := echo(t.Context(), p, cfg, "two")
	wantContent(t, got, true, notRun, "refused")
	_, err := p.Tools(t.Context(), "other", cfg)
	if err == nil || err.Error() != `toolset "ts" is not available: the connection was refused` {
		t.Errorf("Tools: %v", err)
	}
}

func TestListeningStreamsNeitherHoldUpNorEndASession(t *testing.T) {
	listeners := map[string]func(w http.ResponseWriter, r *http.Request){
		"EndsAtOnce":  func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", eventType) },
		"NeverOpens":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"HangsUp":     func(w http.ResponseWriter, _ *http.Request) { hangUp(w) },
		"NotFound":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"NotAllowed":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"Unavailable": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"Large": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", eventType)
			_, _ = io.WriteString(w, "data: "+strings.Repeat("x", 2*maxSmallBytes))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"Garbage": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", eventType)
			_, _ = io.WriteString(w, "what\ndata: {\"jsonrpc\n\ndata: [1]\n\nid: 7\ndata: x")
		},
	}
	for name, listener := range listeners {
		t.Run(name, func(t *testing.T) {
			var ran counter
			opened := make(chan struct{}, 100)
			h := handlerOf(echoServer(t, &ran), nil)
			cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					h.ServeHTTP(w, r)
					return
				}
				select {
				case opened <- struct{}{}:
				default:
				}
				listener(w, r)
			}))
			p := newPool(t)
			p.listenDelay = time.Millisecond
			wantContent(t, echo(t.Context(), p, cfg, "one"), false, "one")
			if name != "NeverOpens" && !strings.HasPrefix(name, "Not") {
				// More often than the SDK itself puts up with.
				for range 8 {
					receive(t, opened, "another stream")
				}
			}
			wantContent(t, echo(t.Context(), p, cfg, "two"), false, "two")
		})
	}
}

func TestHeadersStayAtTheToolsetsOrigin(t *testing.T) {
	const secret = "Bearer secret-0123456789"
	var leaked, seen atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked.Add(1)
		t.Errorf("a request went to the other origin, with %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	var ran counter
	h := handlerOf(echoServer(t, &ran), nil)
	var elsewhere atomic.Bool
	cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == secret {
			seen.Add(1)
		}
		switch {
		case elsewhere.Load() && isCall(r):
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case r.URL.Path == "/mcp": // within the origin, as many servers do it
			http.Redirect(w, r, "/mcp/", http.StatusTemporaryRedirect)
		default:
			h.ServeHTTP(w, r)
		}
	}))
	cfg.Headers = map[string]string{"authorization": secret, "Mcp-Session-Id": "forged", "Accept": "text/html"}
	p := newPool(t)
	wantContent(t, echo(t.Context(), p, cfg, "one"), false, "one")
	elsewhere.Store(true)
	wantContent(t, echo(t.Context(), p, cfg, "two"), true, notRun, "redirects elsewhere")
	if leaked.Load() != 0 || seen.Load() == 0 || ran.of("two") != 0 {
		t.Errorf("leaked %d, seen %d, ran %d", leaked.Load(), seen.Load(), ran.of("two"))
	}
}

func TestOldSSEServerCannotSendUsElsewhere(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request went to the other origin")
	}))
	t.Cleanup(other.Close)
	cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", eventType)
		_, _ = io.WriteString(w, "event: endpoint\ndata: "+other.URL+"/messages\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	cfg.Transport = SSE
	_, err := newPool(t).Tools(t.Context(), "k", cfg)
	if err == nil || !strings.Contains(err.Error(), "another origin") {
		t.Errorf("Tools: %v", err)
	}
}

func TestEchoedCredentialIsNotShown(t *testing.T) {
	h := handlerOf(echoServer(t, &counter{}), nil)
	cfg := serve(t, onCall(h, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"bad: `+r.Header.Get("Authorization")+`"}}`)
	}))
	cfg.Headers = map[string]string{"Authorization": "Bearer secret-0123456789"}
	got := echo(t.Context(), newPool(t), cfg, "x")
	wantContent(t, got, true, "[redacted]")
	if strings.Contains(got.Content, "secret-") {
		t.Errorf("got %q", got.Content)
	}
}

func TestUnavailableSaysWhyWithoutSayingWhere(t *testing.T) {
	refused := httptest.NewServer(http.NotFoundHandler())
	refused.Close()
	status := func(code int) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "secret body")
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(tls.Close)
	tests := map[string]struct{ url, want string }{
		"Refused":      {refused.URL, "the connection was refused"},
		"Unauthorized": {status(401), "the server does not accept the credentials (HTTP 401)"},
		"NotFound":     {status(404), "there is no MCP server at this URL (HTTP 404)"},
		"Broken":       {status(500), "the server answered HTTP 500"},
		"Untrusted":    {tls.URL, "the server's certificate is not trusted"},
		"NoScheme":     {"example.com/mcp", "the URL must begin with https:// or http:// and name a host"},
		"Credentials":  {"https://me:secret@example.com/mcp", "the URL must not carry credentials: use auth or headers"},
	}
	for name, tc := range tests {
		for _, transport := range []Transport{StreamableHTTP, SSE} {
			t.Run(name+string(transport), func(t *testing.T) {
				cfg := Config{Name: "ts", URL: tc.url, Transport: transport, HTTP: &http.Client{Transport: &http.Transport{}}}
				_, err := newPool(t).Tools(t.Context(), "k", cfg)
				if err == nil || err.Error() != `toolset "ts" is not available: `+tc.want {
					t.Errorf("got %v", err)
				}
				if u, _ := url.Parse(tc.url); err != nil && u != nil && u.Host != "" && strings.Contains(err.Error(), u.Host) {
					t.Errorf("%v names the host", err)
				}
			})
		}
	}
}
