package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

var hello = chunk(`{"content":"hello"}`, "stop") + done

func TestACallSendsKeyHeadersAndQuery(t *testing.T) {
	f := serve(t, answer{body: hello, header: map[string]string{"X-Request-Id": "req-1"}})
	m := f.model(t, func(c *model.Config) {
		c.APIKey = "key\n" // as kubectl create secret --from-file leaves it
		c.Endpoint += "?api-version=1"
		c.Query = map[string]string{"tier": "low"}
		c.Headers = map[string]string{"X-Team": "a"}
	})
	reply, err := generate(t, m)
	if err != nil {
		t.Fatal(err)
	}
	if reply.Texts()[0] != "hello" || reply.RequestID != "req-1" || reply.Model != "m-1" {
		t.Errorf("got %+v", reply)
	}
	head := f.heads[0]
	if got := head.URL.String(); got != "/v1/chat/completions?api-version=1&tier=low" {
		t.Errorf("asked %s", got)
	}
	if head.Header.Get("Authorization") != "Bearer key" || head.Header.Get("X-Team") != "a" {
		t.Errorf("headers %v", head.Header)
	}
}

func TestAHeaderOfTheUsersReplacesTheKey(t *testing.T) {
	f := serve(t, answer{body: hello})
	m := f.model(t, func(c *model.Config) { c.Headers = map[string]string{"Authorization": "Basic x"} })
	if _, err := generate(t, m); err != nil {
		t.Fatal(err)
	}
	if got := f.heads[0].Header.Values("Authorization"); len(got) != 1 || got[0] != "Basic x" {
		t.Errorf("Authorization %q", got)
	}
}

func TestTheOperatorsOwnEnvironmentIsNotUsed(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "operator-key")
	t.Setenv("OPENAI_BASE_URL", "http://operator.invalid")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Leak: yes")
	f := serve(t, answer{body: hello})
	if _, err := generate(t, f.model(t, func(c *model.Config) { c.APIKey = "" })); err != nil {
		t.Fatal(err)
	}
	if h := f.heads[0].Header; h.Get("Authorization") != "" || h.Get("X-Leak") != "" {
		t.Errorf("headers %v", h)
	}
}

func TestServersThatKnowLessAreAskedAgainWithoutIt(t *testing.T) {
	rejects := func(param string) answer {
		return answer{status: 400, body: fmt.Sprintf(`{"error":{"message":"unknown","type":"invalid_request_error","param":%q}}`, param)}
	}
	plain := answer{body: `{"id":"x","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello",
		"tool_calls":[{"id":"a","type":"function","extra_content":{"k":1},"function":{"name":"now","arguments":"{}"}}]}}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`}
	cases := map[string]struct {
		answers []answer
		check   func(last map[string]any) bool
	}{
		"stream_options":  {[]answer{rejects("stream_options"), {body: hello}}, func(r map[string]any) bool { return r["stream_options"] == nil && r["stream"] == true }},
		"streaming":       {[]answer{rejects("stream"), plain}, func(r map[string]any) bool { return r["stream"] == nil && r["stream_options"] == nil }},
		"max_tokens":      {[]answer{rejects("max_tokens"), {body: hello}}, func(r map[string]any) bool { return r["max_completion_tokens"] == 50.0 && r["max_tokens"] == nil }},
		"two things":      {[]answer{rejects("stream_options"), rejects("max_tokens"), {body: hello}}, func(r map[string]any) bool { return r["max_completion_tokens"] == 50.0 && r["stream_options"] == nil }},
		"response_format": {[]answer{rejects("response_format"), {body: hello}}, func(r map[string]any) bool { return r["response_format"] == nil }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := serve(t, c.answers...)
			m := f.model(t)
			for range 2 {
				reply, err := m.Generate(t.Context(), &loop.Request{MaxOutputTokens: 50, OutputSchema: json.RawMessage(`{}`)}, func(int) {})
				if err != nil {
					t.Fatal(err)
				}
				if reply.Texts()[0] != "hello" {
					t.Errorf("got %+v", reply)
				}
			}
			if len(f.requests) != len(c.answers)+1 {
				t.Errorf("%d requests: the second call must not be rejected again", len(f.requests))
			}
			if last := f.requests[len(f.requests)-1]; !c.check(last) {
				t.Errorf("last request %v", last)
			}
		})
	}
}

