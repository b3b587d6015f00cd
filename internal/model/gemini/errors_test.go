package gemini

import (
	"net/http"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestEachErrorClassHasItsDisposition(t *testing.T) {
	const (
		badKey = `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}`
		retry  = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}`
		quota  = "You exceeded your current quota, please check your plan and billing details."
		perMin = `{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}`
		perDay = `{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}`
		used   = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[`
		tooBig = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
	)
	for reason, tc := range map[string]struct {
		answer     http.HandlerFunc
		cause      loop.Cause
		retry      bool
		retryAfter time.Duration
		status     int
	}{
		"a bad key is a 400 with a reason": {modeltest.Status(400, nil, apiError(400, "INVALID_ARGUMENT", "API key not valid. "+modeltest.CanaryKey, badKey)),
			loop.CauseModelAuthenticationFailed, false, 0, 400},
		"401": {modeltest.Status(401, nil, apiError(401, "UNAUTHENTICATED", modeltest.CanaryBody)), loop.CauseModelAuthenticationFailed, false, 0, 401},
		"403": {modeltest.Status(403, nil, apiError(403, "PERMISSION_DENIED", modeltest.CanaryBody)), loop.CauseModelAuthenticationFailed, false, 0, 403},
		"404": {modeltest.Status(404, nil, apiError(404, "NOT_FOUND", modeltest.CanaryBody)), loop.CauseModelNotFound, false, 0, 404},
		"400": {modeltest.Status(400, nil, apiError(400, "INVALID_ARGUMENT", modeltest.CanaryPrompt)), loop.CauseModelRequestInvalid, false, 0, 400},
		"400 of a place or plan": {modeltest.Status(400, nil, apiError(400, "FAILED_PRECONDITION", modeltest.CanaryBody)),
			loop.CauseModelRequestInvalid, false, 0, 400},
		"too many tokens are their own": {modeltest.Status(400, nil, apiError(400, "INVALID_ARGUMENT", tooBig)), loop.CauseContextWindowExceeded, false, 0, 400},
		"429 waits as long as its detail says": {modeltest.Status(429, map[string]string{"Retry-After": "1"}, apiError(429, "RESOURCE_EXHAUSTED", quota, `{"@type":"x"}`, retry)),
			loop.CauseModelRateLimited, true, 34500 * time.Millisecond, 429},
		"429 with a header only": {modeltest.Status(429, map[string]string{"Retry-After": "3"}, apiError(429, "RESOURCE_EXHAUSTED", quota)),
			loop.CauseModelRateLimited, true, 3 * time.Second, 429},
		"429 of a minute's quota": {modeltest.Status(429, nil, apiError(429, "RESOURCE_EXHAUSTED", quota, used+perMin+"]}", retry)),
			loop.CauseModelRateLimited, true, 34500 * time.Millisecond, 429},
		"429 of a day's quota is terminal": {modeltest.Status(429, nil, apiError(429, "RESOURCE_EXHAUSTED", quota, used+perDay+"]}", retry)),
			loop.CauseModelRateLimited, false, 0, 429},
		"429 of both is too": {modeltest.Status(429, nil, "["+apiError(429, "RESOURCE_EXHAUSTED", quota, used+perMin+","+perDay+"]}", retry)+"]"),
			loop.CauseModelRateLimited, false, 0, 429},
		"500":                   {modeltest.Status(500, nil, apiError(500, "INTERNAL", modeltest.CanaryBody)), loop.CauseModelUnavailable, true, 0, 500},
		"503":                   {modeltest.Status(503, nil, apiError(503, "UNAVAILABLE", modeltest.CanaryBody)), loop.CauseModelUnavailable, true, 0, 503},
		"504":                   {modeltest.Status(504, nil, apiError(504, "DEADLINE_EXCEEDED", modeltest.CanaryBody)), loop.CauseModelUnavailable, true, 0, 504},
		"408 without a body":    {modeltest.Status(408, nil, ""), loop.CauseModelUnavailable, true, 0, 408},
		"409 without a body":    {modeltest.Status(409, nil, ""), loop.CauseModelUnavailable, true, 0, 409},
		"502 of a proxy":        {modeltest.Status(502, nil, "<h1>"+modeltest.CanaryBody), loop.CauseModelUnavailable, true, 0, 502},
		"an error without code": {modeltest.Status(401, nil, `{"error":{"message":"`+modeltest.CanaryBody+`"}}`), loop.CauseModelAuthenticationFailed, false, 0, 401},
		"an error in a list":    {modeltest.Status(429, nil, "["+apiError(429, "RESOURCE_EXHAUSTED", modeltest.CanaryBody, retry)+"]"), loop.CauseModelRateLimited, true, 34500 * time.Millisecond, 429},
		"an error in the first chunk": {chunks(apiError(429, "RESOURCE_EXHAUSTED", modeltest.CanaryBody, retry)),
			loop.CauseModelRateLimited, true, 34500 * time.Millisecond, 429},
		"a blocked prompt is terminal": {chunks(`{"promptFeedback":{"blockReason":"SAFETY","blockReasonMessage":"` + modeltest.CanaryBody + `"},"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7}}`),
			loop.CauseContentFiltered, false, 0, 200},
		"a page instead of a stream":         {modeltest.Status(200, map[string]string{"Content-Type": "text/html"}, "<h1>"+modeltest.CanaryBody), loop.CauseModelReplyInvalid, true, 0, 200},
		"JSON that is no reply":              {chunks(`{"object":"` + modeltest.CanaryBody + `"}`), loop.CauseModelReplyInvalid, true, 0, 200},
		"JSON of another shape":              {chunks(`{"candidates":"` + modeltest.CanaryBody + `"}`), loop.CauseModelReplyInvalid, true, 0, 200},
		"JSON that is a list":                {chunks(`[1]`), loop.CauseModelReplyInvalid, true, 0, 200},
		"an empty stream":                    {chunks(), loop.CauseModelReplyInvalid, true, 0, 200},
		"a connection that breaks":           {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, loop.CauseModelUnavailable, true, 0, 0},
		"a connection that breaks in a body": {func(w http.ResponseWriter, r *http.Request) { chunks()(w, r); panic(http.ErrAbortHandler) }, loop.CauseModelUnavailable, true, 0, 0},
	} {
		t.Run(reason, func(t *testing.T) {
			f := modeltest.Serve(t, tc.answer)
			reply, _, err := modeltest.Generate(t, mustNew(t, f.Config("gemini-x")))
			e := modeltest.WantModelError(t, err)
			if e.Cause != tc.cause || e.Retry != tc.retry || e.RetryAfter != tc.retryAfter || e.Status != tc.status {
				t.Errorf("got cause %s, retry %v after %s, status %d: %v", e.Cause, e.Retry, e.RetryAfter, e.Status, e)
			}
			if e.Detail == "" {
				t.Error("nothing for people to read")
			}
			if tc.cause == loop.CauseContentFiltered && (reply == nil || reply.Usage.TotalTokens != 7) {
				t.Errorf("a blocked prompt is billed, got %+v", reply)
			}
			if f.Count() != 1 {
				t.Errorf("%d requests: the SDK or the client retried", f.Count())
			}
		})
	}
}

