package mcp

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// keyed keeps the key of each request that a server gets, and of the streams that are open at it.
type keyed struct {
	next http.Handler

	mu    sync.Mutex
	seen  []string
	open  map[string]int
	moved chan struct{} // closed and made anew with each change
}

func newKeyed(next http.Handler) *keyed {
	return &keyed{next: next, open: map[string]int{}, moved: make(chan struct{})}
}

func (k *keyed) change(by func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	by()
	close(k.moved)
	k.moved = make(chan struct{})
}

func (k *keyed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Authorization")
	k.change(func() { k.seen = append(k.seen, r.Method+" "+key) })
	if r.Method == http.MethodGet {
		k.change(func() { k.open[key]++ })
		defer k.change(func() { k.open[key]-- })
	}
	k.next.ServeHTTP(w, r)
}

// until waits until something is so of what was seen.
func (k *keyed) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		k.mu.Lock()
		is, moved := ok(), k.moved
		k.mu.Unlock()
		if is {
			return
		}
		select {
		case <-moved:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// A key that was replaced may have been revoked: nothing new is sent by it, and its streams close with the last call under way.
func TestNothingIsSentByAKeyThatWasReplaced(t *testing.T) {
	var ran counter
	k := newKeyed(handlerOf(echoServer(t, &ran), nil))
	cfg := serve(t, k)
	with := func(key string) Config {
		c := cfg
		c.Headers = map[string]string{"Authorization": key}
		return c
	}
	p := newPool(t)
	p.listenDelay = time.Millisecond
	wantContent(t, p.Call(t.Context(), "old", with("old"), "echo", `{"text":"1"}`), false, "1")
	k.until(t, "the listening stream", func() bool { return k.open["old"] == 1 })

	under, end := make(chan loop.ToolResult, 1), make(chan struct{})
	go func() {
		under <- p.Call(t.Context(), "old", with("old"), "wait", `{}`)
		close(end)
	}()
	ran.wait(t, "wait")
	p.Close("old")
	wantContent(t, p.Call(t.Context(), "old", with("old"), "echo", `{"text":"2"}`), true, notRun, "changed or removed")
	if _, err := p.Tools(t.Context(), "old", with("old")); err == nil {
		t.Error("the former key still lists")
	}
	wantContent(t, p.Call(t.Context(), "new", with("new"), "echo", `{"text":"3"}`), false, "3")
	if ran.of("2") != 0 || ran.of("3") != 1 {
		t.Error("the call ran by the former key")
	}
	// The call that is under way ends as its server ends it.
	p.mu.Lock()
	var former *session
	for s := range p.closing {
		if s.cfg.Headers["Authorization"] == "old" {
			former = s
		}
	}
	p.mu.Unlock()
	former.kill()
	<-end
	receive(t, under, "the call under way")
	k.until(t, "the former key's streams to close", func() bool { return k.open["old"] == 0 })
	k.change(func() { k.seen = nil })
	wantContent(t, p.Call(t.Context(), "new", with("new"), "echo", `{"text":"4"}`), false, "4")
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Contains(k.seen, "GET old") || slices.Contains(k.seen, "POST old") {
		t.Errorf("after the last call under way: %q", k.seen)
	}
}

// Its listening stream is not opened again while the last call under way goes on.
func TestAStreamOfAKeyThatWasReplacedIsNotOpenedAgain(t *testing.T) {
	var ran counter
	h := handlerOf(echoServer(t, &ran), nil)
	cut := make(chan struct{})
	k := newKeyed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", eventType)
		_ = http.NewResponseController(w).Flush()
		<-cut // a balancer cuts what is idle
	}))
	cfg := serve(t, k)
	p := newPool(t)
	p.listenDelay = time.Nanosecond
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Call(ctx, "old", cfg, "wait", `{}`)
	}()
	ran.wait(t, "wait")
	k.until(t, "the listening stream", func() bool { return k.open[""] == 1 })
	p.Close("old")
	close(cut)
	k.until(t, "the stream to be cut", func() bool { return k.open[""] == 0 })
	other := cfg
	other.Headers = map[string]string{"Authorization": "new"}
	for range 100 { // which takes longer than to open a stream
		wantContent(t, p.Call(t.Context(), "new", other, "echo", `{"text":"x"}`), false, "x")
	}
	stop()
	<-done
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := strings.Count(strings.Join(k.seen, ",")+",", "GET ,"); n != 1 {
		t.Errorf("the stream was opened %d times", n)
	}
}

// Credentials that were put back are as good as before.
func TestAKeyThatIsPutBackIsUsedAgain(t *testing.T) {
	s := &shaped{tools: ping, result: `{"content":[]}`}
	cfg, p := s.config(t), newPool(t)
	p.Close("k")
	if _, err := p.Tools(t.Context(), "k", cfg); err == nil {
		t.Error("a key that was closed is used")
	}
	p.Open("k")
	wantTools(t, p, cfg, "ping")
}

// What was closed is not kept for ever.
func TestKeysThatWereClosedAreForgottenInTheEnd(t *testing.T) {
	clock := newManual()
	p := newPool(t, WithClock(clock))
	for range 100 {
		p.Close("k" + clock.Now().String())
		clock.advance(2 * goneTime)
	}
	if n := len(p.gone); n > 1 {
		t.Errorf("%d are kept", n)
	}
}
