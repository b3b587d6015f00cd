package mcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
)

// onePlace leaves each namespace one place for large answers.
func onePlace(p *Pool) { p.large = newPlaces(1) }

// occupy takes the one place, as soon as nobody has it.
func occupy(t *testing.T, p *Pool) *fairshare.Slot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	slot, err := p.large.take(ctx, "", &exchange{})
	if err != nil {
		t.Fatal("the place was not given back")
	}
	return slot
}

// A namespace whose servers are slow, or whose answers are many, holds up no other.
func TestLargeAnswersOfOneNamespaceLeaveAPlaceToTheNext(t *testing.T) {
	s := echoServer(t, &counter{})
	addBig(s, strings.Repeat("x", 2*maxSmallBytes))
	cfg := serve(t, handlerOf(s, nil))
	p := newPool(t)
	onePlace(p)
	occupy(t, p)
	for range 10 {
		go func() { _, _ = p.large.take(t.Context(), "", &exchange{}) }()
	}
	cfg.Namespace = "other"
	wantContent(t, p.Call(t.Context(), "k", cfg, "big", ""), false, "[cut: ")
}

func TestLargeAnswersWaitForAPlaceAndGiveItBack(t *testing.T) {
	for name, dialect := range dialects() {
		t.Run(name, func(t *testing.T) {
			s := echoServer(t, &counter{})
			addBig(s, strings.Repeat("x", 2*maxSmallBytes))
			h, transport := dialect(s)
			cfg := serve(t, h)
			cfg.Transport = transport
			p := newPool(t)
			onePlace(p)
			slot := occupy(t, p)
			short := cfg
			short.CallTimeout = 500 * time.Millisecond
			if got := p.Call(t.Context(), "short", short, "big", ""); !got.IsError {
				t.Error("it was read without a place")
			}
			wantContent(t, echo(t.Context(), p, cfg, "small"), false, "small")
			slot.Release()
			for range 2 {
				wantContent(t, p.Call(t.Context(), "k", cfg, "big", ""), false, "[cut: ")
			}
			occupy(t, p)
		})
	}
}

func TestListOfManyLargePagesNeedsOnePlace(t *testing.T) {
	for name, dialect := range dialects() {
		t.Run(name, func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, &sdk.ServerOptions{PageSize: 1})
			for i := range 3 {
				s.AddTool(&sdk.Tool{Name: fmt.Sprint("t", i), Description: strings.Repeat("x", 2*maxSmallBytes), InputSchema: map[string]any{"type": "object"}},
					func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, nil })
			}
			h, transport := dialect(s)
			cfg := serve(t, h)
			cfg.Transport = transport
			p := newPool(t)
			onePlace(p)
			wantTools(t, p, cfg, "t0", "t1", "t2")
			occupy(t, p)
		})
	}
}

func TestSlowLargeAnswerLosesItsPlace(t *testing.T) {
	starts := map[string]struct{ contentType, start string }{
		"JSON":            {jsonType, ""},
		"Stream":          {eventType, "data: "},
		"ResumableStream": {eventType, "id: 1\nretry: 1\ndata: \n\ndata: "},
	}
	for name, tc := range starts {
		t.Run(name, func(t *testing.T) {
			h := handlerOf(echoServer(t, &counter{}), nil)
			slow := func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tc.contentType)
				_, _ = io.WriteString(w, tc.start+`{"jsonrpc":"2.0","id":1,"result":"`+strings.Repeat("x", 2*maxSmallBytes))
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
			cfg := serve(t, onCall(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(headerLastEventID) != "" {
					slow(w, r)
					return
				}
				h.ServeHTTP(w, r)
			}), slow))
			p := newPool(t)
			onePlace(p)
			p.large.time = time.Millisecond
			wantContent(t, p.Call(t.Context(), "k", cfg, "echo", `{"text":"x"}`), true, "to send a large answer", "outcome is unknown")
			occupy(t, p)
		})
	}
}

func TestLargeMessageThatIsNoAnswerIsLeftOut(t *testing.T) {
	h := handlerOf(echoServer(t, &counter{}), nil)
	asked := make(chan struct{}, 1)
	cfg := serve(t, onAnswer(onCall(h, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", eventType)
		for range 2 {
			_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":7,"method":"ping","params":{"_meta":{"x":"`+strings.Repeat("x", 2*maxSmallBytes)+"\"}}}\n\n")
		}
		h.ServeHTTP(w, r)
	}), func(http.ResponseWriter, *http.Request, string) { asked <- struct{}{} }))
	p := newPool(t)
	onePlace(p)
	wantContent(t, echo(t.Context(), p, cfg, "x"), false, "x")
	if len(asked) != 0 {
		t.Error("it was passed on")
	}
	occupy(t, p)
}

// Many toolsets with large lists would else take a processor for themselves.
func TestThePlaceOfAListRestsAfterIt(t *testing.T) {
	p := newPlaces(1)
	list, call := &exchange{most: maxPageBytes}, &exchange{}
	for name, tc := range map[string]struct {
		ex         *exchange
		took, want time.Duration
	}{
		"a list":      {list, 100 * time.Millisecond, 900 * time.Millisecond},
		"a slow list": {list, time.Minute, maxListRest},
		"a result":    {call, time.Minute, 0},
	} {
		if got := p.restAfter(tc.ex, tc.took); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
