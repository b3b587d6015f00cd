package anthropic

import (
	"net/http"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

func TestEachErrorClassHasItsDisposition(t *testing.T) {
	date := "Mon, 02 Mar 2026 10:00:00 GMT"
	for reason, tc := range map[string]struct {
		answer     http.HandlerFunc
		cause      loop.Cause
		retry      bool
		retryAfter time.Duration
		status     int
	}{
		"401 is terminal": {status(401, nil, apiError("authentication_error", "invalid x-api-key "+canaryKey)),
			loop.CauseModelAuthenticationFailed, false, 0, 401},
		"403 is terminal":         {status(403, nil, apiError("permission_error", canaryBody)), loop.CauseModelAuthenticationFailed, false, 0, 403},
		"404 is an unknown model": {status(404, nil, apiError("not_found_error", "model: "+canaryBody)), loop.CauseModelNotFound, false, 0, 404},
		"400 is terminal":         {status(400, nil, apiError("invalid_request_error", canaryPrompt)), loop.CauseModelRequestInvalid, false, 0, 400},
		"too long a prompt is its own": {status(400, nil, apiError("invalid_request_error", "prompt is too long: 209999 tokens > 200000 maximum")),
			loop.CauseContextWindowExceeded, false, 0, 400},
		"prompt and reply cap together too": {status(400, nil, apiError("invalid_request_error",
			"input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input length or `max_tokens` and try again")),
			loop.CauseContextWindowExceeded, false, 0, 400},
		"too large a request too": {status(413, nil, apiError("request_too_large", canaryBody)), loop.CauseContextWindowExceeded, false, 0, 413},
		"content policy": {status(400, nil, apiError("invalid_request_error", "Output blocked by content filtering policy")),
			loop.CauseContentFiltered, false, 0, 400},
		"an empty account is terminal": {status(400, nil, apiError("invalid_request_error", "Your credit balance is too low to access the API")),
			loop.CauseModelRateLimited, false, 0, 400},
		"429 waits as long as it is told": {status(429, map[string]string{"Retry-After": "7"}, apiError("rate_limit_error", canaryBody)),
			loop.CauseModelRateLimited, true, 7 * time.Second, 429},
		"429 without Retry-After waits for the limit that is used up": {status(429, map[string]string{"Date": date,
			"Anthropic-Ratelimit-Requests-Remaining": "10", "Anthropic-Ratelimit-Requests-Reset": "2026-03-02T10:00:05Z",
			"Anthropic-Ratelimit-Input-Tokens-Remaining": "0", "Anthropic-Ratelimit-Input-Tokens-Reset": "2026-03-02T10:00:42Z"},
			apiError("rate_limit_error", canaryBody)), loop.CauseModelRateLimited, true, 42 * time.Second, 429},
		"500 retries":                    {status(500, nil, apiError("api_error", canaryBody)), loop.CauseModelUnavailable, true, 0, 500},
		"504 retries":                    {status(504, nil, apiError("timeout_error", canaryBody)), loop.CauseModelUnavailable, true, 0, 504},
		"529 retries":                    {status(529, nil, apiError("overloaded_error", canaryBody)), loop.CauseModelUnavailable, true, 0, 529},
		"503 of a proxy in HTML retries": {status(503, map[string]string{"Content-Type": "text/html"}, "<h1>"+canaryBody), loop.CauseModelUnavailable, true, 0, 503},
		"408 retries":                    {status(408, nil, ""), loop.CauseModelUnavailable, true, 0, 408},
		"409 retries":                    {status(409, nil, ""), loop.CauseModelUnavailable, true, 0, 409},
		"an error event before any content retries": {events(apiError("overloaded_error", canaryBody)), loop.CauseModelUnavailable, true, 0, 0},
		"an error event of a rate limit says so":    {events(evStart, apiError("rate_limit_error", canaryBody)), loop.CauseModelRateLimited, true, 0, 0},
		"a page instead of a stream is no reply": {status(200, map[string]string{"Content-Type": "text/html"}, "<h1>"+canaryBody),
			loop.CauseModelReplyInvalid, true, 0, 200},
		"a list is no reply":                   {status(200, nil, `[1]`), loop.CauseModelReplyInvalid, true, 0, 200},
		"content of another shape is no reply": {status(200, nil, `{"content":"`+canaryBody+`"}`), loop.CauseModelReplyInvalid, true, 0, 200},
		"JSON that is no message is no reply":  {status(200, nil, `{"object":"`+canaryBody+`"}`), loop.CauseModelReplyInvalid, true, 0, 200},
		"broken JSON is no reply":              {status(200, nil, `{"type":"mess`+canaryBody), loop.CauseModelReplyInvalid, true, 0, 200},
		"a connection that breaks retries":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, loop.CauseModelUnavailable, true, 0, 0},
	} {
		t.Run(reason, func(t *testing.T) {
			f := newFake(t, tc.answer)
			_, _, err := generate(t, mustNew(t, f.config()))
			e := wantModelError(t, err)
			if e.Cause != tc.cause || e.Retry != tc.retry || e.RetryAfter != tc.retryAfter || e.Status != tc.status {
				t.Errorf("got cause %s, retry %v after %s, status %d: %v", e.Cause, e.Retry, e.RetryAfter, e.Status, e)
			}
			if e.Detail == "" {
				t.Error("nothing for people to read")
			}
			if f.count() != 1 {
				t.Errorf("%d requests: the SDK or the client retried", f.count())
			}
		})
	}
}

func TestRefusedConnectionIsRetried(t *testing.T) {
	f := newFake(t, events(hello...))
	cfg := f.config()
	f.Close()
	_, _, err := generate(t, mustNew(t, cfg))
	if e := wantModelError(t, err); !e.Retry || e.Cause != loop.CauseModelUnavailable {
		t.Errorf("got %+v", e)
	}
}

func TestRedirectToAnotherHostIsNotFollowed(t *testing.T) {
	other := newFake(t, events(hello...))
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	cfg := f.config()
	var err error
	if cfg.HTTP, err = model.NewHTTPClient(cfg, nil); err != nil {
		t.Fatal(err)
	}
	_, _, err = generate(t, mustNew(t, cfg))
	if e := wantModelError(t, err); e.Retry || e.Cause != loop.CauseEndpointRefused {
		t.Errorf("got %+v", e)
	}
	if other.count() != 0 {
		t.Error("the other host was asked")
	}
}
