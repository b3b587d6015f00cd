package anthropic

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// toModelError converts an error of the SDK. The SDK's own text repeats URL and body, so neither it nor anything that
// wraps it goes on.
func toModelError(ctx context.Context, err error, sent int64) *loop.ModelError {
	var (
		status *model.StatusError
		syntax *json.SyntaxError
		typing *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &status):
		return fromStatus(status, sent)
	case errors.As(err, &syntax), errors.As(err, &typing):
		return model.ErrorInvalidReply(http.StatusOK, "its reply was no JSON of the Messages API")
	case errors.Is(err, bufio.ErrTooLong):
		return model.ErrorInvalidReply(http.StatusOK, "an event of its stream was too large")
	}
	return model.ErrorFromTransport(ctx, err)
}

// fromStatus converts what the API itself says. sent is the request's max_tokens.
func fromStatus(e *model.StatusError, sent int64) *loop.ModelError {
	out := e.ModelError(sent)
	if name := samplingIn(e); name != "" && out.Cause == loop.CauseModelRequestInvalid && out.OutputCap == nil {
		out.Detail = fmt.Sprintf("the model server refused the request: it does not take the parameter %s", name)
	}
	return out
}

// catchStatus reads an answer with an error status before the SDK does.
func catchStatus(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	resp, err := next(req)
	if err != nil {
		return resp, err
	}
	return model.CatchStatus(resp)
}

// errorWithin is the API's error in a body, or an event, of an answer with a success status.
func errorWithin(resp *http.Response, body []byte) (*model.StatusError, bool) {
	e, ok := model.ParseError(body)
	return &model.StatusError{Status: resp.StatusCode, Header: resp.Header, Body: e}, ok
}

// samplingNames finds the names of our sampling parameters in prose, but not in the path of a tool's schema.
var samplingNames = regexp.MustCompile(`(?:^|[^\w.])(temperature|top_p)\b`)

// samplingIn is the sampling parameter that the API's prose names, "" for none. Newer models take none.
func samplingIn(e *model.StatusError) string {
	if m := samplingNames.FindStringSubmatch(e.Body.Message); m != nil {
		return m[1]
	}
	return ""
}

// incomplete is the error of a stream that ended without saying so.
func incomplete(ctx context.Context, events int) *loop.ModelError {
	if events == 0 && ctx.Err() == nil {
		return model.ErrorInvalidReply(http.StatusOK, "its reply was no event stream of the Messages API")
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
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusNotImplemented:
	default:
		return false
	}
	text := strings.ToLower(e.Body.Message)
	if !strings.Contains(text, "stream") {
		return false
	}
	for _, word := range []string{"support", "not allowed", "not available", "not implemented", "disabled", "must be false"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
