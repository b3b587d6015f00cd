package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// apiError is what an error body says, whatever its shape. It stays within this package: Message is the provider's own
// text, which may repeat prompt and key.
type apiError struct {
	Code    string
	Type    string
	Param   string
	Message string
	// Inner is the finer code that Azure and Gemini put deeper in.
	Inner string
	// Status is the HTTP status that the body itself names, 0 for none: gateways send errors with status 200.
	Status int
}

// names tells whether the error is about one field of the request.
func (e apiError) names(field string) bool {
	if e.Param != "" {
		return e.Param == field || strings.HasPrefix(e.Param, field+".") || strings.HasPrefix(e.Param, field+"[")
	}
	return strings.Contains(e.Message, field)
}

// parseError reads the error shapes of OpenAI, Azure, Gemini's compatible endpoint ([{"error": …}]), vLLM
// ({"object": "error"}), Ollama ({"error": "text"}), FastAPI ({"detail": …}) and gateways (numeric codes).
// It is not ok where the body is no error of any of them.
func parseError(body []byte) (apiError, bool) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer struct {
		errorFields
		Error  json.RawMessage `json:"error"`
		Object string          `json:"object"`
		Detail json.RawMessage `json:"detail"`
	}
	if !decodeObject(body, &outer) {
		return apiError{}, false
	}
	var inner errorFields
	if decodeObject(outer.Error, &inner) {
		e := inner.apiError()
		return e, e != apiError{}
	}
	var text string
	if json.Unmarshal(outer.Error, &text) == nil && text != "" {
		return apiError{Message: text}, true
	}
	if len(outer.Detail) > 0 && string(outer.Detail) != "null" {
		// Text, or a list of {loc, msg}: either way the names of the fields are in it.
		return apiError{Message: string(outer.Detail)}, true
	}
	if outer.Object == "error" || outer.Message != "" {
		return outer.apiError(), true
	}
	return apiError{}, false
}

// decodeObject reads a JSON object and lets fields of another type than expected be.
func decodeObject(data []byte, into any) bool {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return false
	}
	err := json.Unmarshal(data, into)
	var wrongType *json.UnmarshalTypeError
	return err == nil || errors.As(err, &wrongType)
}

// errorFields are the fields of an error object. Code is a word, a number or null.
type errorFields struct {
	Message    string          `json:"message"`
	Type       string          `json:"type"`
	Param      string          `json:"param"`
	Code       json.RawMessage `json:"code"`
	StatusWord string          `json:"status"`
	InnerError struct {
		Code string `json:"code"`
	} `json:"innererror"`
	Metadata struct {
		// Raw is the body of the provider behind OpenRouter, whose own message says only that there was an error.
		Raw json.RawMessage `json:"raw"`
	} `json:"metadata"`
}

func (f errorFields) apiError() apiError {
	e := apiError{Type: f.Type, Param: f.Param, Message: f.Message, Inner: f.InnerError.Code}
	if e.Inner == "" {
		e.Inner = f.StatusWord
	}
	if raw := f.Metadata.Raw; len(raw) > 0 && string(raw) != "null" {
		e.Message += "\n" + unquoted(raw)
	}
	code := strings.Trim(string(f.Code), `"`)
	if n, err := strconv.Atoi(code); err == nil {
		if n >= 400 && n < 600 {
			e.Status = n
		}
	} else if code != "null" {
		e.Code = code
	}
	return e
}

// unquoted is the text of a JSON string, or any other JSON as it stands.
func unquoted(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// ownParameters are the names that may be shown when a provider rejects one: we wrote them ourselves.
var ownParameters = map[string]bool{
	"model": true, "messages": true, "tools": true, "temperature": true, "top_p": true, "frequency_penalty": true,
	"presence_penalty": true, "seed": true, "stop": true, "reasoning_effort": true, "response_format": true,
	"max_tokens": true, "max_completion_tokens": true, "stream": true, "stream_options": true,
}

// usedUp tells whether a model that thinks spent the whole cap on thoughts. OpenAI and Azure call that an invalid request,
// though it is a reply that was cut off.
func (e apiError) usedUp() bool {
	return strings.Contains(strings.ToLower(e.Message), "could not finish the message because max_tokens")
}

// modelError gives an error its disposition. Status 0 is an error within a stream; sent is the cap that the request carried
// on the reply's tokens, 0 for none.
func (e apiError) modelError(status int, header http.Header, sent int64) *loop.ModelError {
	if status < 400 && e.Status != 0 {
		status = e.Status
	}
	if status < 400 {
		status = 0
	}
	code := model.KnownCode(model.CodeFromMessage(e.Message), e.Inner, e.Code, e.Type)
	out := model.ErrorFromStatus(status, header, code)
	param, _, _ := strings.Cut(e.Param, ".")
	param, _, _ = strings.Cut(param, "[")
	switch {
	case out.Cause != loop.CauseModelRequestInvalid:
	case e.names("reasoning_effort"):
		out.Detail = model.EffortRefused
	case ownParameters[param]:
		out.Detail = fmt.Sprintf("the model server refused the request: it does not take the parameter %s", param)
	}
	return model.NoteRefusedCap(out, e.Param+" "+e.Message, sent)
}

// statusError carries an answer with an error status out of the SDK. Its text is safe; its body stays in this package.
type statusError struct {
	status int
	header http.Header
	api    apiError
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d", e.status) }

// toModelError turns any error of a call into what the loop is to do.
func toModelError(ctx context.Context, err error, sent int64) *loop.ModelError {
	var status *statusError
	if errors.As(err, &status) {
		return status.api.modelError(status.status, status.header, sent)
	}
	return model.ErrorFromTransport(ctx, err)
}
