package model

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// disposition is what one class of failure means for the task.
type disposition struct {
	cause  loop.Cause
	retry  bool
	detail string
}

// The classes of failure that providers tell apart.
var (
	authFailed      = disposition{loop.CauseModelAuthenticationFailed, false, "the model server refused the credentials"}
	notPermitted    = disposition{loop.CauseModelAuthenticationFailed, false, "the credentials do not permit this call"}
	modelNotFound   = disposition{loop.CauseModelNotFound, false, "the model server knows no such model or path"}
	requestInvalid  = disposition{loop.CauseModelRequestInvalid, false, "the model server refused the request as invalid"}
	contextExceeded = disposition{loop.CauseContextWindowExceeded, false, "the conversation is larger than the model's context window"}
	contentFiltered = disposition{loop.CauseContentFiltered, false, "the content policy of the model server stopped the call"}
	quotaExhausted  = disposition{loop.CauseModelRateLimited, false, "the account's quota or balance is used up"}
	periodUsedUp    = disposition{loop.CauseModelRateLimited, false, "the account's limit of a day, a week or a month is used up"}
	rateLimited     = disposition{loop.CauseModelRateLimited, true, "the model server limits the rate of calls"}
	unavailable     = disposition{loop.CauseModelUnavailable, true, "the model server failed to answer"}
	overloaded      = disposition{loop.CauseModelUnavailable, true, "the model server is overloaded"}
)

// usedUpForNow is our own code for a limit of a long while that is used up.
const usedUpForNow = "usage_limit_reached"

// periodWords find the limits of a long while in the prose of a 429.
var periodWords = regexp.MustCompile(`(?i)\b(?:daily|weekly|monthly)\b|\b(?:for|this|next) (?:the )?(?:week|month)\b`)

// byCode maps the machine tokens of all providers, in lower case. A token says more than a status, so it wins, unless it is vague.
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
	"insufficient_credits":       quotaExhausted,
	"payment_required":           quotaExhausted,
	usedUpForNow:                 periodUsedUp,

	"invalid_api_key":      authFailed, // OpenAI
	"authentication_error": authFailed, // Anthropic
	"api_key_invalid":      authFailed, // Gemini's error reason
	"unauthenticated":      authFailed, // Gemini
	"account_deactivated":  authFailed,
	"auth_error":           authFailed, // LiteLLM
	"unauthorized":         authFailed,
	"forbidden":            notPermitted,
	"permission_error":     notPermitted, // Anthropic
	"permission_denied":    notPermitted, // Gemini

	"model_not_found":    modelNotFound, // OpenAI
	"deploymentnotfound": modelNotFound, // Azure
	"not_found_error":    modelNotFound, // Anthropic
	"not_found":          modelNotFound, // Gemini

	"rate_limit_exceeded":     rateLimited, // OpenAI
	"too_many_requests":       rateLimited,
	"rate_limit_error":        rateLimited, // Anthropic
	"resource_exhausted":      rateLimited, // Gemini
	"overloaded_error":        overloaded,  // Anthropic, 529
	"engine_overloaded_error": overloaded,
	"unavailable":             overloaded, // Gemini
	"server_error":            unavailable,
	"internal_server_error":   unavailable,
	"internal_error":          unavailable,
	"internal":                unavailable, // Gemini
	"api_error":               unavailable, // Anthropic
	"timeout_error":           unavailable, // Anthropic
	"deadline_exceeded":       unavailable, // Gemini

	"invalid_request_error": requestInvalid,
	"invalid_argument":      requestInvalid, // Gemini
	"failed_precondition":   requestInvalid, // Gemini
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
	{"content filtering policy", "content_filter"},                    // Anthropic
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

// vague codes say less than a status: OpenAI's "invalid_request_error" stands beside almost any, and so does the "api_error" of
// Ollama and others.
func (d disposition) vague() bool { return d == requestInvalid || d == unavailable }

// KnownCode is the first of a provider's codes that says something, "" for none. Providers put several words beside each
// other (OpenAI's code and type, Gemini's status and reason); the most exact one comes first, and a vague one only counts
// where no other is known.
func KnownCode(codes ...string) (known string) {
	for _, c := range codes {
		switch d, ok := byCode[strings.ToLower(c)]; {
		case ok && !d.vague():
			return c
		case ok:
			known = cmp.Or(known, c)
		}
	}
	return known
}

// ErrorFromStatus turns an HTTP status and the provider's own short error code into what the loop is to do. Status 0 is
// an error that came within a stream; header may be nil. Codes that are not known are ignored and never shown.
func ErrorFromStatus(status int, header http.Header, code string) *loop.ModelError {
	d, known := byCode[strings.ToLower(code)]
	if !known || d.vague() && status != 0 {
		d = byStatus(status)
	}
	e := &loop.ModelError{Cause: d.cause, Retry: d.retry, Status: status, Detail: d.detail}
	switch {
	case d == periodUsedUp, d == quotaExhausted: // it is worth a wait only where its end is known
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

// ErrorInvalidReply says that an answer with a success status was no reply of the protocol. It may be tried again: a proxy
// in between, or a server that is still starting, answers such things for a while.
func ErrorInvalidReply(status int, what string) *loop.ModelError {
	return &loop.ModelError{
		Cause: loop.CauseModelReplyInvalid, Retry: true, Status: status,
		Detail: fmt.Sprintf("the model server answered, but %s", what),
	}
}
