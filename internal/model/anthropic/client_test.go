package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestRequestReachesTheServerAsConfigured(t *testing.T) {
	// What the SDK would take from the environment must not win over the AgentModel.
	t.Setenv("ANTHROPIC_API_KEY", "from-env")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "from-env")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	f := modeltest.Serve(t, events(hello...))
	for _, suffix := range []string{"", "/", "/v1", "/v1/", "/gw/v1"} {
		cfg := f.Config("claude-x")
		cfg.Endpoint += suffix
		reply, n, err := modeltest.Generate(t, mustNew(t, cfg))
		if err != nil {
			t.Fatalf("%q: %v", suffix, err)
		}
		want := loop.Reply{Blocks: []loop.Block{text("Hello")}, Finish: loop.FinishStop, Model: "claude-x", RequestID: "req_1",
			Usage: loop.Usage{InputTokens: 60, CachedInputTokens: 30, OutputTokens: 9, TotalTokens: 69}}
		if !reflect.DeepEqual(*reply, want) || n != 5 {
			t.Errorf("%q: got %+v and %d bytes", suffix, *reply, n)
		}
		requests, bodies := f.Seen()
		r, body := requests[len(requests)-1], bodies[len(bodies)-1]
		wantPath := strings.TrimSuffix(strings.TrimSuffix(suffix, "/"), "/v1") + "/v1/messages"
		if r.URL.Path != wantPath || r.URL.Query().Get("api-version") != modeltest.CanaryQuery || r.Method != http.MethodPost {
			t.Errorf("%q: asked %s %s", suffix, r.Method, r.URL)
		}
		for k, v := range map[string]string{"X-Api-Key": modeltest.CanaryKey, "Authorization": "", "X-Team": "a", "Anthropic-Version": "2023-06-01"} {
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
	f := modeltest.Serve(t, events(hello...))
	cfg := f.Config("claude-x")
	cfg.APIKey, cfg.HTTP = "", nil
	if _, _, err := modeltest.Generate(t, mustNew(t, cfg)); err != nil {
		t.Fatal(err)
	}
	requests, _ := f.Seen()
	if h := requests[0].Header; h.Get("X-Api-Key") != "" || h.Get("Authorization") != "" {
		t.Error("a key was sent")
	}
}

func TestBadConfigurationIsRefusedWithoutRepeatingIt(t *testing.T) {
	for _, cfg := range []model.Config{{}, {Model: "m", Endpoint: "::canary-query"}, {Model: "m", Endpoint: "canary-query"}} {
		_, err := New(cfg)
		if err == nil || strings.Contains(err.Error(), modeltest.CanaryQuery) {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}

func TestCutStreamGivesPartialReplyAndRetryableError(t *testing.T) {
	begun := hello[:3]
	for reason, h := range map[string]http.HandlerFunc{
		"the connection breaks":     modeltest.Cut(events(begun...)),
		"the stream ends too early": events(begun...),
		"the stream breaks off within an event": func(w http.ResponseWriter, r *http.Request) {
			events(begun...)(w, r)
			_, _ = w.Write([]byte("event: content_bl"))
		},
		"an error event": events(append(begun[:3:3], apiError("overloaded_error", modeltest.CanaryBody))...),
		"an error event that is no JSON": func(w http.ResponseWriter, r *http.Request) {
			events(begun...)(w, r)
			_, _ = w.Write([]byte("event: error\ndata: " + modeltest.CanaryBody + "\n\n"))
		},
		"an event that is no JSON": func(w http.ResponseWriter, r *http.Request) {
			events(begun...)(w, r)
			_, _ = w.Write([]byte("event: content_block_delta\ndata: {\"type\": " + modeltest.CanaryBody + "\n\n"))
		},
	} {
		t.Run(reason, func(t *testing.T) {
			f := modeltest.Serve(t, h)
			reply, n, err := modeltest.Generate(t, mustNew(t, f.Config("claude-x")))
			if e := modeltest.WantModelError(t, err); !e.Retry {
				t.Errorf("not to be retried: %+v", e)
			}
			if reply == nil || n != 5 || !reflect.DeepEqual(reply.Texts(), []string{"Hello"}) || reply.Usage.InputTokens != 60 ||
				!reply.Usage.Estimated || reply.RequestID != "req_1" || reply.Finish != "" {
				t.Errorf("got %+v and %d bytes", reply, n)
			}
			if f.Count() != 1 {
				t.Errorf("%d requests: the SDK or the client retried", f.Count())
			}
		})
	}
}

func TestBreakAfterTheEndTakesNothingAway(t *testing.T) {
	f := modeltest.Serve(t, modeltest.Cut(events(hello[:5]...))) // no message_stop
	reply, _, err := modeltest.Generate(t, mustNew(t, f.Config("claude-x")))
	if err != nil || reply.Finish != loop.FinishStop || reply.Usage.OutputTokens != 9 {
		t.Errorf("got %+v, %v", reply, err)
	}
}

// unnamed answers with a stream whose events have no name of their own, as some compatible servers send it.
func unnamed(evs ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range evs {
			_, _ = io.WriteString(w, "data: "+e+"\n\n")
		}
	}
}

func TestStreamWithoutNamesOfEventsIsRead(t *testing.T) {
	// What is no JSON was passed over when it had no name, and still is.
	others := slices.Concat([]string{"keep-alive"}, hello[:5], []string{"[DONE]"})
	for reason, evs := range map[string][]string{"as it should be": hello, "with other data, and without message_stop": others} {
		t.Run(reason, func(t *testing.T) {
			f := modeltest.Serve(t, unnamed(evs...))
			reply, n, err := modeltest.Generate(t, mustNew(t, f.Config("claude-x")))
			if err != nil || n != 5 || !reflect.DeepEqual(reply.Texts(), []string{"Hello"}) || reply.Usage.OutputTokens != 9 {
				t.Errorf("got %+v and %d bytes, %v", reply, n, err)
			}
		})
	}
	t.Run("with an error", func(t *testing.T) {
		f := modeltest.Serve(t, unnamed(hello[0], hello[1], hello[2], apiError("rate_limit_error", modeltest.CanaryBody)))
		reply, _, err := modeltest.Generate(t, mustNew(t, f.Config("claude-x")))
		if e := modeltest.WantModelError(t, err); e.Cause != loop.CauseModelRateLimited || !e.Retry {
			t.Errorf("got %+v", e)
		}
		if reply == nil || !reflect.DeepEqual(reply.Texts(), []string{"Hello"}) {
			t.Errorf("got %+v", reply)
		}
	})
}

func TestEndedContextReturnsAtOnceWithPartialReply(t *testing.T) {
	reached := make(chan struct{})
	f := modeltest.Serve(t, modeltest.Hang(reached, events(hello[:3]...)))
	ctx, cancel := context.WithCancelCause(t.Context())
	// The end comes when the text has arrived: what arrived must be in the reply.
	reply, err := mustNew(t, f.Config("claude-x")).Generate(ctx, modeltest.Request(), func(int) { cancel(loop.ErrCancelled) })
	<-reached
	e := modeltest.WantModelError(t, err)
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
		"in mid-stream":  modeltest.Hang(nil, events(hello[:3]...)),
	} {
		t.Run(reason, func(t *testing.T) {
			f := modeltest.Serve(t, h)
			cfg := f.Config("claude-x")
			cfg.RequestTimeout = 100 * time.Millisecond
			_, _, err := modeltest.Generate(t, mustNew(t, cfg))
			if e := modeltest.WantModelError(t, err); !e.Retry || !errors.Is(e, model.ErrRequestTimeout) {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestReplyLargerThanAllowedIsCut(t *testing.T) {
	f := modeltest.Serve(t, modeltest.Hang(nil, events(hello[:3]...)))
	cfg := f.Config("claude-x")
	cfg.MaxReplyBytes = 4
	_, _, err := modeltest.Generate(t, mustNew(t, cfg))
	if e := modeltest.WantModelError(t, err); e.Retry || !errors.Is(e, model.ErrReplyTooLarge) {
		t.Errorf("got %+v", e)
	}
}

func TestServerWithoutUsageReportsNone(t *testing.T) {
	f := modeltest.Serve(t, events(`{"type":"message_start","message":{"id":"m","type":"message","content":[]}}`,
		hello[1], hello[2], hello[3], `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, evStop))
	reply, _, err := modeltest.Generate(t, mustNew(t, f.Config("claude-x")))
	if err != nil || reply.Usage.Reported() || reply.Usage.Estimated {
		t.Errorf("got %+v, %v", reply, err)
	}
}

const helloMessage = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"Hello"}],
	"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":9}}`

func TestServerThatCannotStreamAnswersInOnePiece(t *testing.T) {
	t.Run("by ignoring the wish", func(t *testing.T) {
		f := modeltest.Serve(t, modeltest.Status(200, map[string]string{"X-Request-Id": "x1"}, helloMessage))
		reply, n, err := modeltest.Generate(t, mustNew(t, f.Config("claude-x")))
		if err != nil || n != 5 || reply.Usage.TotalTokens != 19 || reply.RequestID != "x1" {
			t.Errorf("got %+v, %d bytes, %v", reply, n, err)
		}
	})
	t.Run("by refusing it, which is remembered", func(t *testing.T) {
		f := modeltest.Serve(t, modeltest.Status(400, nil, apiError("invalid_request_error", "streaming is not supported")), modeltest.Status(200, nil, helloMessage))
		m := mustNew(t, f.Config("claude-x"))
		for range 2 {
			if reply, _, err := modeltest.Generate(t, m); err != nil || reply.Texts()[0] != "Hello" {
				t.Fatalf("got %+v, %v", reply, err)
			}
		}
		var asked []any
		_, bodies := f.Seen()
		for _, b := range bodies {
			asked = append(asked, b["stream"])
		}
		if !reflect.DeepEqual(asked, []any{true, nil, nil}) {
			t.Errorf("stream was asked for: %v", asked)
		}
	})
	t.Run("by refusing everything", func(t *testing.T) {
		f := modeltest.Serve(t, modeltest.Status(400, nil, apiError("invalid_request_error", "streaming is not supported, and the prompt is too long")))
		_, _, err := modeltest.Generate(t, mustNew(t, f.Config("claude-x")))
		if e := modeltest.WantModelError(t, err); e.Cause != loop.CauseContextWindowExceeded || f.Count() != 2 {
			t.Errorf("got %+v after %d requests", e, f.Count())
		}
	})
}

func TestOutputSchemaIsDroppedWhereItIsRefused(t *testing.T) {
	req := modeltest.Request()
	req.OutputSchema = json.RawMessage(`{"type":"object","minProperties":1}`)
	f := modeltest.Serve(t, modeltest.Status(400, nil, apiError("invalid_request_error", "output_config.format.schema: minProperties")), events(hello...))
	if _, err := mustNew(t, f.Config("claude-x")).Generate(t.Context(), req, func(int) {}); err != nil {
		t.Fatal(err)
	}
	_, bodies := f.Seen()
	if len(bodies) != 2 || bodies[0]["output_config"] == nil || bodies[1]["output_config"] != nil {
		t.Errorf("asked %v", bodies)
	}
	f = modeltest.Serve(t, modeltest.Status(400, nil, apiError("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum")))
	if _, err := mustNew(t, f.Config("claude-x")).Generate(t.Context(), req, func(int) {}); err == nil || f.Count() != 1 {
		t.Errorf("a refusal for another reason was tried %d times", f.Count())
	}
}
