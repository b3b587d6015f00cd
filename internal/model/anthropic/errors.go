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

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// toModelError converts an error of the SDK. The SDK's own text repeats URL and body, so neither it nor anything that
// wraps it goes on.
func toModelError(ctx context.Context, err error, sent int64) *loop.ModelError {
	var (
		apiErr *sdk.Error
		syntax *json.SyntaxError
		typing *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &apiErr):
		return fromAPIError(apiErr, sent)
	case errors.As(err, &syntax), errors.As(err, &typing):
		return model.ErrorInvalidReply(http.StatusOK, "its reply was no JSON of the Messages API")
	case errors.Is(err, bufio.ErrTooLong):
		return model.ErrorInvalidReply(http.StatusOK, "an event of its stream was too large")
	}
	return model.ErrorFromTransport(ctx, err)
}

// fromAPIError converts what the API itself says. What matters in its prose (too long a prompt, an empty account) has no
// type of its own. sent is the request's max_tokens.
func fromAPIError(e *sdk.Error, sent int64) *loop.ModelError {
	code := string(e.Type())
	if known := model.CodeFromMessage(message(e)); known != "" && e.StatusCode != http.StatusTooManyRequests {
		code = known
	}
	if strings.Contains(strings.ToLower(message(e)), "content filtering policy") {
		code = "content_filter"
	}
	var header http.Header
	if e.Response != nil {
		header = e.Response.Header
	}
	status := e.StatusCode
	if status < http.StatusBadRequest {
		status = 0 // An error within an answer that began with 200.
	}
	out := model.ErrorFromStatus(status, header, code)
	switch name := samplingIn(e); {
	case out.Cause != loop.CauseModelRequestInvalid:
	case strings.Contains(message(e), "effort"):
		out.Detail = model.EffortRefused
	case name != "":
		out.Detail = fmt.Sprintf("the model server refused the request: it does not take the parameter %s", name)
	}
	return model.NoteRefusedCap(out, message(e), sent)
}

// apiErrorOf is the API's error in a body, or an event, of an answer with a success status.
func apiErrorOf(resp *http.Response, body []byte) *sdk.Error {
	e := &sdk.Error{StatusCode: resp.StatusCode, Request: resp.Request, Response: resp}
	_ = e.UnmarshalJSON(body) // What is no error of the API stays one without a type.
	return e
}

// samplingNames finds the names of our sampling parameters in prose, but not in the path of a tool's schema.
var samplingNames = regexp.MustCompile(`(?:^|[^\w.])(temperature|top_p)\b`)

// samplingIn is the sampling parameter that the API's prose names, "" for none. Newer models take none.
func samplingIn(e *sdk.Error) string {
	if m := samplingNames.FindStringSubmatch(message(e)); m != nil {
		return m[1]
	}
	return ""
}

// message is the API's prose, for matching only.
func message(e *sdk.Error) string {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(e.RawJSON()), &body) != nil || body.Error.Message == "" {
		return e.RawJSON()
	}
	return body.Error.Message
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
	var e *sdk.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.StatusCode {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusNotImplemented:
	default:
		return false
	}
	text := strings.ToLower(message(e))
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
