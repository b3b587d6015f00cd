package gemini

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
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestRequestReachesTheServerAsConfigured(t *testing.T) {
	// What the SDK would take from the environment must not win over the AgentModel.
	t.Setenv("GOOGLE_API_KEY", "from-env")
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
	t.Setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
	f := modeltest.Serve(t, chunks(hello...))
	for suffix, path := range map[string]string{
		"": "/v1beta", "/": "/v1beta", "/v1beta": "/v1beta", "/v1/": "/v1", "/v1alpha": "/v1alpha", "/gw": "/gw/v1beta", "/gw/v1beta2": "/gw/v1beta2",
	} {
		cfg := f.Config("gemini-x")
		cfg.Endpoint += suffix
		reply, n, err := modeltest.Generate(t, mustNew(t, cfg))
		if err != nil {
			t.Fatalf("%q: %v", suffix, err)
		}
		want := loop.Reply{Blocks: []loop.Block{text("Hello")}, Finish: loop.FinishStop, Usage: usage41, Model: "gemini-x", RequestID: "resp1"}
		if !reflect.DeepEqual(*reply, want) || n != 5 {
			t.Errorf("%q: got %+v and %d bytes", suffix, *reply, n)
		}
		requests, bodies := f.Seen()
		r, body := requests[len(requests)-1], bodies[len(bodies)-1]
		if r.URL.Path != path+"/models/gemini-x:streamGenerateContent" || r.URL.Query().Get("alt") != "sse" ||
			r.URL.Query().Get("api-version") != modeltest.CanaryQuery || r.URL.Query().Has("key") {
			t.Errorf("%q: asked %s", suffix, r.URL)
		}
		if h := r.Header; h.Get("X-Goog-Api-Key") != modeltest.CanaryKey || h.Get("X-Team") != "a" {
			t.Errorf("%q: headers %v", suffix, h)
		}
		modeltest.WantJSON(t, body, `{"contents":[{"role":"user","parts":[{"text":"canary-prompt"}]}],
			"systemInstruction":{"role":"user","parts":[{"text":"sys"}]},"generationConfig":{}}`)
	}
}

func TestNoKeySendsNoneButAHeaderOfThatName(t *testing.T) {
	t.Setenv("GEMINI_API_KEY", "from-env")
	f := modeltest.Serve(t, chunks(hello...))
	cfg := f.Config("gemini-x")
	cfg.APIKey, cfg.HTTP = "", nil
	for _, header := range []string{"", "from-header"} {
		cfg.Headers = map[string]string{"x-goog-api-key": header}
		if header == "" {
			cfg.Headers = nil
		}
		if _, _, err := modeltest.Generate(t, mustNew(t, cfg)); err != nil {
			t.Fatal(err)
		}
		requests, _ := f.Seen()
		if got := requests[len(requests)-1].Header.Get(keyHeader); got != header {
			t.Errorf("the key %q was sent, want %q", got, header)
		}
	}
}