func TestARejectionThatStaysIsReportedAndNotRemembered(t *testing.T) {
	f := serve(t, answer{status: 400, body: `{"error":{"message":"unknown","param":"max_tokens"}}`},
		answer{status: 400, body: `{"error":{"message":"unknown","param":"max_completion_tokens"}}`}, answer{body: hello})
	m := f.model(t)
	_, err := generate(t, m)
	wantError(t, err, loop.CauseModelRequestInvalid, false)
	if _, err := generate(t, m); err != nil {
		t.Fatal(err)
	}
	if len(f.requests) != 3 || f.requests[2]["max_tokens"] != 50.0 {
		t.Errorf("%d requests, the last %v", len(f.requests), f.requests[len(f.requests)-1])
	}
}

func TestAPlainReplyToAStreamingRequestIsTaken(t *testing.T) {
	f := serve(t, answer{body: ` {"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}`})
	n := 0
	reply, err := f.model(t).Generate(t.Context(), &loop.Request{}, func(more int) { n += more })
	if err != nil || reply.Texts()[0] != "hello" || n != 5 || reply.Usage.Reported() {
		t.Errorf("got %+v, %v, %d bytes", reply, err, n)
	}
}

func TestOddBodiesAreRead(t *testing.T) {
	const mark = "\xef\xbb\xbf"
	events := map[string]string{"Content-Type": "text/event-stream"}
	plain := `{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}`
	cases := map[string]answer{
		"JSON after much white space":          {body: strings.Repeat(" \r\n\t", 2000) + plain},
		"JSON after a byte order mark":         {body: mark + plain},
		"events after a byte order mark":       {body: mark + hello, header: events},
		"a last event without line end":        {body: strings.TrimSpace(chunk(`{"content":"hello"}`, "stop")), header: events},
		"a last event without its blank line":  {body: strings.TrimSpace(chunk(`{"content":"hello"}`, "stop")) + "\r\n", header: events},
		"an end mark without its blank line":   {body: chunk(`{"content":"hello"}`, "") + "data: [DONE]\n"},
		"a cut event after the end of a reply": {body: chunk(`{"content":"hello"}`, "stop") + `data: {"usa`},
	}
	for name, a := range cases {
		t.Run(name, func(t *testing.T) {
			reply, err := generate(t, serve(t, a).model(t))
			if err != nil || len(reply.Texts()) != 1 || reply.Texts()[0] != "hello" {
				t.Errorf("got %+v, %v", reply, err)
			}
		})
	}
}

