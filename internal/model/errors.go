package model

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// disposition is what one class of failure means for the task.
type disposition struct {
	cause  loop.Cause
	retry  bool
	detail string
	// vague: it is said beside anything, so a clear status says more.
	vague bool
}

// The classes of failure that providers tell apart.
var (
	authFailed      = disposition{cause: loop.CauseModelAuthenticationFailed, retry: false, detail: "the model server refused the credentials"}
	notPermitted    = disposition{cause: loop.CauseModelAuthenticationFailed, retry: false, detail: "the credentials do not permit this call"}
	modelNotFound   = disposition{cause: loop.CauseModelNotFound, retry: false, detail: "the model server knows no such model or path"}
	requestInvalid  = disposition{cause: loop.CauseModelRequestInvalid, retry: false, detail: "the model server refused the request as invalid"}
	contextExceeded = disposition{cause: loop.CauseContextWindowExceeded, retry: false, detail: "the conversation is larger than the model's context window"}
	contentFiltered = disposition{cause: loop.CauseContentFiltered, retry: false, detail: "the content policy of the model server stopped the call"}
	quotaExhausted  = disposition{cause: loop.CauseModelRateLimited, retry: false, detail: "the account's quota or balance is used up"}
	rateLimited     = disposition{cause: loop.CauseModelRateLimited, retry: true, detail: "the model server limits the rate of calls"}
	unavailable     = disposition{cause: loop.CauseModelUnavailable, retry: true, detail: "the model server failed to answer"}
	overloaded      = disposition{cause: loop.CauseModelUnavailable, retry: true, detail: "the model server is overloaded"}
)

func vague(d disposition) disposition {
	d.vague = true
	return d
}

// byCode maps the machine tokens of all providers, in lower case. A token says more than a status, so it wins; but not the vague ones.
var byCode = map[string]disposition{
	"context_length_exceeded":       contextExceeded, // OpenAI
	"context_window_exceeded":       contextExceeded,
	"model_context_window_exceeded": contextExceeded, // Anthropic
	"exceed_context_size_error":     contextExceeded, // llama.cpp
	"request_too_large":             contextExceeded, // Anthropic, 413

	"content_filter":                 contentFiltered, // Azure
	"content_policy_violation":       contentFiltered,
	"responsibleaipolicyviolation":   contentFiltered, // Azure's inner error
	"data_inspection_failed":         contentFiltered, // DashScope
	"image_content_policy_violation": contentFiltered,
	"invalid_prompt":                 contentFiltered, // OpenAI: flagged by its usage policy
	"moderation_blocked":             contentFiltered,

	"insufficient_quota":         quotaExhausted, // OpenAI
	"billing_hard_limit_reached": quotaExhausted,
	"billing_not_active":         quotaExhausted,
	"billing_error":              quotaExhausted, // Anthropic
	"insufficient_balance":       quotaExhausted,

	"invalid_api_key":      authFailed, // OpenAI
	"authentication_error": authFailed, // Anthropic
	"api_key_invalid":      authFailed, // Gemini's error reason
	"unauthenticated":      authFailed, // Gemini
	"account_deactivated":  authFailed,
	"permission_error":     notPermitted, // Anthropic
	"permission_denied":    notPermitted, // Gemini

	"model_not_found":    modelNotFound, // OpenAI
	"deploymentnotfound": modelNotFound, // Azure
	"not_found_error":    modelNotFound, // Anthropic
	"not_found":          modelNotFound, // Gemini

	"rate_limit_exceeded":     rateLimited, // OpenAI
	"rate_limit_error":        rateLimited, // Anthropic
	"resource_exhausted":      rateLimited, // Gemini
	"overloaded_error":        overloaded,  // Anthropic, 529
	"engine_overloaded_error": overloaded,
	"unavailable":             overloaded, // Gemini
	"server_error":            vague(unavailable),
	"internal_server_error":   unavailable,
	"internal_error":          unavailable,
	"internal":                unavailable,        // Gemini
	"api_error":               vague(unavailable), // Anthropic, and Ollama beside every status
	"timeout_error":           unavailable,        // Anthropic
	"deadline_exceeded":       unavailable,        // Gemini

	"invalid_request_error": vague(requestInvalid), // beside almost any status of OpenAI's
	"invalid_argument":      vague(requestInvalid), // Gemini
	"failed_precondition":   vague(requestInvalid), // Gemini
}

