package openai

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestARedirectToAnotherHostIsNotFollowed(t *testing.T) {
	thief := serve(t, answer{body: hello})
	f := serve(t, answer{status: 307, header: map[string]string{"Location": thief.URL + "/v1/chat/completions"}})
	_, err := generate(t, f.model(t, func(c *model.Config) { c.Headers = map[string]string{"X-Key": "canary"} }))
	wantError(t, err, loop.CauseEndpointRefused, false)
	if len(thief.requests) != 0 {
		t.Error("the other host was asked")
	}
}

func TestARedirectWithinTheHostIsFollowed(t *testing.T) {
	f := serve(t, answer{status: 308, header: map[string]string{"Location": "/v2/chat/completions"}}, answer{body: hello})
	reply, err := generate(t, f.model(t))
	if err != nil || reply.Texts()[0] != "hello" {
		t.Fatalf("got %+v, %v", reply, err)
	}
	if f.heads[1].Header.Get("Authorization") == "" || f.requests[1]["model"] != "m" {
		t.Error("the request changed on its way")
	}
}

func TestAMetadataAddressBehindANameIsRefused(t *testing.T) {
	guard := &egress.Guard{Resolver: modeltest.Resolver(t, map[string]netip.Addr{"llm.example.com": netip.MustParseAddr("169.254.169.254")})}
	cfg := model.Config{Model: "m", Endpoint: "http://llm.example.com/v1"}
	var err error
	if cfg.HTTP, err = model.NewHTTPClient(cfg, guard); err != nil {
		t.Fatal(err)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = generate(t, m)
	if e := wantError(t, err, loop.CauseEndpointRefused, false); !errors.Is(e, egress.ErrRefused) {
		t.Errorf("got %v", e.Err)
	}
}

func TestRepliesAreCapped(t *testing.T) {
	big := strings.Repeat("x", 65<<10)
	small := func(c *model.Config) { c.MaxReplyBytes = 64 << 10 }
	asDefault := func(*model.Config) {}
	cases := map[string]struct {
		body string
		cap  func(*model.Config)
	}{
		"5 MiB, by default":         {`{"choices":[{"message":{"content":"` + strings.Repeat("x", 5<<20) + `"},"finish_reason":"stop"}]}`, asDefault},
		"one event":                 {chunk(`{"content":"`+big+`"}`, "") + done, small},
		"one event, finished":       {chunk(`{"content":"`+big+`"}`, "stop") + done, small},
		"larger than events may be": {chunk(`{"content":"`+strings.Repeat("x", 5<<20)+`"}`, "") + done, asDefault},
		"many small events":         {strings.Repeat(chunk(`{"content":"`+big[:1<<10]+`"}`, ""), 65) + done, small},
		"events of nothing":         {strings.Repeat(chunk(`{}`, ""), 32<<10) + done, small},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := generate(t, serve(t, answer{body: c.body}).model(t, c.cap))
			if e := wantError(t, err, loop.CauseModelReplyInvalid, false); !strings.Contains(e.Detail, "larger") {
				t.Errorf("detail %q", e.Detail)
			}
		})
	}
}

// Replies of all calls share what is set aside for large ones. A reply that finds no room is asked for again.
func TestLargeRepliesShareTheirRoom(t *testing.T) {
	const text = 300 << 10
	plain := `{"choices":[{"message":{"content":"` + strings.Repeat("x", text) + `"},"finish_reason":"stop"}]}`
	stream := strings.Repeat(chunk(`{"content":"`+strings.Repeat("x", 1<<10)+`"}`, ""), text>>10) + hello
	for name, body := range map[string]string{"plain": plain, "stream": stream} {
		for size, fits := range map[int64]bool{100 << 10: false, 400 << 10: true} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				room := fairshare.NewBytes(size)
				if !room.Take("other", 1) { // or all of it would be given to who comes first
					t.Fatal("no room")
				}
				_, err := generate(t, serve(t, answer{body: body}).model(t, func(c *model.Config) { c.Room = namespaceRoom{room} }))
				switch {
				case fits && err != nil:
					t.Errorf("got %v", err)
				case !fits:
					if e := wantError(t, err, loop.CauseModelUnavailable, true); !strings.Contains(e.Detail, "no memory left") {
						t.Errorf("detail %q", e.Detail)
					}
				}
				if room.Used() != 1 {
					t.Errorf("%d bytes are left", room.Used())
				}
			})
		}
	}
}