func TestErrorClasses(t *testing.T) {
	cases := map[string]struct {
		answer answer
		cause  loop.Cause
		retry  bool
		after  time.Duration
	}{
		"429 with Retry-After":     {answer{status: 429, header: map[string]string{"Retry-After": "7"}, body: `{"error":{"message":"x","code":"rate_limit_exceeded"}}`}, loop.CauseModelRateLimited, true, 7 * time.Second},
		"408":                      {answer{status: 408}, loop.CauseModelUnavailable, true, 0},
		"409":                      {answer{status: 409}, loop.CauseModelUnavailable, true, 0},
		"500":                      {answer{status: 500, body: "oops"}, loop.CauseModelUnavailable, true, 0},
		"502 with HTML":            {answer{status: 502, body: "<html>"}, loop.CauseModelUnavailable, true, 0},
		"503 with a date":          {answer{status: 503, header: map[string]string{"Retry-After": "Wed, 21 Oct 2015 07:28:10 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}}, loop.CauseModelUnavailable, true, 10 * time.Second},
		"401":                      {answer{status: 401, body: `{"error":{"message":"x"}}`}, loop.CauseModelAuthenticationFailed, false, 0},
		"403":                      {answer{status: 403}, loop.CauseModelAuthenticationFailed, false, 0},
		"404":                      {answer{status: 404}, loop.CauseModelNotFound, false, 0},
		"400":                      {answer{status: 400, body: `{"error":{"message":"x"}}`}, loop.CauseModelRequestInvalid, false, 0},
		"422":                      {answer{status: 422}, loop.CauseModelRequestInvalid, false, 0},
		"413":                      {answer{status: 413}, loop.CauseContextWindowExceeded, false, 0},
		"HTML":                     {answer{header: map[string]string{"Content-Type": "text/html"}, body: "<!doctype html><p>welcome"}, loop.CauseModelReplyInvalid, true, 0},
		"prose":                    {answer{header: map[string]string{"Content-Type": "text/plain"}, body: "it works"}, loop.CauseModelReplyInvalid, true, 0},
		"JSON cut short":           {answer{body: `{"choices":[{`}, loop.CauseModelReplyInvalid, true, 0},
		"no choice":                {answer{body: `{"choices":[]}`}, loop.CauseModelReplyInvalid, true, 0},
		"no choice in the stream":  {answer{body: "data: {\"choices\":[]}\n\n" + done}, loop.CauseModelReplyInvalid, true, 0},
		"an event that is no JSON": {answer{body: "data: nonsense\n\n"}, loop.CauseModelReplyInvalid, true, 0},
		"an error in status 200":   {answer{body: `{"error":{"code":429,"message":"x"}}`}, loop.CauseModelRateLimited, true, 0},
		"an empty answer":          {answer{header: map[string]string{"Content-Type": "text/event-stream"}}, loop.CauseModelUnavailable, true, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := serve(t, c.answer)
			_, err := generate(t, f.model(t))
			if e := wantError(t, err, c.cause, c.retry); e.RetryAfter != c.after {
				t.Errorf("retry after %v, want %v", e.RetryAfter, c.after)
			}
			if len(f.requests) != 1 {
				t.Errorf("%d requests: the SDK must not retry", len(f.requests))
			}
		})
	}
}

func TestWhatArrivedBeforeABreakIsKept(t *testing.T) {
	half := chunk(`{"content":"half"}`, "")
	cases := map[string]struct {
		answer answer
		cause  loop.Cause
		retry  bool
	}{
		"the connection breaks":          {answer{body: half, then: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}, loop.CauseModelUnavailable, true},
		"the stream ends without a word": {answer{body: half}, loop.CauseModelUnavailable, true},
		"an error event":                 {answer{body: half + "event: error\ndata: {\"error\":{\"message\":\"x\",\"code\":\"rate_limit_exceeded\"}}\n\n"}, loop.CauseModelRateLimited, true},
		"an error event in prose":        {answer{body: half + "event: error\ndata: overloaded\n\n"}, loop.CauseModelUnavailable, true},
		"an error as finish reason":      {answer{body: half + chunk(`{}`, "error")}, loop.CauseModelUnavailable, true},
		"too long while it runs":         {answer{body: half + "data: {\"error\":{\"message\":\"x\",\"code\":\"context_length_exceeded\"}}\n\n"}, loop.CauseContextWindowExceeded, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reply, err := generate(t, serve(t, c.answer).model(t))
			wantError(t, err, c.cause, c.retry)
			if reply == nil || len(reply.Texts()) != 1 || reply.Texts()[0] != "half" || reply.Finish != "" {
				t.Errorf("partial reply %+v", reply)
			}
		})
	}
}

func TestAFinishedReplySurvivesABreakAfterIt(t *testing.T) {
	f := serve(t, answer{body: chunk(`{"content":"all"}`, "stop"), then: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }})
	reply, err := generate(t, f.model(t))
	if err != nil || reply.Texts()[0] != "all" || reply.Usage.Reported() {
		t.Errorf("got %+v, %v", reply, err)
	}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestACallEndsWithItsContext(t *testing.T) {
	asked := make(chan struct{}, 1)
	stuck := func(r *http.Request) { asked <- struct{}{}; hang(nil, r) }
	half := chunk(`{"content":"half"}`, "")
	cases := map[string]struct {
		answer answer
		text   string
	}{
		"before the head": {answer: answer{before: stuck}},
		"before any text": {answer: answer{body: ": hm\n\n", then: func(_ http.ResponseWriter, r *http.Request) { stuck(r) }}},
		"within the text": {answer: answer{body: half, then: hang}, text: "half"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-asked; cancel(loop.ErrCancelled) }()
			reply, err := serve(t, c.answer).model(t).Generate(ctx, &loop.Request{}, func(n int) { asked <- struct{}{} })
			if e := wantError(t, err, loop.CauseModelUnavailable, true); !errors.Is(e, loop.ErrCancelled) {
				t.Errorf("the cause of the end is lost: %v", e.Err)
			}
			if c.text != "" && (reply == nil || reply.Texts()[0] != c.text) {
				t.Errorf("partial reply %+v", reply)
			}
		})
	}
}

func TestACallEndsWithItsRequestTimeout(t *testing.T) {
	f := serve(t, answer{body: chunk(`{"content":"half"}`, ""), then: hang})
	_, err := generate(t, f.model(t, func(c *model.Config) { c.RequestTimeout = 50 * time.Millisecond }))
	if e := wantError(t, err, loop.CauseModelUnavailable, true); !errors.Is(e, model.ErrRequestTimeout) || !strings.Contains(e.Detail, "requestTimeout") {
		t.Errorf("got %v", e)
	}
}
