package openai

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// answer is one answer of the fake server.
type answer struct {
	status int
	header map[string]string
	body   string
	// before runs before the head is sent.
	before func(r *http.Request)
	// then runs after the body was sent, before the answer ends.
	then func(w http.ResponseWriter, r *http.Request)
}

// fake is a server that gives its answers in turn, the last one again and again, and keeps what it was asked.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	answers  []answer
	requests []map[string]any
	heads    []*http.Request
}

func serve(t *testing.T, answers ...answer) *fake {
	t.Helper()
	f := &fake{answers: answers}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	f.mu.Lock()
	a := f.answers[min(len(f.requests), len(f.answers)-1)]
	f.requests = append(f.requests, body)
	f.heads = append(f.heads, r)
	f.mu.Unlock()
	if a.before != nil {
		a.before(r)
	}
	contentType := "text/event-stream"
	if !strings.HasPrefix(a.body, "data:") {
		contentType = "application/json"
	}
	w.Header().Set("Content-Type", contentType)
	for k, v := range a.header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(max(a.status, 200))
	_, _ = io.WriteString(w, a.body)
	w.(http.Flusher).Flush()
	if a.then != nil {
		a.then(w, r)
	}
}

func (f *fake) model(t *testing.T, change ...func(*model.Config)) loop.Model {
	t.Helper()
	cfg := model.Config{Model: "m", Endpoint: f.URL + "/v1", APIKey: "key"}
	for _, c := range change {
		c(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func generate(t *testing.T, m loop.Model) (*loop.Reply, error) {
	t.Helper()
	return m.Generate(t.Context(), &loop.Request{Messages: []loop.Message{loop.UserText("hello")}, MaxOutputTokens: 50}, func(int) {})
}

func wantError(t *testing.T, err error, cause loop.Cause, retry bool) *loop.ModelError {
	t.Helper()
	var e *loop.ModelError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a ModelError", err)
	}
	if e.Cause != cause || e.Retry != retry {
		t.Fatalf("%s, retry %v (%s); want %s, %v", e.Cause, e.Retry, e.Detail, cause, retry)
	}
	return e
}
