package openai

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

func TestErrorBodiesOfManyServersAreRead(t *testing.T) {
	cases := map[string]struct {
		status int
		body   string
		cause  loop.Cause
		retry  bool
		detail string
	}{
		"OpenAI, bad key":              {401, `{"error":{"message":"Incorrect API key provided: sk-x","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, loop.CauseModelAuthenticationFailed, false, "credentials"},
		"OpenAI, unknown model":        {404, `{"error":{"message":"The model does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, loop.CauseModelNotFound, false, ""},
		"OpenAI, model not allowed":    {403, `{"error":{"message":"Project does not have access","type":"invalid_request_error","code":"model_not_found"}}`, loop.CauseModelNotFound, false, ""},
		"OpenAI, too long":             {400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, loop.CauseContextWindowExceeded, false, ""},
		"OpenAI, rate":                 {429, `{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":"rate_limit_exceeded"}}`, loop.CauseModelRateLimited, true, ""},
		"OpenAI, no quota":             {429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, loop.CauseModelRateLimited, false, "quota"},
		"OpenAI, one parameter":        {400, `{"error":{"message":"Unsupported value","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}`, loop.CauseModelRequestInvalid, false, "parameter temperature"},
		"OpenAI, a message's field":    {400, `{"error":{"message":"Bad role","type":"invalid_request_error","param":"messages[3].role","code":null}}`, loop.CauseModelRequestInvalid, false, "parameter messages"},
		"OpenAI, a foreign word":       {400, `{"error":{"message":"No","type":"invalid_request_error","param":"canary","code":"canary"}}`, loop.CauseModelRequestInvalid, false, ""},
		"OpenAI, flagged prompt":       {400, `{"error":{"message":"Invalid prompt","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}`, loop.CauseContentFiltered, false, ""},
		"OpenAI, server":               {500, `{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}`, loop.CauseModelUnavailable, true, ""},
		"Azure, content filter":        {400, `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, loop.CauseContentFiltered, false, ""},
		"Azure, no deployment":         {404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment does not exist"}}`, loop.CauseModelNotFound, false, ""},
		"vLLM, too long":               {400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000","type":"BadRequestError","param":null,"code":400}`, loop.CauseContextWindowExceeded, false, ""},
		"vLLM, unknown model":          {404, `{"object":"error","message":"The model does not exist","type":"NotFoundError","code":404}`, loop.CauseModelNotFound, false, ""},
		"llama.cpp, too long":          {400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, loop.CauseContextWindowExceeded, false, ""},
		"llama.cpp, loading":           {503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, loop.CauseModelUnavailable, true, ""},
		"Ollama, text":                 {404, `{"error":"model \"x\" not found, try pulling it first"}`, loop.CauseModelNotFound, false, ""},
		"Gemini, in a list":            {429, `[{"error":{"code":429,"message":"Resource exhausted","status":"RESOURCE_EXHAUSTED"}}]`, loop.CauseModelRateLimited, true, ""},
		"Gemini, bad key":              {400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, loop.CauseModelAuthenticationFailed, false, ""},
		"FastAPI":                      {422, `{"detail":[{"loc":["body","top_k"],"msg":"extra fields not permitted"}]}`, loop.CauseModelRequestInvalid, false, ""},
		"DeepSeek, no balance":         {402, `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`, loop.CauseModelRateLimited, false, "balance"},
		"gateway, within status 200":   {200, `{"error":{"code":502,"message":"Provider returned error"}}`, loop.CauseModelUnavailable, true, ""},
		"gateway, rate within 200":     {200, `{"error":{"code":429,"message":"slow down"}}`, loop.CauseModelRateLimited, true, ""},
		"Groq, larger than a minute":   {413, `{"error":{"message":"Request too large for model m on tokens per minute (TPM): Limit 6000, Requested 7000","type":"tokens","code":"rate_limit_exceeded"}}`, loop.CauseContextWindowExceeded, false, ""},
		"OpenAI, larger than a minute": {429, `{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 6000, Requested 7000.","type":"tokens","code":"rate_limit_exceeded"}}`, loop.CauseContextWindowExceeded, false, ""},
		"OpenRouter, raw text":         {400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"The input (9 tokens) is longer than the model's context length (8 tokens).\"}","provider_name":"canary"}}}`, loop.CauseContextWindowExceeded, false, ""},
		"OpenRouter, raw object":       {200, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":{"message":"Prompt exceeds max length"}}}}`, loop.CauseContextWindowExceeded, false, ""},
		"OpenRouter, nothing raw":      {200, `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":null}}}`, loop.CauseModelRateLimited, true, ""},
		"HTML of a proxy":              {502, `<html><body>Bad Gateway</body></html>`, loop.CauseModelUnavailable, true, ""},
		"fields of other types":        {400, `{"error":{"message":"No","type":7,"param":["x"],"code":"context_length_exceeded"}}`, loop.CauseContextWindowExceeded, false, ""},
		"nothing":                      {401, ``, loop.CauseModelAuthenticationFailed, false, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e, _ := model.ParseError([]byte(c.body))
			got := e.ModelError(c.status, http.Header{}, 0)
			if got.Cause != c.cause || got.Retry != c.retry {
				t.Errorf("%s, retry %v; want %s, %v", got.Cause, got.Retry, c.cause, c.retry)
			}
			if !strings.Contains(got.Detail, c.detail) || strings.Contains(got.Detail, "canary") {
				t.Errorf("detail %q, want it to name %q", got.Detail, c.detail)
			}
		})
	}
}