func TestNothingIsAddedForAnotherHost(t *testing.T) {
	var got *http.Request
	next := roundTripFunc(func(r *http.Request) (*http.Response, error) { got = r; return nil, errors.New("no") })
	tr := &transport{next: next, host: "a.example", query: map[string]string{"k": modeltest.CanaryQuery}, header: map[string]string{keyHeader: modeltest.CanaryKey}}
	req, _ := http.NewRequest(http.MethodPost, "https://b.example/x", nil)
	_, _ = tr.RoundTrip(req)
	if got.URL.RawQuery != "" || got.Header.Get(keyHeader) != "" {
		t.Errorf("sent %s with %v", got.URL, got.Header)
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestBadConfigurationIsRefusedWithoutRepeatingIt(t *testing.T) {
	for _, cfg := range []model.Config{{}, {Model: "m", Endpoint: "::canary-query"}, {Model: "a?canary-query"}, {Model: "../canary-query"}} {
		_, err := New(cfg)
		if err == nil || strings.Contains(err.Error(), modeltest.CanaryQuery) {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}

func TestCutStreamGivesPartialReplyAndRetryableError(t *testing.T) {
	begun := []string{`{"candidates":[{"content":{"parts":[{"text":"Hello"}]}}],"usageMetadata":{"promptTokenCount":30,"totalTokenCount":30}` + tail}
	then := func(raw string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { chunks(begun...)(w, r); _, _ = w.Write([]byte(raw)) }
	}
	for reason, tc := range map[string]struct {
		answer http.HandlerFunc
		cause  loop.Cause
	}{
		"the connection breaks": {modeltest.Cut(chunks(begun...)), loop.CauseModelUnavailable},
		"the connection breaks within a chunk": {func(w http.ResponseWriter, r *http.Request) {
			then(`data: {"candidates":[{"con`)(w, r)
			panic(http.ErrAbortHandler)
		}, loop.CauseModelUnavailable},
		"the stream ends too early":      {chunks(begun...), loop.CauseModelUnavailable},
		"the stream ends within a chunk": {then(`data: {"candidates":[{"con`), loop.CauseModelUnavailable},
		"an error chunk":                 {chunks(begun[0], apiError(503, "UNAVAILABLE", modeltest.CanaryBody)), loop.CauseModelUnavailable},
		"a chunk that is no JSON":        {then("data: {" + modeltest.CanaryBody + "}\r\n\r\n"), loop.CauseModelReplyInvalid},
		"a line that is no data":         {then(modeltest.CanaryBody + "\r\n\r\n"), loop.CauseModelUnavailable},
		"an error without its frame":     {then("{\n  \"error\": {\n    \"code\": 503, \"status\": \"UNAVAILABLE\"\n  }\n}\n"), loop.CauseModelUnavailable},
	} {
		t.Run(reason, func(t *testing.T) {
			f := modeltest.Serve(t, tc.answer)
			reply, n, err := modeltest.Generate(t, mustNew(t, f.Config("gemini-x")))
			if e := modeltest.WantModelError(t, err); !e.Retry || e.Cause != tc.cause {
				t.Errorf("got cause %s, retry %v: %v", e.Cause, e.Retry, e)
			}
			if reply == nil || n != 5 || !reflect.DeepEqual(reply.Texts(), []string{"Hello"}) || reply.Usage.InputTokens != 30 ||
				!reply.Usage.Estimated || reply.RequestID != "resp1" || reply.Finish != "" {
				t.Errorf("got %+v and %d bytes", reply, n)
			}
			if f.Count() != 1 {
				t.Errorf("%d requests: the SDK or the client retried", f.Count())
			}
		})
	}
}

func TestBreakAfterTheEndTakesNothingAway(t *testing.T) {
	f := modeltest.Serve(t, modeltest.Cut(chunks(hello...)))
	reply, _, err := modeltest.Generate(t, mustNew(t, f.Config("gemini-x")))
	if err != nil || reply.Finish != loop.FinishStop || reply.Usage != usage41 {
		t.Errorf("got %+v, %v", reply, err)
	}
}

func TestEndedContextReturnsAtOnceWithPartialReply(t *testing.T) {
	reached := make(chan struct{})
	f := modeltest.Serve(t, modeltest.Hang(reached, chunks(hello[:2]...)))
	ctx, cancel := context.WithCancelCause(t.Context())
	n := 0
	// The end comes when the text has arrived: what arrived must be in the reply.
	reply, err := mustNew(t, f.Config("gemini-x")).Generate(ctx, modeltest.Request(), func(k int) {
		if n += k; n == 5 {
			cancel(loop.ErrCancelled)
		}
	})
	<-reached
	if e := modeltest.WantModelError(t, err); !errors.Is(e, loop.ErrCancelled) {
		t.Errorf("the cause is lost: %+v", e)
	}
	if reply == nil || !reflect.DeepEqual(reply.Texts(), []string{"Hello"}) {
		t.Errorf("got %+v", reply)
	}
}

func TestHangingServerIsLeftAfterRequestTimeout(t *testing.T) {
	for reason, h := range map[string]http.HandlerFunc{
		"before headers": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"in mid-stream":  modeltest.Hang(nil, chunks(hello[:2]...)),
	} {
		t.Run(reason, func(t *testing.T) {
			f := modeltest.Serve(t, h)
			cfg := f.Config("gemini-x")
			cfg.RequestTimeout = 100 * time.Millisecond
			_, _, err := modeltest.Generate(t, mustNew(t, cfg))
			if e := modeltest.WantModelError(t, err); !e.Retry || !errors.Is(e, model.ErrRequestTimeout) {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestReplyLargerThanAllowedIsCut(t *testing.T) {
	whole := last(`{"text":"Hello"}`, "STOP")
	for reason, answers := range map[string][]http.HandlerFunc{
		"in mid-stream":     {modeltest.Hang(nil, chunks(hello[:2]...))},
		"by its last chunk": {chunks(whole)},
		"in one piece":      {modeltest.Status(501, nil, ""), modeltest.Status(200, nil, whole)},
	} {
		t.Run(reason, func(t *testing.T) {
			f := modeltest.Serve(t, answers...)
			cfg := f.Config("gemini-x")
			cfg.MaxReplyBytes = 4
			reply, _, err := modeltest.Generate(t, mustNew(t, cfg))
			if e := modeltest.WantModelError(t, err); e.Retry || !errors.Is(e, model.ErrReplyTooLarge) {
				t.Errorf("got %+v", e)
			}
			if reply == nil {
				t.Error("what arrived is lost")
			}
		})
	}
}

func TestServerWithoutUsageReportsNone(t *testing.T) {
	f := modeltest.Serve(t, chunks(`{"candidates":[{"content":{"parts":[{"text":"Hello"}]},"finishReason":"STOP"}]}`))
	reply, _, err := modeltest.Generate(t, mustNew(t, f.Config("gemini-x")))
	if err != nil || reply.Usage.Reported() || reply.Usage.Estimated {
		t.Errorf("got %+v, %v", reply, err)
	}
}

func TestServerThatRefusesToStreamAnswersInOnePiece(t *testing.T) {
	f := modeltest.Serve(t, modeltest.Status(501, nil, ""), modeltest.Status(200, nil, last(`{"text":"Hello"}`, "STOP")))
	m := mustNew(t, f.Config("gemini-x"))
	for range 2 {
		if reply, n, err := modeltest.Generate(t, m); err != nil || n != 5 || reply.Texts()[0] != "Hello" || reply.Usage != usage41 {
			t.Fatalf("got %+v, %v", reply, err)
		}
	}
	var methods []string
	requests, _ := f.Seen()
	for _, r := range requests {
		_, method, _ := strings.Cut(r.URL.Path, ":")
		methods = append(methods, method)
	}
	if want := []string{"streamGenerateContent", "generateContent", "generateContent"}; !reflect.DeepEqual(methods, want) {
		t.Errorf("asked %v, want %v", methods, want)
	}
}

func TestOutputSchemaIsDroppedWhereItIsRefused(t *testing.T) {
	req := modeltest.Request()
	req.OutputSchema = json.RawMessage(`{"type":"object","patternProperties":{}}`)
	f := modeltest.Serve(t, modeltest.Status(400, nil, apiError(400, "INVALID_ARGUMENT", "schema")), chunks(hello...))
	if _, err := mustNew(t, f.Config("gemini-x")).Generate(t.Context(), req, func(int) {}); err != nil {
		t.Fatal(err)
	}
	_, bodies := f.Seen()
	modeltest.WantJSON(t, bodies[0]["generationConfig"], `{"responseMimeType":"application/json","responseJsonSchema":{"type":"object","patternProperties":{}}}`)
	modeltest.WantJSON(t, bodies[1]["generationConfig"], `{}`)
}

func TestWholeAnswerOfAnotherShapeIsNoReply(t *testing.T) {
	f := modeltest.Serve(t, modeltest.Status(501, nil, ""), modeltest.Status(200, nil, `{"candidates":"canary-body"}`))
	_, _, err := modeltest.Generate(t, mustNew(t, f.Config("gemini-x")))
	if e := modeltest.WantModelError(t, err); e.Cause != loop.CauseModelReplyInvalid {
		t.Errorf("got %+v", e)
	}
}

func TestPanicOfTheCounterIsNotSwallowed(t *testing.T) {
	f := modeltest.Serve(t, chunks(hello...))
	defer func() {
		if recover() == nil {
			t.Error("the panic is lost")
		}
	}()
	_, _ = mustNew(t, f.Config("gemini-x")).Generate(t.Context(), modeltest.Request(), func(int) { panic("a bug of the caller") })
}
