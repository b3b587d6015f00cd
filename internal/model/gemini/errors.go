package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// The kinds of google.rpc details that say more than the status.
const (
	detailRetryInfo = "type.googleapis.com/google.rpc.RetryInfo"
	detailErrorInfo = "type.googleapis.com/google.rpc.ErrorInfo"
	detailQuota     = "type.googleapis.com/google.rpc.QuotaFailure"
)

// errShape: the reply is JSON of another shape than the API's.
var errShape = errors.New("the reply has another shape")

// toModelError converts an error of the SDK. The SDK's own text repeats URL and body, so neither it nor anything that
// wraps it goes on.
func toModelError(ctx context.Context, err error, ex *exchange) *loop.ModelError {
	var (
		apiErr genai.APIError
		syntax *json.SyntaxError
		typing *json.UnmarshalTypeError
	)
	switch {
	case ex.readErr != nil:
		// What the connection gave before it broke made no sense to the SDK. The break is the cause.
		return model.ErrorFromTransport(ctx, ex.readErr)
	case errors.As(err, &apiErr):
		return fromAPIError(apiErr, ex)
	case ctx.Err() != nil || ex.status == 0:
		return model.ErrorFromTransport(ctx, err)
	case errors.Is(err, io.ErrUnexpectedEOF), truncated(err):
		return model.ErrorFromTransport(ctx, io.ErrUnexpectedEOF)
	case errors.Is(err, errShape), errors.As(err, &syntax), errors.As(err, &typing), strings.HasPrefix(err.Error(), "iterateResponseStream:"):
		return model.ErrorInvalidReply(ex.status, "its reply was no stream of the Gemini API")
	}
	return model.ErrorFromTransport(ctx, err)
}

// truncated tells whether JSON ended too early, as it does where a server ends a stream within a chunk.
func truncated(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) && strings.Contains(syntax.Error(), "unexpected end")
}

// fromAPIError converts what the API itself says.
func fromAPIError(e genai.APIError, ex *exchange) *loop.ModelError {
	e = unwrapList(e)
	status := e.Code
	if status == 0 {
		status = ex.status
	}
	code := e.Status
	if reason := errorReason(e); reason != "" {
		code = reason
	}
	// A rate limit is worded like an exhausted account. Its status is clear enough.
	if known := model.CodeFromMessage(e.Message); known != "" && status != http.StatusTooManyRequests {
		code = known
	}
	out := model.ErrorFromStatus(status, ex.header, code)
	if d := retryDelay(e); d > 0 && out.Retry {
		out.RetryAfter = d
	}
	return model.NoteRefusedCap(out, e.Message, ex.sent)
}

// unwrapList reads the error that the API wraps in a list when a stream was asked for.
func unwrapList(e genai.APIError) genai.APIError {
	var list []struct {
		Error *genai.APIError `json:"error"`
	}
	if json.Unmarshal([]byte(e.Message), &list) == nil && len(list) > 0 && list[0].Error != nil {
		return *list[0].Error
	}
	return e
}

// errorReason is a reason that is clearer than its status, "" for none: a bad key is an INVALID_ARGUMENT, and a quota of the
// day that is used up is a RESOURCE_EXHAUSTED like that of a minute.
func errorReason(e genai.APIError) string {
	for _, d := range e.Details {
		switch {
		case d["@type"] == detailErrorInfo && d["reason"] == "API_KEY_INVALID":
			return "API_KEY_INVALID"
		case d["@type"] == detailQuota && isDaily(d):
			return "insufficient_quota"
		}
	}
	return ""
}

// isDaily tells whether one of the quotas that are used up is a day's. Those of a minute may stand beside it.
func isDaily(failure map[string]any) bool {
	violations, _ := failure["violations"].([]any)
	for _, v := range violations {
		fields, _ := v.(map[string]any)
		if id, _ := fields["quotaId"].(string); strings.Contains(id, "PerDay") {
			return true
		}
	}
	return false
}

// maxRetryDelay bounds what the API may ask for, as model.ErrorFromStatus does for headers.
const maxRetryDelay = 24 * time.Hour

// retryDelay is how long the API asks us to wait, 0 where it says nothing.
func retryDelay(e genai.APIError) time.Duration {
	for _, d := range e.Details {
		text, _ := d["retryDelay"].(string)
		if d["@type"] != detailRetryInfo || text == "" {
			continue
		}
		if delay, err := time.ParseDuration(text); err == nil {
			return min(max(delay, 0), maxRetryDelay)
		}
	}
	return 0
}

// promptBlocked is for a prompt that the API's policy refused.
func promptBlocked(status int) *loop.ModelError {
	return &loop.ModelError{Cause: loop.CauseContentFiltered, Status: status,
		Detail: "the content policy of the model server refused the prompt"}
}

// incomplete is the error of a stream that ended without saying so.
func incomplete(ctx context.Context, chunks int, ex *exchange) *loop.ModelError {
	switch {
	case ex.readErr != nil:
		return model.ErrorFromTransport(ctx, ex.readErr)
	case chunks == 0 && ctx.Err() == nil:
		return model.ErrorInvalidReply(ex.status, "its reply was no stream of the Gemini API")
	}
	return model.ErrorFromTransport(ctx, io.ErrUnexpectedEOF)
}

// refusesStreaming tells whether a server said that it can only answer in one piece.
func refusesStreaming(err error) bool {
	var e genai.APIError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true // Streaming is a method of its own.
	case http.StatusBadRequest:
		text := strings.ToLower(e.Message)
		return strings.Contains(text, "stream") && strings.Contains(text, "support")
	}
	return false
}
