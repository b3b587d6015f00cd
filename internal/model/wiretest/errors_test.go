package wiretest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/scripted"
)

// An error means the same and reads the same whatever server gives it, and however little its body says. It is a whole sentence.
func TestAnErrorMeansTheSameOfEveryServer(t *testing.T) {
	const unauthorized = "The model server refused the credentials (HTTP 401)."
	bodies := map[string]string{
		"a vague type":       `{"error":{"message":"canary","type":"api_error","param":null,"code":null}}`, // Ollama (continue#11444)
		"a server's fault":   `{"error":{"message":"canary","type":"server_error"}}`,
		"a text":             `{"error":"canary"}`,
		"a detail":           `{"detail":"canary"}`,
		"a message":          `{"message":"canary"}`,
		"a list":             `[{"error":{"message":"canary"}}]`,
		"plain text":         `canary`,
		"a page":             `<html><body>canary</body></html>`,
		"nothing":            ``,
		"an unknown code":    `{"error":{"message":"canary","type":"canary","code":"canary"}}`,
		"Anthropic's frame":  `{"type":"error","error":{"type":"api_error","message":"canary"}}`,
		"an invalid request": `{"error":{"message":"canary","type":"invalid_request_error"}}`,
	}
	for status, want := range map[int]struct {
		cause loop.Cause
		retry bool
		text  string
	}{
		400: {loop.CauseModelRequestInvalid, false, "The model server refused the request as invalid (HTTP 400)."},
		401: {loop.CauseModelAuthenticationFailed, false, unauthorized},
		402: {loop.CauseModelRateLimited, false, "The account's quota or balance is used up (HTTP 402)."},
		403: {loop.CauseModelAuthenticationFailed, false, "The credentials do not permit this call (HTTP 403)."},
		404: {loop.CauseModelNotFound, false, "The model server knows no such model or path (HTTP 404)."},
		408: {loop.CauseModelUnavailable, true, "The model server failed to answer (HTTP 408)."},
		422: {loop.CauseModelRequestInvalid, false, "The model server refused the request as invalid (HTTP 422)."},
		429: {loop.CauseModelRateLimited, true, "The model server limits the rate of calls (HTTP 429)."},
		500: {loop.CauseModelUnavailable, true, "The model server failed to answer (HTTP 500)."},
		503: {loop.CauseModelUnavailable, true, "The model server failed to answer (HTTP 503)."},
	} {
		for name, body := range bodies {
			for provider, w := range wires {
				t.Run(fmt.Sprintf("%d/%s/%s", status, name, provider), func(t *testing.T) {
					m, s := w.serve(t, func(int, map[string]any) answer { return answer{status, body} })
					_, err := ask(t, m)
					var e *loop.ModelError
					if !errors.As(err, &e) {
						t.Fatal(err)
					}
					if e.Cause != want.cause || e.Retry != want.retry || e.Error() != want.text || len(s.bodies) != 1 {
						t.Errorf("%s, retry %v, %q after %d requests; want %s, %v, %q", e.Cause, e.Retry, e.Error(), len(s.bodies), want.cause, want.retry, want.text)
					}
				})
			}
		}
	}
}

// What a script says fails as the real thing does.
func TestAScriptFailsAsAServerDoes(t *testing.T) {
	for name, want := range map[string]string{
		"RateLimited":           "The model server limits the rate of calls (HTTP 429).",
		"Unavailable":           "The model server failed to answer (HTTP 503).",
		"AuthenticationFailed":  "The model server refused the credentials (HTTP 401).",
		"ContextWindowExceeded": "The conversation is larger than the model's context window (HTTP 400).",
		"Refused":               "The model refused the request.",
		"InvalidRequest":        "The model server refused the request as invalid (HTTP 400).",
	} {
		if got := scripted.Failures[name].Error(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
