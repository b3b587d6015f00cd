package anthropic

import (
	"net/http"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
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
		"401 is terminal": {modeltest.Status(401, nil, apiError("authentication_error", "invalid x-api-key "+modeltest.CanaryKey)),
			loop.CauseModelAuthenticationFailed, false, 0, 401},
		"403 is terminal":         {modeltest.Status(403, nil, apiError("permission_error", modeltest.CanaryBody)), loop.CauseModelAuthenticationFailed, false, 0, 403},
		"404 is an unknown model": {modeltest.Status(404, nil, apiError("not_found_error", "model: "+modeltest.CanaryBody)), loop.CauseModelNotFound, false, 0, 404},
		"400 is terminal":         {modeltest.Status(400, nil, apiError("invalid_request_error", modeltest.CanaryPrompt)), loop.CauseModelRequestInvalid, false, 0, 400},
		"too long a prompt is its own": {modeltest.Status(400, nil, apiError("invalid_request_error", "prompt is too long: 209999 tokens > 200000 maximum")),
			loop.CauseContextWindowExceeded, false, 0, 400},
		"prompt and reply cap together too": {modeltest.Status(400, nil, apiError("invalid_request_error",
			"input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input length or `max_tokens` and try again")),
			loop.CauseContextWindowExceeded, false, 0, 400},
		"too large a request too": {modeltest.Status(413, nil, apiError("request_too_large", modeltest.CanaryBody)), loop.CauseContextWindowExceeded, false, 0, 413},
		"content policy": {modeltest.Status(400, nil, apiError("invalid_request_error", "Output blocked by content filtering policy")),
			loop.CauseContentFiltered, false, 0, 400},
		"an empty account is terminal": {modeltest.Status(400, nil, apiError("invalid_request_error", "Your credit balance is too low to access the API")),
			loop.CauseModelRateLimited, false, 0, 400},
		"429 waits as long as it is told": {modeltest.Status(429, map[string]string{"Retry-After": "7"}, apiError("rate_limit_error", modeltest.CanaryBody)),
			loop.CauseModelRateLimited, true, 7 * time.Second, 429},
		"429 without Retry-After waits for the limit that is used up": {modeltest.Status(429, map[string]string{"Date": date,
			"Anthropic-Ratelimit-Requests-Remaining": "10", "Anthropic-Ratelimit-Requests-Reset": "2026-03-02T10:00:05Z",
			"Anthropic-Ratelimit-Input-Tokens-Remaining": "0", "Anthropic-Ratelimit-Input-Tokens-Reset": "2026-03-02T10:00:42Z"},
			apiError("rate_limit_error", modeltest.CanaryBody)), loop.CauseModelRateLimited, true, 42 * time.Second, 429},
		"500 retries":                    {modeltest.Status(500, nil, apiError("api_error", modeltest.CanaryBody)), loop.CauseModelUnavailable, true, 0, 500},
		"504 retries":                    {modeltest.Status(504, nil, apiError("timeout_error", modeltest.CanaryBody)), loop.CauseModelUnavailable, true, 0, 504},
		"529 retries":                    {modeltest.Status(529, nil, apiError("overloaded_error", modeltest.CanaryBody)), loop.CauseModelUnavailable, true, 0, 529},
		"503 of a proxy in HTML retries": {modeltest.Status(503, map[string]string{"Content-Type": "text/html"}, "<h1>"+modeltest.CanaryBody), loop.CauseModelUnavailable, true, 0, 503},
		"408 retries":                    {modeltest.Status(408, nil, ""), loop.CauseModelUnavailable, true, 0, 408},
		"409 retries":                    {modeltest.Status(409, nil, ""), loop.CauseModelUnavailable, true, 0, 409},
		"an error event before any content retries": {events(apiError("overloaded_error", modeltest.CanaryBody)), loop.CauseModelUnavailable, true, 0, 0},
		"an error event of a rate limit says so":    {events(evStart, apiError("rate_limit_error", modeltest.CanaryBody)), loop.CauseModelRateLimited, true, 0, 0},
		"an error with status 200 is what it says": {modeltest.Status(200, nil, apiError("authentication_error", "invalid x-api-key "+modeltest.CanaryKey)),
			loop.CauseModelAuthenticationFailed, false, 0, 0},
		"and what its prose says": {modeltest.Status(200, nil, apiError("invalid_request_error", "prompt is too long: 209999 tokens > 200000 maximum")),
			loop.CauseContextWindowExceeded, false, 0, 0},
		"a rate limit with status 200 waits as long as it is told": {modeltest.Status(200, map[string]string{"Retry-After": "7"}, apiError("rate_limit_error", modeltest.CanaryBody)),
			loop.CauseModelRateLimited, true, 7 * time.Second, 0},
		"an error without its error is no reply": {modeltest.Status(200, nil, `{"type":"error"}`), loop.CauseModelReplyInvalid, true, 0, 200},
		"a page instead of a stream is no reply": {modeltest.Status(200, map[string]string{"Content-Type": "text/html"}, "<h1>"+modeltest.CanaryBody),
			loop.CauseModelReplyInvalid, true, 0, 200},
		"a list is no reply":                   {modeltest.Status(200, nil, `[1]`), loop.CauseModelReplyInvalid, true, 0, 200},
		"content of another shape is no reply": {modeltest.Status(200, nil, `{"content":"`+modeltest.CanaryBody+`"}`), loop.CauseModelReplyInvalid, true, 0, 200},
		"JSON that is no message is no reply":  {modeltest.Status(200, nil, `{"object":"`+modeltest.CanaryBody+`"}`), loop.CauseModelReplyInvalid, true, 0, 200},
		"broken JSON is no reply":              {modeltest.Status(200, nil, `{"type":"mess`+modeltest.CanaryBody), loop.CauseModelReplyInvalid, true, 0, 200},
		"a connection that breaks retries":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, loop.CauseModelUnavailable, true, 0, 0},
	} {
		t.Run(reason, func(t *testing.T) {
			f := modeltest.Serve(t, tc.answer)
			_, _, err := modeltest.Generate(t, mustNew(t, f.Config("claude-x")))
			e := modeltest.WantModelError(t, err)
			if e.Cause != tc.cause || e.Retry != tc.retry || e.RetryAfter != tc.retryAfter || e.Status != tc.status {
				t.Errorf("got cause %s, retry %v after %s, status %d: %v", e.Cause, e.Retry, e.RetryAfter, e.Status, e)
			}
			if e.Detail == "" {
				t.Error("nothing for people to read")
			}
			if f.Count() != 1 {
				t.Errorf("%d requests: the SDK or the client retried", f.Count())
			}
		})
	}
}