func TestRepliesAreNoErrors(t *testing.T) {
	for _, body := range []string{
		`{"object":"chat.completion","choices":[]}`, `{"error":null,"choices":[]}`, `{"error":{},"choices":[]}`, `{"error":"","choices":[]}`,
		`{"detail":null}`, `[]`, `"text"`, `not JSON`, ``,
	} {
		if e, ok := model.ParseError([]byte(body)); ok {
			t.Errorf("%s is taken for the error %+v", body, e)
		}
	}
}

func TestARejectionChangesWhatItNames(t *testing.T) {
	cases := map[string]struct {
		before features
		status int
		body   string
		want   features
		ok     bool
	}{
		"stream_options":               {features{}, 400, `{"error":{"message":"Unknown parameter: 'stream_options'.","param":"stream_options"}}`, features{noUsageInStream: true}, true},
		"a field of stream_options":    {features{}, 400, `{"error":{"message":"no","param":"stream_options.include_usage"}}`, features{noUsageInStream: true}, true},
		"stream_options, FastAPI":      {features{}, 422, `{"detail":[{"loc":["body","stream_options"],"msg":"extra fields not permitted"}]}`, features{noUsageInStream: true}, true},
		"stream":                       {features{}, 400, `{"error":{"message":"Your organization must be verified to stream this model.","param":"stream"}}`, features{noStream: true}, true},
		"streaming in prose":           {features{}, 501, `{"error":"streaming is not supported"}`, features{noStream: true}, true},
		"response_format":              {features{}, 400, `{"error":{"message":"response_format is unavailable now"}}`, features{noResponseFormat: true}, true},
		"max_tokens is retired":        {features{}, 400, `{"error":{"message":"Use 'max_completion_tokens' instead.","param":"max_tokens"}}`, features{completionTokens: true}, true},
		"max_completion_tokens is new": {features{completionTokens: true}, 422, `{"detail":[{"loc":["body","max_completion_tokens"],"msg":"extra"}]}`, features{}, true},
		"reasoning is wanted":          {features{}, 400, `{"error":{"message":"Missing reasoning_content field in the assistant message"}}`, features{replayReasoning: true}, true},
		"too long, naming max_tokens":  {features{}, 400, `{"error":{"message":"max_tokens too large: the maximum context length is 9"}}`, features{}, false},
		"another parameter":            {features{}, 400, `{"error":{"message":"stream is fine","param":"temperature"}}`, features{}, false},
		"raw, behind OpenRouter":       {features{}, 400, `{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":\"stream_options is not allowed\"}"}}}`, features{noUsageInStream: true}, true},
		"not a rejection":              {features{}, 500, `{"error":{"message":"stream_options"}}`, features{}, false},
		"known already":                {features{noUsageInStream: true}, 400, `{"error":{"param":"stream_options","message":"x"}}`, features{noUsageInStream: true}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e, _ := model.ParseError([]byte(c.body))
			got, ok := c.before.adapt(c.status, e, false)
			if got != c.want || ok != c.ok {
				t.Errorf("got %+v %v, want %+v %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestOnlyTheOfficialAPIBeginsWithTheNewCap(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"": true, "https://api.openai.com/v1": true, "https://eu.api.openai.com/v1": true,
		"http://vllm.models.svc/v1": false, "https://api.openai.com.example.com/v1": false,
	} {
		if isOfficial(endpoint) != want {
			t.Errorf("%q: want %v", endpoint, want)
		}
	}
}
