package model_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

func TestStatusesAndCodesHaveADisposition(t *testing.T) {
	cases := map[string]struct {
		status int
		code   string
		cause  loop.Cause
		retry  bool
	}{
		"408":                          {408, "", loop.CauseModelUnavailable, true},
		"409":                          {409, "", loop.CauseModelUnavailable, true},
		"429":                          {429, "", loop.CauseModelRateLimited, true},
		"500":                          {500, "", loop.CauseModelUnavailable, true},
		"503":                          {503, "", loop.CauseModelUnavailable, true},
		"529, Anthropic's overload":    {529, "overloaded_error", loop.CauseModelUnavailable, true},
		"401":                          {401, "", loop.CauseModelAuthenticationFailed, false},
		"403":                          {403, "", loop.CauseModelAuthenticationFailed, false},
		"402":                          {402, "", loop.CauseModelRateLimited, false},
		"404":                          {404, "", loop.CauseModelNotFound, false},
		"405":                          {405, "", loop.CauseModelRequestInvalid, false},
		"400":                          {400, "", loop.CauseModelRequestInvalid, false},
		"422":                          {422, "", loop.CauseModelRequestInvalid, false},
		"413":                          {413, "", loop.CauseContextWindowExceeded, false},
		"too large for Anthropic":      {400, "request_too_large", loop.CauseContextWindowExceeded, false},
		"a code wins over its status":  {400, "context_length_exceeded", loop.CauseContextWindowExceeded, false},
		"content policy":               {400, "content_policy_violation", loop.CauseContentFiltered, false},
		"Alibaba's content policy":     {400, "data_inspection_failed", loop.CauseContentFiltered, false},
		"content policy of images":     {400, "image_content_policy_violation", loop.CauseContentFiltered, false},
		"moderation":                   {400, "moderation_blocked", loop.CauseContentFiltered, false},
		"the hard limit of a bill":     {400, "billing_hard_limit_reached", loop.CauseModelRateLimited, false},
		"no bill":                      {429, "billing_not_active", loop.CauseModelRateLimited, false},
		"Anthropic's bill":             {400, "billing_error", loop.CauseModelRateLimited, false},
		"no balance":                   {429, "insufficient_balance", loop.CauseModelRateLimited, false},
		"a closed account":             {400, "account_deactivated", loop.CauseModelAuthenticationFailed, false},
		"overload of an engine":        {429, "engine_overloaded_error", loop.CauseModelUnavailable, true},
		"an internal server error":     {500, "internal_server_error", loop.CauseModelUnavailable, true},
		"an internal error":            {500, "internal_error", loop.CauseModelUnavailable, true},
		"quota is no rate":             {429, "insufficient_quota", loop.CauseModelRateLimited, false},
		"Gemini's rate":                {429, "RESOURCE_EXHAUSTED", loop.CauseModelRateLimited, true},
		"Gemini's key":                 {400, "API_KEY_INVALID", loop.CauseModelAuthenticationFailed, false},
		"a vague code beside a status": {401, "invalid_request_error", loop.CauseModelAuthenticationFailed, false},
		"a vague fault beside 401":     {401, "api_error", loop.CauseModelAuthenticationFailed, false},
		"a vague fault beside 402":     {402, "server_error", loop.CauseModelRateLimited, false},
		"a vague fault beside 403":     {403, "internal_error", loop.CauseModelAuthenticationFailed, false},
		"a vague fault beside 404":     {404, "api_error", loop.CauseModelNotFound, false},
		"a vague fault beside 429":     {429, "api_error", loop.CauseModelRateLimited, true},
		"a vague fault beside 400":     {400, "api_error", loop.CauseModelRequestInvalid, false},
		"a vague fault beside 422":     {422, "internal_server_error", loop.CauseModelRequestInvalid, false},
		"an unknown code":              {500, "canary", loop.CauseModelUnavailable, true},
		"in a stream, known":           {0, "overloaded_error", loop.CauseModelUnavailable, true},
		"in a stream, invalid":         {0, "invalid_request_error", loop.CauseModelRequestInvalid, false},
		"in a stream, unknown":         {0, "canary", loop.CauseModelUnavailable, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := model.ErrorFromStatus(c.status, nil, c.code)
			if got.Cause != c.cause || got.Retry != c.retry || got.Status != c.status {
				t.Errorf("got %+v, want %s, %v", got, c.cause, c.retry)
			}
			if got.Detail == "" || strings.Contains(got.Error(), "canary") {
				t.Errorf("detail %q", got.Detail)
			}
		})
	}
}