type namespaceRoom struct{ bytes *fairshare.Bytes }

func (r namespaceRoom) Take(n int64) bool { return r.bytes.Take("ns", n) }
func (r namespaceRoom) Give(n int64)      { r.bytes.Give("ns", n) }

func TestALongStreamOfSmallPiecesIsNoLargeReply(t *testing.T) {
	// 40 KiB of text takes several times the cap on the wire.
	f := serve(t, answer{body: strings.Repeat(chunk(`{"content":"`+strings.Repeat("x", 40)+`"}`, ""), 1<<10) + hello})
	reply, err := generate(t, f.model(t, func(c *model.Config) { c.MaxReplyBytes = 64 << 10 }))
	if err != nil || len(reply.Texts()[0]) != 40<<10+5 {
		t.Errorf("got %v", err)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	f := &fake{answers: []answer{{body: hello}, {status: 429, body: `{"error":{"message":"x"}}`}, {body: hello}}}
	f.Server = httptest.NewUnstartedServer(f)
	var opened atomic.Int32
	f.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	f.Start()
	t.Cleanup(f.Close)
	m := f.model(t)
	for range 4 {
		_, _ = generate(t, m)
	}
	if opened.Load() != 1 || len(f.requests) != 4 {
		t.Errorf("%d connections for %d calls", opened.Load(), len(f.requests))
	}
}

func TestTheEndOfABodyIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, _ := io.Pipe() // never ends
		start := time.Now()
		closeBody(read)
		if waited := time.Since(start); waited > drainWait {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestAStreamThatStaysOpenAfterItsReplyIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, server := io.Pipe()
		start, left := time.Now(), make(chan struct{})
		go func() {
			defer close(left)
			time.Sleep(time.Hour) // before its end a reply may take its time
			_, _ = io.WriteString(server, chunk(`{"content":"hello"}`, "stop"))
			time.Sleep(finishWait - 1)
			_, _ = io.WriteString(server, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n")
			for err := error(nil); err == nil; time.Sleep(time.Second) { // a heartbeat is no event
				_, err = io.WriteString(server, "data:\n\n")
			}
		}()
		f := &http.Client{Transport: roundTrip(func(*http.Request) *http.Response {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}
		})}
		m, err := New(model.Config{Model: "m", HTTP: f})
		if err != nil {
			t.Fatal(err)
		}
		reply, err := generate(t, m)
		if err != nil || reply.Texts()[0] != "hello" || reply.Finish != loop.FinishStop || reply.Usage.OutputTokens != 2 {
			t.Errorf("got %+v, %v", reply, err)
		}
		if waited := time.Since(start); waited != time.Hour+2*finishWait-1 {
			t.Errorf("waited %v", waited)
		}
		<-left
	})
}

// roundTrip is an HTTP client's transport without a network.
type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func TestAzureTakesItsKeyInAHeaderOfItsOwn(t *testing.T) {
	for base, want := range map[string]bool{
		"https://x.openai.azure.com/openai/deployments/d": true, "https://x.services.ai.azure.com/models": true,
		"https://models.inference.ai.azure.com": false, "https://openai.azure.com.example.com": false,
	} {
		if isAzure(base) != want {
			t.Errorf("%s: want %v", base, want)
		}
	}
}

func TestABadConfigurationIsRefusedWithoutShowingIt(t *testing.T) {
	for name, cfg := range map[string]model.Config{
		"no model":      {},
		"bad endpoint":  {Model: "m", Endpoint: "ftp://CANARY"},
		"key of lines":  {Model: "m", APIKey: "x\nCANARY"},
		"header value":  {Model: "m", Headers: map[string]string{"X-A": "x\x00CANARY"}},
		"bad CA bundle": {Model: "m", CABundle: []byte("CANARY")},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(cfg); err == nil || strings.Contains(err.Error(), "CANARY") {
				t.Errorf("got %v", err)
			}
		})
	}
}
