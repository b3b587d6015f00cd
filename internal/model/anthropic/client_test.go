package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

func TestRequestReachesTheServerAsConfigured(t *testing.T) {
	// What the SDK would take from the environment must not win over the AgentModel.
	t.Setenv("ANTHROPIC_API_KEY", "from-env")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "from-env")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	f := newFake(t, events(hello...))
	for _, suffix := range []string{"", "/", "/v1", "/v1/", "/gw/v1"} {
		cfg := f.config()
		cfg.Endpoint += suffix
		reply, n, err := generate(t, mustNew(t, cfg))
		if err != nil {
			t.Fatalf("%q: %v", suffix, err)
		}
		want := loop.Reply{Blocks: []loop.Block{text("Hello")}, Finish: loop.FinishStop, Model: "claude-x", RequestID: "req_1",
			Usage: loop.Usage{InputTokens: 60, CachedInputTokens: 30, OutputTokens: 9, TotalTokens: 69}}
		if !reflect.DeepEqual(*reply, want) || n != 5 {
			t.Errorf("%q: got %+v and %d bytes", suffix, *reply, n)
		}
		requests, bodies := f.seen()
		r, body := requests[len(requests)-1], bodies[len(bodies)-1]
		wantPath := strings.TrimSuffix(strings.TrimSuffix(suffix, "/"), "/v1") + "/v1/messages"
		if r.URL.Path != wantPath || r.URL.Query().Get("api-version") != canaryQuery || r.Method != http.MethodPost {
			t.Errorf("%q: asked %s %s", suffix, r.Method, r.URL)
		}
		for k, v := range map[string]string{"X-Api-Key": canaryKey, "Authorization": "", "X-Team": "a", "Anthropic-Version": "2023-06-01"} {
			if got := r.Header.Get(k); got != v {
				t.Errorf("%q: header %s is %q, want %q", suffix, k, got, v)
			}
		}
		if body["stream"] != true || body["model"] != "claude-x" {
			t.Errorf("%q: body %v", suffix, body)
		}
	}
}

func TestNoKeySendsNone(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "from-env")
	f := newFake(t, events(hello...))
	cfg := f.config()
	cfg.APIKey, cfg.HTTP = "", nil
	if _, _, err := generate(t, mustNew(t, cfg)); err != nil {
		t.Fatal(err)
	}
	requests, _ := f.seen()
	if h := requests[0].Header; h.Get("X-Api-Key") != "" || h.Get("Authorization") != "" {
		t.Error("a key was sent")
	}
}