func TestRefusedConnectionIsRetried(t *testing.T) {
	f := modeltest.Serve(t, chunks(hello...))
	cfg := f.Config("gemini-x")
	f.Close()
	_, _, err := modeltest.Generate(t, mustNew(t, cfg))
	if e := modeltest.WantModelError(t, err); !e.Retry || e.Cause != loop.CauseModelUnavailable {
		t.Errorf("got %+v", e)
	}
}

func TestRedirectToAnotherHostIsNotFollowed(t *testing.T) {
	other := modeltest.Serve(t, chunks(hello...))
	f := modeltest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	cfg := f.Config("gemini-x")
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
	f := modeltest.Serve(t, modeltest.Status(400, nil, apiError(400, "INVALID_ARGUMENT",
		"Unable to submit request because it has a maxOutputTokens value of 900000 but the supported range is from 1 (inclusive) to 65537 (exclusive).")))
	req := modeltest.Request()
	req.MaxOutputTokens, req.OutputSchema = 900_000, []byte(`{"type":"object"}`)
	_, err := mustNew(t, f.Config("gemini-x")).Generate(t.Context(), req, func(int) {})
	e := modeltest.WantModelError(t, err)
	if want := (loop.RefusedCap{Sent: 900_000, Max: 65_536}); e.OutputCap == nil || *e.OutputCap != want || e.Cause != loop.CauseModelRequestInvalid {
		t.Errorf("got %+v, %+v", e, e.OutputCap)
	}
	if f.Count() != 1 {
		t.Errorf("%d requests: the schema was left out for nothing", f.Count())
	}
}