// byMessage finds what providers say in prose only, in lower case. The text is matched and never shown. Gemini's "exceeded
// your current quota" is not here: it says that of its limits per minute too.
var byMessage = []struct{ part, code string }{
	{"maximum context length", "context_length_exceeded"},                     // OpenAI, vLLM, DeepSeek
	{"context length is only", "context_length_exceeded"},                     // vLLM
	{"longer than the maximum model length", "context_length_exceeded"},       // vLLM
	{"longer than the model's context length", "context_length_exceeded"},     // SGLang, Together
	{"maximum number of tokens allowed", "context_length_exceeded"},           // Gemini
	{"request payload size exceeds", "context_length_exceeded"},               // Gemini
	{"exceeds the available context size", "context_length_exceeded"},         // llama.cpp
	{"exceeds the context length", "context_length_exceeded"},                 // Ollama
	{"exceeded max context length", "context_length_exceeded"},                // Ollama
	{"when context the overflows", "context_length_exceeded"},                 // LM Studio
	{"greater than the context length", "context_length_exceeded"},            // LM Studio
	{"`inputs` tokens + `max_new_tokens` must be", "context_length_exceeded"}, // TGI
	{"maximum prompt length is", "context_length_exceeded"},                   // xAI
	{"exceeded model token limit", "context_length_exceeded"},                 // Kimi
	{"prompt exceeds max length", "context_length_exceeded"},                  // GLM
	{"range of input length should be", "context_length_exceeded"},            // DashScope
	{"contextwindowexceedederror", "context_length_exceeded"},                 // LiteLLM
	{"exceeds the context window", "context_length_exceeded"},
	{"exceed context limit", "context_length_exceeded"}, // Anthropic: input length and max_tokens exceed context limit
	{"context window exceeds", "context_length_exceeded"},
	{"context length exceeded", "context_length_exceeded"},
	{"prompt is too long", "context_length_exceeded"}, // Anthropic
	{"input is too long", "context_length_exceeded"},  // Bedrock
	{"reduce the length of the messages", "context_length_exceeded"},
	// Groq, OpenAI: one request is larger than the limit of a whole minute. Waiting is in vain, only a smaller one fits.
	{"request too large for", "context_length_exceeded"},
	{"credit balance is too low", "insufficient_quota"},               // Anthropic
	{"reached your specified api usage limits", "insufficient_quota"}, // Anthropic: until the next month, mostly
	{"insufficient balance", "insufficient_quota"},                    // DeepSeek
	{"api key not valid", "invalid_api_key"},                          // Gemini
	{"content management policy", "content_filter"},                   // Azure
}

// CodeFromMessage gives the machine token for what a provider says in prose only, "" for prose that is not known. A
// converter passes the result, where not empty, to ErrorFromStatus in place of the provider's vaguer own code.
func CodeFromMessage(message string) string {
	lower := strings.ToLower(message)
	for _, m := range byMessage {
		if strings.Contains(lower, m.part) {
			return m.code
		}
	}
	return ""
}

// KnownCode is the first of a provider's codes that says something, "" for none. Providers put several words beside each
// other (OpenAI's code and type, Gemini's status and reason); the most exact one comes first.
func KnownCode(codes ...string) (code string) {
	for _, c := range codes {
		d, ok := byCode[strings.ToLower(c)]
		switch {
		case ok && !d.vague:
			return c
		case ok && code == "" && d != vague(requestInvalid):
			code = c
		}
	}
	return code
}

// ErrorFromStatus turns an HTTP status and the provider's own short error code into what the loop is to do. Status 0 is
// an error that came within a stream; header may be nil. Codes that are not known are ignored and never shown.
func ErrorFromStatus(status int, header http.Header, code string) *loop.ModelError {
	d, known := byCode[strings.ToLower(code)]
	if !known || d.vague && status >= http.StatusBadRequest {
		d = byStatus(status)
	}
	e := &loop.ModelError{Cause: d.cause, Retry: d.retry, Status: status, Detail: d.detail}
	switch {
	case d == quotaExhausted: // it is waited for only where the server says when it comes back
		e.RetryAfter = retryAfter(header, false)
		e.Retry = e.RetryAfter > 0
	case d.retry:
		e.RetryAfter = retryAfter(header, e.Cause == loop.CauseModelRateLimited)
	}
	return e
}

func byStatus(status int) disposition {
	switch {
	case status == http.StatusUnauthorized:
		return authFailed
	case status == http.StatusForbidden:
		return notPermitted
	case status == http.StatusPaymentRequired:
		return quotaExhausted
	case status == http.StatusNotFound:
		return modelNotFound
	case status == http.StatusRequestEntityTooLarge:
		return contextExceeded
	case status == http.StatusTooManyRequests:
		return rateLimited
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == 0, status >= 500:
		return unavailable
	default:
		return requestInvalid
	}
}

// EffortRefused says what to do about a reasoning effort that a server does not take.
const EffortRefused = "the model server does not take this reasoning effort, or none beside tools: " +
	"set spec.parameters.reasoningEffort of the AgentModel to another one, or remove it, or use another model"

// ErrorInvalidReply says that an answer with a success status was no reply of the protocol. It may be tried again: a proxy
// in between, or a server that is still starting, answers such things for a while.
func ErrorInvalidReply(status int, what string) *loop.ModelError {
	return &loop.ModelError{
		Cause: loop.CauseModelReplyInvalid, Retry: true, Status: status,
		Detail: fmt.Sprintf("the model server answered, but %s", what),
	}
}
