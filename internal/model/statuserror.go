package model

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// maxErrorBytes is how much of an error body is read.
const maxErrorBytes = 64 << 10

// StatusError is an answer with an error status, or an error within an answer of another. Its text is safe; its body stays in
// the providers' packages.
type StatusError struct {
	Status int
	Header http.Header
	Body   ErrorBody
}

func (e *StatusError) Error() string { return fmt.Sprintf("HTTP status %d", e.Status) }

// ModelError gives the error its disposition. Sent is the cap that the request carried on the reply's tokens, 0 for none.
func (e *StatusError) ModelError(sent int64) *loop.ModelError {
	return e.Body.ModelError(e.Status, e.Header, sent)
}

// CatchStatus takes an answer with an error status before an SDK does, which knows one shape of error body only. Redirects are
// the HTTP client's to follow.
func CatchStatus(resp *http.Response) (*http.Response, error) {
	if resp.StatusCode < 300 || resp.StatusCode < 400 && resp.Header.Get("Location") != "" {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	if err != nil && resp.Request.Context().Err() != nil {
		return nil, err
	}
	// A body that broke off or is no error of an API leaves the status, which is enough.
	e, ok := ParseError(body)
	if body = bytes.TrimSpace(body); !ok && !bytes.HasPrefix(body, []byte("<")) {
		e.Message = string(body)
	}
	return nil, &StatusError{Status: resp.StatusCode, Header: resp.Header, Body: e}
}
