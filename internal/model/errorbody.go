package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// ErrorBody is what an error body says, whatever its shape. It goes no further than the providers' packages: Message is the
// server's own text, which may repeat prompt and key.
type ErrorBody struct {
	Code, Type, Param, Message string
	// Inner is the finer code that Azure and Gemini put deeper in.
	Inner string
	// Status is the HTTP status that the body itself names, 0 for none: gateways send errors with status 200.
	Status int
	// RetryAfter is how long Gemini asks to wait, 0 where the body says nothing.
	RetryAfter time.Duration
}

// maxErrorDepth bounds how deep an error may be wrapped in others, as gateways do with those of the provider behind them.
const maxErrorDepth = 4

// ParseError reads the error shapes of OpenAI, Anthropic and Gemini ({"error": {…}}, and [{"error": …}]), vLLM ({"object":
// "error"}), Ollama ({"error": "text"}), FastAPI ({"detail": …}), Cloudflare ({"errors": […]}) and gateways (numeric codes, errors
// within errors). It is not ok where the body is no error of any of them.
func ParseError(body []byte) (ErrorBody, bool) { return parseError(body, maxErrorDepth) }

func parseError(body []byte, depth int) (ErrorBody, bool) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var f errorFields
	if depth == 0 || !decodeObject(body, &f) {
		return ErrorBody{}, false
	}
	own := f.errorBody(depth)
	for _, inner := range []json.RawMessage{f.Error, f.Errors, f.Detail} {
		if e := wrapped(inner, depth); e != (ErrorBody{}) {
			return e.or(own), true
		}
	}
	return own, f.Object == "error" || own.Message != ""
}

// wrapped is the error that stands in a field of an error: an object, a text, or a list of either.
func wrapped(raw json.RawMessage, depth int) ErrorBody {
	e, _ := parseError(raw, depth-1)
	switch text := unquoted(raw); {
	case e != (ErrorBody{}), len(raw) == 0, text == "", text == "[]":
	case raw[0] == '"', raw[0] == '[': // the latter with {loc, msg}: the names of fields are in it
		e.Message = text
	}
	return e
}

// or fills in what e does not say.
func (e ErrorBody) or(other ErrorBody) ErrorBody {
	e.Code, e.Type, e.Param = cmp.Or(e.Code, other.Code), cmp.Or(e.Type, other.Type), cmp.Or(e.Param, other.Param)
	e.Inner, e.Status = cmp.Or(e.Inner, other.Inner), cmp.Or(e.Status, other.Status)
	e.RetryAfter = cmp.Or(e.RetryAfter, other.RetryAfter)
	if other.Message != "" && other.Message != e.Message {
		e.Message = strings.TrimSpace(e.Message + "\n" + other.Message)
	}
	return e
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

// errorFields are the fields of an error object. Code and status are words or numbers.
type errorFields struct {
	Error      json.RawMessage `json:"error"`
	Errors     json.RawMessage `json:"errors"`
	Detail     json.RawMessage `json:"detail"`
	Object     string          `json:"object"`
	Message    string          `json:"message"`
	Type       string          `json:"type"`
	Param      string          `json:"param"`
	Code       json.RawMessage `json:"code"`
	StatusWord json.RawMessage `json:"status"`
	StatusCode json.RawMessage `json:"status_code"`
	InnerError struct {
		Code string `json:"code"`
	} `json:"innererror"`
	Metadata struct {
		// Raw is the body of the provider behind OpenRouter, whose own message says only that there was an error.
		Raw json.RawMessage `json:"raw"`
	} `json:"metadata"`
	Details rpcDetails `json:"details"`
}

func (f errorFields) errorBody(depth int) ErrorBody {
	e := ErrorBody{Type: f.Type, Param: f.Param, Message: f.Message, RetryAfter: f.Details.retryAfter()}
	var word string
	for _, raw := range []json.RawMessage{f.Code, f.StatusWord, f.StatusCode} {
		switch n, err := strconv.Atoi(unquoted(raw)); {
		case err == nil && n >= 400 && n < 600:
			e.Status = cmp.Or(e.Status, n)
		case err != nil && string(raw) != "null" && e.Code == "":
			e.Code = unquoted(raw)
		case err != nil && string(raw) != "null":
			word = cmp.Or(word, unquoted(raw))
		}
	}
	e.Inner = cmp.Or(f.Details.reason(), f.InnerError.Code, word)
	if raw := f.Metadata.Raw; len(raw) > 0 && string(raw) != "null" {
		e.Message += "\n" + unquoted(raw)
	}
	if inner, ok := parseError([]byte(f.Message), depth-1); ok { // a whole body as the text of another
		e = inner.or(e)
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

// Names tells whether the error is about one field of the request.
func (e ErrorBody) Names(field string) bool {
	if e.Param != "" {
		return e.Param == field || strings.HasPrefix(e.Param, field+".") || strings.HasPrefix(e.Param, field+"[")
	}
	return strings.Contains(e.Message, field)
}

// effortWord finds our field for the reasoning effort, of OpenAI's and of Anthropic's API.
var effortWord = regexp.MustCompile(`\breasoning_effort\b|\boutput_config\.effort\b|\beffort parameter\b`)

// effortRefused says what to do about a reasoning effort that a server does not take.
const effortRefused = "the model server does not take this reasoning effort, or none beside tools: " +
	"set spec.parameters.reasoningEffort of the AgentModel to another one, or remove it, or use another model"

// ownParameters are the names that may be shown when a provider rejects one: we wrote them ourselves.
var ownParameters = map[string]bool{
	"model": true, "messages": true, "tools": true, "temperature": true, "top_p": true, "frequency_penalty": true,
	"presence_penalty": true, "seed": true, "stop": true, "reasoning_effort": true, "response_format": true,
	"max_tokens": true, "max_completion_tokens": true, "stream": true, "stream_options": true,
}

// ModelError gives an error its disposition. Where the answer had a success status, the body's own counts, and without one the
// error is one within a stream; sent is the cap that the request carried on the reply's tokens, 0 for none.
func (e ErrorBody) ModelError(status int, header http.Header, sent int64) *loop.ModelError {
	if status < 400 {
		status = e.Status
	}
	code := KnownCode(CodeFromMessage(e.Message), e.Inner, e.Code, e.Type, e.Message)
	if status == http.StatusTooManyRequests && periodWords.MatchString(e.Message) {
		code = usedUpForNow
	}
	out := ErrorFromStatus(status, header, code)
	if e.RetryAfter > 0 && out.Retry {
		out.RetryAfter = min(e.RetryAfter, maxRetryAfter)
	}
	param, _, _ := strings.Cut(e.Param, ".")
	param, _, _ = strings.Cut(param, "[")
	switch {
	case out.Cause != loop.CauseModelRequestInvalid:
	case effortWord.MatchString(e.Param + " " + e.Message):
		out.Detail = effortRefused
	case ownParameters[param]:
		out.Detail = fmt.Sprintf("the model server refused the request: it does not take the parameter %s", param)
	}
	return NoteRefusedCap(out, e.Param+" "+e.Message, sent)
}
