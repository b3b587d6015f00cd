package model_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/anthropic"
	"github.com/agentloop-dev/agenttask-operator/internal/model/gemini"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
	"github.com/agentloop-dev/agenttask-operator/internal/model/openai"
)

// providers are the wire formats. What must hold for each is tested through the real client of each.
var providers = map[string]func(model.Config) (loop.Model, error){"OpenAI": openai.New, "Anthropic": anthropic.New, "Gemini": gemini.New}

// Gateways, proxies and self-hosted servers answer in error shapes of their own, whichever API they serve.
func TestAnErrorIsWhatItsStatusAndItsBodySayTogether(t *testing.T) {
	const canary = modeltest.CanaryBody
	event := map[string]string{"Content-Type": "text/event-stream"}
	text := map[string]string{"Content-Type": "text/plain"}
	for name, c := range map[string]struct {
		status int
		header map[string]string
		body   string
		cause  loop.Cause
		retry  bool
	}{
		// Ollama has the type api_error for nearly every status.
		"api_error, 401":            {401, nil, `{"error":{"message":"unauthorized","type":"api_error","param":null,"code":null}}`, loop.CauseModelAuthenticationFailed, false},
		"api_error, 402":            {402, nil, `{"error":{"message":"pay first","type":"api_error"}}`, loop.CauseModelRateLimited, false},
		"api_error, 403":            {403, nil, `{"error":{"message":"this model requires a subscription","type":"api_error"}}`, loop.CauseModelAuthenticationFailed, false},
		"api_error, 404":            {404, nil, `{"error":{"message":"model not found","type":"api_error"}}`, loop.CauseModelNotFound, false},
		"api_error, 400":            {400, nil, `{"error":{"message":"` + canary + `","type":"api_error"}}`, loop.CauseModelRequestInvalid, false},
		"server_error, 422":         {422, nil, `{"error":{"message":"` + canary + `","type":"server_error"}}`, loop.CauseModelRequestInvalid, false},
		"api_error, 429":            {429, nil, `{"error":{"message":"too many","type":"api_error"}}`, loop.CauseModelRateLimited, true},
		"api_error, 500":            {500, nil, `{"error":{"message":"` + canary + `","type":"api_error"}}`, loop.CauseModelUnavailable, true},
		"internal, 401 as a number": {401, nil, `{"error":{"code":401,"message":"no","status":"INTERNAL"}}`, loop.CauseModelAuthenticationFailed, false},
		"an unknown type, 403":      {403, nil, `{"error":{"message":"no","type":"error","code":"error"}}`, loop.CauseModelAuthenticationFailed, false},

		"a week's limit, 429":              {429, nil, `{"error":{"message":"you have used up your weekly limit","type":"api_error"}}`, loop.CauseModelRateLimited, false},
		"a week's limit as plain text":     {429, nil, `{"error":"weekly usage limit reached, upgrade to go on"}`, loop.CauseModelRateLimited, false},
		"a month's quota":                  {429, nil, `{"detail":"monthly quota used up"}`, loop.CauseModelRateLimited, false},
		"a week's limit whose end is told": {429, map[string]string{"Retry-After": "60"}, `{"error":{"message":"weekly limit used up","type":"api_error"}}`, loop.CauseModelRateLimited, true},

		"the error is a text":         {401, nil, `{"error":"invalid key"}`, loop.CauseModelAuthenticationFailed, false},
		"the error is a word":         {400, nil, `{"error":"insufficient_quota"}`, loop.CauseModelRateLimited, false},
		"an error flag and a message": {404, nil, `{"error":true,"message":"no such model"}`, loop.CauseModelNotFound, false},
		"plain text":                  {403, text, `Forbidden: ` + canary, loop.CauseModelAuthenticationFailed, false},
		"plain text that says more":   {400, text, `prompt is too long: 9 tokens > 8 maximum`, loop.CauseContextWindowExceeded, false},
		"HTML":                        {401, map[string]string{"Content-Type": "text/html"}, `<html><body>prompt is too long ` + canary, loop.CauseModelAuthenticationFailed, false},
		"nothing":                     {402, nil, ``, loop.CauseModelRateLimited, false},
		"a list":                      {429, nil, `[{"error":{"code":429,"message":"slow down","status":"INTERNAL"}}]`, loop.CauseModelRateLimited, true},
		"an error within an error":    {400, nil, `{"error":{"message":"upstream","error":{"type":"invalid_api_key","message":"` + canary + `"}}}`, loop.CauseModelAuthenticationFailed, false},
		"a body as another's message": {500, nil, `{"error":{"message":"{\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\"}}","type":"api_error"}}`, loop.CauseModelRateLimited, true},
		"a detail as text":            {404, nil, `{"detail":"Not Found"}`, loop.CauseModelNotFound, false},
		"a detail as an object":       {400, nil, `{"detail":{"error":{"code":"context_length_exceeded"}}}`, loop.CauseContextWindowExceeded, false},
		"a detail as a list":          {422, nil, `{"detail":[{"loc":["body","x"],"msg":"` + canary + `"}]}`, loop.CauseModelRequestInvalid, false},
		"a message alone":             {429, nil, `{"message":"API rate limit exceeded"}`, loop.CauseModelRateLimited, true},
		"a list of errors":            {403, nil, `{"success":false,"errors":[{"code":10000,"message":"no"}],"result":null}`, loop.CauseModelAuthenticationFailed, false},

		"in 200, the code as a number":    {200, nil, `{"error":{"code":401,"message":"no"}}`, loop.CauseModelAuthenticationFailed, false},
		"in 200, the code as digits":      {200, nil, `{"error":{"code":"429","message":"slow"}}`, loop.CauseModelRateLimited, true},
		"in 200, a text":                  {200, nil, `{"error":"something ` + canary + `"}`, loop.CauseModelUnavailable, true},
		"in 200, a list":                  {200, nil, `[{"error":{"code":403,"message":"no","status":"INTERNAL"}}]`, loop.CauseModelAuthenticationFailed, false},
		"in an event, the code a number":  {200, event, `data: {"error":{"code":401,"message":"no"}}` + "\n\n", loop.CauseModelAuthenticationFailed, false},
		"in an event, the code in digits": {200, event, `data: {"error":{"code":"429","type":"api_error","message":"slow"}}` + "\n\n", loop.CauseModelRateLimited, true},
		"in an event, the type alone":     {200, event, "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"later"}}` + "\n\n", loop.CauseModelUnavailable, true},
		"in an event, a text":             {200, event, `data: {"error":"invalid_api_key"}` + "\n\n", loop.CauseModelAuthenticationFailed, false},
	} {
		for provider, build := range providers {
			t.Run(name+", "+provider, func(t *testing.T) {
				f := modeltest.Serve(t, modeltest.Status(c.status, c.header, c.body))
				m, err := build(f.Config("m"))
				if err != nil {
					t.Fatal(err)
				}
				_, _, err = modeltest.Generate(t, m)
				if e := modeltest.WantModelError(t, err); e.Cause != c.cause || e.Retry != c.retry {
					t.Errorf("%s, retry %v (%v); want %s, %v", e.Cause, e.Retry, e, c.cause, c.retry)
				}
				if f.Count() != 1 {
					t.Errorf("%d requests", f.Count())
				}
			})
		}
	}
}

func TestALongLimitIsWaitedForWhereItsEndIsKnown(t *testing.T) {
	e := model.ErrorBody{Message: "weekly limit used up"}.ModelError(429, http.Header{"Retry-After": {"90"}}, 0)
	if !e.Retry || e.RetryAfter != 90*time.Second {
		t.Errorf("got %v after %s", e.Retry, e.RetryAfter)
	}
}

func TestADeeplyWrappedErrorIsGivenUp(t *testing.T) {
	body := `{"message":"inner"}`
	for range 50 {
		body = `{"error":` + body + `}`
	}
	if e, ok := model.ParseError([]byte(body)); ok || e != (model.ErrorBody{}) {
		t.Errorf("got %+v", e)
	}
}