func TestBadConfigurationIsRefusedWithoutRepeatingIt(t *testing.T) {
	for _, cfg := range []model.Config{{}, {Model: "m", Endpoint: "::canary-query"}, {Model: "m", Endpoint: "canary-query"}} {
		_, err := New(cfg)
		if err == nil || strings.Contains(err.Error(), canaryQuery) {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}

func TestCutStreamGivesPartialReplyAndRetryableError(t *testing.T) {
	begun := hello[:3]
	for reason, h := range map[string]http.HandlerFunc{
		"the connection breaks":     cut(begun...),
		"the stream ends too early": events(begun...),
		"the stream breaks off within an event": func(w http.ResponseWriter, r *http.Request) {
			events(begun...)(w, r)
			_, _ = w.Write([]byte("event: content_bl"))
		},
		"an error event": events(append(begun[:3:3], apiError("overloaded_error", canaryBody))...),
		"an error event that is no JSON": func(w http.ResponseWriter, r *http.Request) {
			events(begun...)(w, r)
			_, _ = w.Write([]byte("event: error\ndata: " + canaryBody + "\n\n"))
		},
		"an event that is no JSON": func(w http.ResponseWriter, r *http.Request) {
			events(begun...)(w, r)
			_, _ = w.Write([]byte("event: content_block_delta\ndata: {\"type\": " + canaryBody + "\n\n"))
		},
	} {
		t.Run(reason, func(t *testing.T) {
			f := newFake(t, h)
			reply, n, err := generate(t, mustNew(t, f.config()))
			if e := wantModelError(t, err); !e.Retry {
				t.Errorf("not to be retried: %+v", e)
			}
			if reply == nil || n != 5 || !reflect.DeepEqual(reply.Texts(), []string{"Hello"}) || reply.Usage.InputTokens != 60 ||
				!reply.Usage.Estimated || reply.RequestID != "req_1" || reply.Finish != "" {
				t.Errorf("got %+v and %d bytes", reply, n)
			}
			if f.count() != 1 {
				t.Errorf("%d requests: the SDK or the client retried", f.count())
			}
		})
	}
}

func TestBreakAfterTheEndTakesNothingAway(t *testing.T) {
	f := newFake(t, cut(hello[:5]...)) // no message_stop
	reply, _, err := generate(t, mustNew(t, f.config()))
	if err != nil || reply.Finish != loop.FinishStop || reply.Usage.OutputTokens != 9 {
		t.Errorf("got %+v, %v", reply, err)
	}
}

func TestEndedContextReturnsAtOnceWithPartialReply(t *testing.T) {
	reached := make(chan struct{})
	f := newFake(t, hang(reached, hello[:3]...))
	ctx, cancel := context.WithCancelCause(t.Context())
	// The end comes when the text has arrived: what arrived must be in the reply.
	reply, err := mustNew(t, f.config()).Generate(ctx, request(), func(int) { cancel(loop.ErrCancelled) })
	<-reached
	e := wantModelError(t, err)
	if !errors.Is(e, loop.ErrCancelled) {
		t.Errorf("the cause is lost: %+v", e)
	}
	if reply == nil || !reflect.DeepEqual(reply.Texts(), []string{"Hello"}) {
		t.Errorf("got %+v", reply)
	}
}

func TestHangingServerIsLeftAfterRequestTimeout(t *testing.T) {
	for reason, h := range map[string]http.HandlerFunc{
		"before headers": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"in mid-stream":  hang(nil, hello[:3]...),
	} {
		t.Run(reason, func(t *testing.T) {
			f := newFake(t, h)
			cfg := f.config()
			cfg.RequestTimeout = 100 * time.Millisecond
			_, _, err := generate(t, mustNew(t, cfg))
			if e := wantModelError(t, err); !e.Retry || !errors.Is(e, model.ErrRequestTimeout) {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestReplyLargerThanAllowedIsCut(t *testing.T) {
	f := newFake(t, hang(nil, hello[:3]...))
	cfg := f.config()
	cfg.MaxReplyBytes = 4
	_, _, err := generate(t, mustNew(t, cfg))
	if e := wantModelError(t, err); e.Retry || !errors.Is(e, model.ErrReplyTooLarge) {
		t.Errorf("got %+v", e)
	}
}

func TestServerWithoutUsageReportsNone(t *testing.T) {
	f := newFake(t, events(`{"type":"message_start","message":{"id":"m","type":"message","content":[]}}`,
		hello[1], hello[2], hello[3], `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, evStop))
	reply, _, err := generate(t, mustNew(t, f.config()))
	if err != nil || reply.Usage.Reported() || reply.Usage.Estimated {
		t.Errorf("got %+v, %v", reply, err)
	}
}

const helloMessage = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"Hello"}],
	"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":9}}`

func TestServerThatCannotStreamAnswersInOnePiece(t *testing.T) {
	t.Run("by ignoring the wish", func(t *testing.T) {
		f := newFake(t, status(200, map[string]string{"X-Request-Id": "x1"}, helloMessage))
		reply, n, err := generate(t, mustNew(t, f.config()))
		if err != nil || n != 5 || reply.Usage.TotalTokens != 19 || reply.RequestID != "x1" {
			t.Errorf("got %+v, %d bytes, %v", reply, n, err)
		}
	})
	t.Run("by refusing it, which is remembered", func(t *testing.T) {
		f := newFake(t, status(400, nil, apiError("invalid_request_error", "streaming is not supported")), status(200, nil, helloMessage))
		m := mustNew(t, f.config())
		for range 2 {
			if reply, _, err := generate(t, m); err != nil || reply.Texts()[0] != "Hello" {
				t.Fatalf("got %+v, %v", reply, err)
			}
		}
		var asked []any
		_, bodies := f.seen()
		for _, b := range bodies {
			asked = append(asked, b["stream"])
		}
		if !reflect.DeepEqual(asked, []any{true, nil, nil}) {
			t.Errorf("stream was asked for: %v", asked)
		}
	})
	t.Run("by refusing everything", func(t *testing.T) {
		f := newFake(t, status(400, nil, apiError("invalid_request_error", "streaming is not supported, and the prompt is too long")))
		_, _, err := generate(t, mustNew(t, f.config()))
		if e := wantModelError(t, err); e.Cause != loop.CauseContextWindowExceeded || f.count() != 2 {
			t.Errorf("got %+v after %d requests", e, f.count())
		}
	})
}

func TestOutputSchemaIsDroppedWhereItIsRefused(t *testing.T) {
	req := request()
	req.OutputSchema = json.RawMessage(`{"type":"object","minProperties":1}`)
	f := newFake(t, status(400, nil, apiError("invalid_request_error", "output_config.format.schema: minProperties")), events(hello...))
	if _, err := mustNew(t, f.config()).Generate(t.Context(), req, func(int) {}); err != nil {
		t.Fatal(err)
	}
	_, bodies := f.seen()
	if len(bodies) != 2 || bodies[0]["output_config"] == nil || bodies[1]["output_config"] != nil {
		t.Errorf("asked %v", bodies)
	}
	f = newFake(t, status(400, nil, apiError("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum")))
	if _, err := mustNew(t, f.config()).Generate(t.Context(), req, func(int) {}); err == nil || f.count() != 1 {
		t.Errorf("a refusal for another reason was tried %d times", f.count())
	}
}