func TestOnlyWhatMayBeRetriedHasAWait(t *testing.T) {
	h := http.Header{"Retry-After": {"5"}, "X-Ratelimit-Reset": {"3540"}}
	if got := model.ErrorFromStatus(429, h, "insufficient_quota"); !got.Retry || got.RetryAfter != 5*time.Second {
		t.Errorf("a quota that comes back is waited for: %v, %v", got.Retry, got.RetryAfter)
	}
	if got := model.ErrorFromStatus(429, http.Header{"X-Ratelimit-Reset": {"3540"}}, "insufficient_quota"); got.Retry {
		t.Error("a quota is waited for by the reset of a rate")
	}
	if got := model.ErrorFromStatus(401, h, ""); got.RetryAfter != 0 {
		t.Errorf("waits %v for a refused key", got.RetryAfter)
	}
	if got := model.ErrorFromStatus(503, h, ""); got.RetryAfter == 0 {
		t.Error("Retry-After is ignored")
	}
	// Many servers tell of their limits with every answer.
	h = http.Header{"X-Ratelimit-Remaining": {"4000"}, "X-Ratelimit-Reset": {"3540"}}
	if got := model.ErrorFromStatus(502, h, ""); got.RetryAfter != 0 {
		t.Errorf("a fault waits %v for a limit that is not used up", got.RetryAfter)
	}
	h = http.Header{"X-Ratelimit-Reset": {"3540"}}
	if got := model.ErrorFromStatus(502, h, ""); got.RetryAfter != 0 {
		t.Errorf("a fault waits %v for a limit of which nothing is known", got.RetryAfter)
	}
}

func TestProseIsRecognised(t *testing.T) {
	for message, want := range map[string]string{
		"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.":                                        "context_length_exceeded",
		"prompt is too long: 210000 tokens > 200000 maximum":                                                                                         "context_length_exceeded",
		"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).":                                                    "context_length_exceeded",
		"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000":                                                                "context_length_exceeded",
		"the request exceeds the available context size. try increasing the context size":                                                            "context_length_exceeded",
		"You passed 9000 input tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 8092 tokens.": "context_length_exceeded",
		"The decoder prompt (length 9000) is longer than the maximum model length of 8192.":                                                          "context_length_exceeded",
		"The input (9000 tokens) is longer than the model's context length (8192 tokens).":                                                           "context_length_exceeded",
		"This model's maximum prompt length is 131072 but the request contains 537812 tokens.":                                                       "context_length_exceeded",
		"Invalid request: Your request exceeded model token limit: 262144":                                                                           "context_length_exceeded",
		"Prompt exceeds max length":                                                                             "context_length_exceeded",
		"prompt too long; exceeded max context length by 4 tokens":                                              "context_length_exceeded",
		"the input length exceeds the context length":                                                           "context_length_exceeded",
		"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]":                "context_length_exceeded",
		"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000":               "context_length_exceeded",
		"Trying to keep the first 9000 tokens when context the overflows.":                                      "context_length_exceeded",
		"Request payload size exceeds the limit: 20971520 bytes.":                                               "context_length_exceeded",
		"litellm.ContextWindowExceededError: litellm.BadRequestError":                                           "context_length_exceeded",
		"Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7000":                "context_length_exceeded",
		"Rate limit reached for m on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000":              "",
		"You have reached your specified API usage limits. You will regain access on 2030-01-01 at 00:00 UTC.":  "insufficient_quota",
		"Your credit balance is too low to access the Anthropic API.":                                           "insufficient_quota",
		"API key not valid. Please pass a valid API key.":                                                       "invalid_api_key",
		"You exceeded your current quota, please check your plan and billing details (Gemini's limit a minute)": "",
		"max_tokens is too large: 100000. This model supports at most 16384 completion tokens":                  "",
		"": "",
	} {
		if got := model.CodeFromMessage(message); got != want {
			t.Errorf("%q: got %q, want %q", message, got, want)
		}
	}
}

func TestTheFirstCodeThatSaysSomethingWins(t *testing.T) {
	for _, c := range []struct {
		codes []string
		want  string
	}{
		{[]string{"", "canary", "invalid_request_error", "not_found_error"}, "not_found_error"},
		{[]string{"insufficient_quota", "rate_limit_error"}, "insufficient_quota"},
		{[]string{"invalid_request_error"}, "invalid_request_error"},
		{[]string{"api_error", "rate_limit_error"}, "rate_limit_error"},
		{nil, ""},
	} {
		if got := model.KnownCode(c.codes...); got != c.want {
			t.Errorf("%v: got %q, want %q", c.codes, got, c.want)
		}
	}
}

func TestTheSmallerOutputCapWins(t *testing.T) {
	for _, c := range []struct{ request, configured, want int64 }{{0, 0, 0}, {5, 0, 5}, {0, 7, 7}, {5, 7, 5}, {9, 7, 7}, {-1, -1, 0}, {1 << 40, 0, 1<<31 - 1}} {
		if got := model.OutputCap(c.request, c.configured); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}
