package modeltest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// Words that must never leave a provider's package in an error.
const (
	CanaryKey    = "sk-canary-key"
	CanaryPrompt = "canary-prompt"
	CanaryQuery  = "canary-query"
	CanaryBody   = "canary-body"
)

// Server is a provider that answers each request with the next handler, and the last one for ever.
type Server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []map[string]any
}

// Serve starts a server that is stopped when the test ends.
func Serve(t testing.TB, handlers ...http.HandlerFunc) *Server {
	t.Helper()
	s := &Server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		body := map[string]any{}
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Errorf("the request is no JSON: %v", err)
		}
		s.mu.Lock()
		n := min(len(s.requests), len(handlers)-1)
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, body)
		s.mu.Unlock()
		handlers[n](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// Seen returns the requests so far and their bodies.
func (s *Server) Seen() ([]*http.Request, []map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests), slices.Clone(s.bodies)
}

// Count is the number of requests so far.
func (s *Server) Count() int {
	requests, _ := s.Seen()
	return len(requests)
}

// Config is a configuration of everything that reaches a server, for a model of the given name.
func (s *Server) Config(name string) model.Config {
	return model.Config{Model: name, Endpoint: s.URL, APIKey: CanaryKey, HTTP: s.Client(),
		Query: map[string]string{"api-version": CanaryQuery}, Headers: map[string]string{"X-Team": "a"}}
}

// Status answers in one piece, with JSON where header names no other type.
func Status(code int, header map[string]string, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// Cut breaks the connection after an answer.
func Cut(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer(w, r)
		panic(http.ErrAbortHandler)
	}
}

// Hang sends an answer, closes reached (nil for none), and then sends nothing until the client goes away.
func Hang(reached chan<- struct{}, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer(w, r)
		if reached != nil {
			close(reached)
		}
		<-r.Context().Done()
	}
}