func TestRefusedConnectionIsRetried(t *testing.T) {
	f := modeltest.Serve(t, events(hello...))
	cfg := f.Config("claude-x")
	f.Close()
	_, _, err := modeltest.Generate(t, mustNew(t, cfg))
	if e := modeltest.WantModelError(t, err); !e.Retry || e.Cause != loop.CauseModelUnavailable {
		t.Errorf("got %+v", e)
	}
}

func TestRedirectToAnotherHostIsNotFollowed(t *testing.T) {
	other := modeltest.Serve(t, events(hello...))
	f := modeltest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	cfg := f.Config("claude-x")
	var err error
	if cfg.HTTP, err = model.NewHTTPClient(cfg, nil); err != nil {
		t.Fatal(err)
	}
	_, _, err = modeltest.Generate(t, mustNew(t, cfg))
	if e := modeltest.WantModelError(t, err); e.Retry || e.Cause != loop.CauseEndpointRefused {
		t.Errorf("got %+v", e)
	}
	if other.Count() != 0 {
		t.Error("the other host was asked")
	}
}

func TestARefusedCapIsToldAndTakesNothingElseOutOfTheRequest(t *testing.T) {
	f := modeltest.Serve(t, modeltest.Status(400, nil, apiError("invalid_request_error",
		"max_tokens: 900000 > 64000, which is the maximum allowed number of output tokens for claude-x")))
	req := modeltest.Request()
	req.MaxOutputTokens, req.OutputSchema = 900_000, []byte(`{"type":"object"}`)
	_, err := mustNew(t, f.Config("claude-x")).Generate(t.Context(), req, func(int) {})
	e := modeltest.WantModelError(t, err)
	if want := (loop.RefusedCap{Sent: 900_000, Max: 64_000}); e.OutputCap == nil || *e.OutputCap != want || e.Cause != loop.CauseModelRequestInvalid {
		t.Errorf("got %+v, %+v", e, e.OutputCap)
	}
	if f.Count() != 1 {
		t.Errorf("%d requests: the schema was left out for nothing", f.Count())
	}
}

func TestTheDefaultCapCanBeRefusedToo(t *testing.T) {
	f := modeltest.Serve(t, modeltest.Status(400, nil, apiError("invalid_request_error",
		"max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for claude-3-haiku")))
	_, _, err := modeltest.Generate(t, mustNew(t, f.Config("claude-3-haiku")))
	if e := modeltest.WantModelError(t, err); e.OutputCap == nil || *e.OutputCap != (loop.RefusedCap{Sent: 8192, Max: 4096}) {
		t.Errorf("got %+v", e.OutputCap)
	}
}
