package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// Words that must never leave the provider's package in an error.
const (
	canaryKey    = "sk-canary-key"
	canaryPrompt = "canary-prompt"
	canaryQuery  = "canary-query"
	canaryBody   = "canary-body"
)

// fake is a server that answers each request with the next handler, and the last one for ever.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []map[string]any
}

func newFake(t *testing.T, handlers ...http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		body := map[string]any{}
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Errorf("the request is no JSON: %v", err)
		}
		f.mu.Lock()
		n := min(len(f.requests), len(handlers)-1)
		f.requests, f.bodies = append(f.requests, r), append(f.bodies, body)
		f.mu.Unlock()
		handlers[n](w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// seen returns the requests so far and their bodies.
func (f *fake) seen() ([]*http.Request, []map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests), slices.Clone(f.bodies)
}

// count is the number of requests so far.
func (f *fake) count() int {
	requests, _ := f.seen()
	return len(requests)
}

func (f *fake) config() model.Config {
	return model.Config{Model: "gemini-x", Endpoint: f.URL, APIKey: canaryKey, HTTP: f.Client(),
		Query: map[string]string{"api-version": canaryQuery}, Headers: map[string]string{"X-Team": "a"}}
}

// chunks answers with a stream.
func chunks(cs ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, c := range cs {
			_, _ = io.WriteString(w, "data: "+c+"\r\n\r\n")
		}
		_ = http.NewResponseController(w).Flush()
	}
}

func status(code int, header map[string]string, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// apiError is an error as the API words it, with google.rpc details.
func apiError(code int, kind, message string, details ...string) string {
	text, _ := json.Marshal(message)
	return fmt.Sprintf(`{"error":{"code":%d,"message":%s,"status":%q,"details":[%s]}}`, code, text, kind, strings.Join(details, ","))
}

// cut sends what it is given and then breaks the connection.
func cut(cs ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		chunks(cs...)(w, r)
		panic(http.ErrAbortHandler)
	}
}

// hang sends what it is given and then nothing until the client goes away. reached is closed once it hangs.
func hang(reached chan<- struct{}, cs ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		chunks(cs...)(w, r)
		if reached != nil {
			close(reached)
		}
		<-r.Context().Done()
	}
}

func request() *loop.Request {
	return &loop.Request{Purpose: loop.PurposeTurn, System: "sys", Messages: []loop.Message{loop.UserText(canaryPrompt)}}
}

func mustNew(t *testing.T, cfg model.Config) loop.Model {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return m
}

// generate sends one request and counts the bytes that were reported.
func generate(t *testing.T, m loop.Model) (reply *loop.Reply, n int, err error) {
	t.Helper()
	reply, err = m.Generate(t.Context(), request(), func(k int) { n += k })
	return reply, n, err
}

// wantModelError checks the type, and that nothing secret is in any text of the error or of what it wraps.
func wantModelError(t *testing.T, err error) *loop.ModelError {
	t.Helper()
	var e *loop.ModelError
	if !errors.As(err, &e) {
		t.Fatalf("got %T (%v), want a ModelError", err, err)
	}
	for text := error(e); text != nil; {
		for _, canary := range []string{canaryKey, canaryPrompt, canaryQuery, canaryBody} {
			if strings.Contains(text.Error(), canary) {
				t.Errorf("%q holds %q", text.Error(), canary)
			}
		}
		u, ok := text.(interface{ Unwrap() error })
		if !ok {
			break
		}
		text = u.Unwrap()
	}
	return e
}

var hello = []string{chunk(`{"text":"Hel"}`), chunk(`{"text":"lo"}`), last(`{"text":""}`, "STOP")}
