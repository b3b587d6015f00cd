package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// errShape: the reply is JSON of another shape than the API's.
var errShape = errors.New("the reply has another shape")

// toModelError converts an error of the SDK. The SDK's own text repeats URL and body, so neither it nor anything that
// wraps it goes on.
func toModelError(ctx context.Context, err error, ex *exchange) *loop.ModelError {
	var (
		status *model.StatusError
		syntax *json.SyntaxError
		typing *json.UnmarshalTypeError
	)
	switch {
	case ex.readErr != nil:
		// What the connection gave before it broke made no sense to the SDK. The break is the cause.
		return model.ErrorFromTransport(ctx, ex.readErr)
	case errors.As(err, &status):
		return status.ModelError(ex.sent)
	case ctx.Err() != nil || ex.status == 0:
		return model.ErrorFromTransport(ctx, err)
	}
	if e, ok := ex.errorWithin(); ok {
		return e.ModelError(ex.sent)
	}
	switch {
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
	case ctx.Err() != nil:
		return model.ErrorFromTransport(ctx, ctx.Err())
	}
	if e, ok := ex.errorWithin(); ok {
		return e.ModelError(ex.sent)
	}
	if chunks == 0 {
		return model.ErrorInvalidReply(ex.status, "its reply was no stream of the Gemini API")
	}
	return model.ErrorFromTransport(ctx, io.ErrUnexpectedEOF)
}

// refusesStreaming tells whether a server said that it can only answer in one piece.
func refusesStreaming(err error) bool {
	var e *model.StatusError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Status {
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true // Streaming is a method of its own.
	case http.StatusBadRequest:
		text := strings.ToLower(e.Body.Message)
		return strings.Contains(text, "stream") && strings.Contains(text, "support")
	}
	return false
}
