package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	// codeContained is the JSON-RPC code of the error responses that the wall makes. Nobody sees it: the exchange says more.
	codeContained = -32099
	// maxResumes is how many attempts in a row to fetch the rest of a call's stream may bring nothing. It is below the
	// SDK's own number, after which that would end the session.
	maxResumes = 4
	sdkRetries = 2 * maxResumes
)

// contain turns the response to a call into one that the SDK can read, whatever it was.
func (w *wall) contain(req *http.Request, resp *http.Response, ex *exchange) *http.Response {
	switch {
	case redirects(resp):
		return resp // http.Client's to follow or to refuse
	case failed(resp.StatusCode):
		return w.containStatus(req, resp, ex)
	}
	// A server gives the session's id once, at the handshake; another one later would end the session.
	resp.Header.Del(headerSession)
	switch mediaType(resp) {
	case jsonType:
		return w.containJSON(req, resp, ex)
	case eventType:
		lost := func(answer *jsonrpc.Response) bool {
			return w.noteLost(inSession(req), resp.StatusCode, answer, nil, ex)
		}
		resp.Body = callStream(bodyOf(resp), ex, lost)
		return resp
	}
	return failure(req, resp, ex, "no JSON-RPC response")
}

func inSession(req *http.Request) bool { return req.Header.Get(headerSession) != "" }

// noteGone: a server that answers 404 or 410 to a session's id has forgotten the session, and has not looked at the request.
func (w *wall) noteGone(req *http.Request, resp *http.Response, ex *exchange) bool {
	if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusGone || !inSession(req) {
		return false
	}
	w.forgotten(ex)
	return true
}

func (w *wall) forgotten(ex *exchange) {
	ex.set(func(ex *exchange) { ex.sessionGone = true })
	w.onGone()
}

// containStatus notes the status, and keeps the server's own JSON-RPC error where there is one.
func (w *wall) containStatus(req *http.Request, resp *http.Response, ex *exchange) *http.Response {
	ex.set(func(ex *exchange) { ex.status = resp.StatusCode })
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	if err == nil {
		answer := responseIn(raw)
		switch {
		case w.noteLost(inSession(req), resp.StatusCode, answer, raw, ex):
			return failure(req, resp, ex, "the session is gone")
		case answer != nil && answer.Error != nil:
			ex.take(answer)
			return answerWith(req, resp, ex, answer)
		}
	}
	return failure(req, resp, ex, "an HTTP error")
}

func (w *wall) containJSON(req *http.Request, resp *http.Response, ex *exchange) *http.Response {
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		ex.set(func(ex *exchange) {
			ex.tooLarge = errors.Is(err, errBodyTooLarge)
			if !ex.over {
				ex.err = err
			}
		})
		return failure(req, resp, ex, "the answer broke off")
	}
	answer := responseIn(raw)
	if answer == nil {
		return failure(req, resp, ex, "no JSON-RPC response")
	}
	if w.noteLost(inSession(req), resp.StatusCode, answer, nil, ex) {
		return failure(req, resp, ex, "the session is gone")
	}
	if changed := ex.take(answer); answer.ID == ex.callID() && !changed {
		_ = resp.Body.Close()
		return respond(req, http.StatusOK, jsonType, raw)
	}
	return answerWith(req, resp, ex, answer)
}

// answerWith gives the call the response that stands alone in its body: whatever id it has, it is meant for this call.
func answerWith(req *http.Request, resp *http.Response, ex *exchange, answer *jsonrpc.Response) *http.Response {
	_ = resp.Body.Close()
	answer.ID = ex.callID()
	raw, err := jsonrpc.EncodeMessage(answer)
	if err != nil {
		return failure(req, resp, ex, "no JSON-RPC response")
	}
	return respond(req, http.StatusOK, jsonType, raw)
}

// responseIn reads a JSON-RPC response, nil when there is none.
func responseIn(raw []byte) *jsonrpc.Response {
	if msg, err := jsonrpc.DecodeMessage(raw); err == nil {
		answer, _ := msg.(*jsonrpc.Response)
		return answer
	}
	// Servers that refuse a request before they read it give the id null, which the SDK does not take.
	var refusal struct {
		Error *jsonrpc.Error `json:"error"`
	}
	if json.Unmarshal(raw, &refusal) != nil || refusal.Error == nil {
		return nil
	}
	return &jsonrpc.Response{Error: refusal.Error}
}

// resume fetches the rest of a call's stream by its last event id. That asks for the answer of the same call; it does not
// run the call again.
func (w *wall) resume(req *http.Request) (*http.Response, error) {
	ex := exchangeOf(req.Context())
	var resumes int
	ex.set(func(ex *exchange) { ex.resumes++; resumes = ex.resumes })
	if resumes > maxResumes || w.ctx.Err() != nil {
		return respond(req, http.StatusOK, eventType, event{data: errorFor(ex, "the stream broke off")}.bytes()), nil //nolint:nilerr // the call is told, the session lives on
	}
	// The exchange's trace is the call's own: a resumption that finds no connection does not mean that the call never left.
	resp, err := w.send(w.redirected(req), nil, maxBodyBytes)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		_ = resp.Body.Close()
		return nil, errors.New("the server cannot resume the stream now")
	case w.noteGone(req, resp, nil), failed(resp.StatusCode), mediaType(resp) != eventType:
		_ = resp.Body.Close()
		return respond(req, http.StatusOK, eventType, event{data: errorFor(ex, "the stream cannot be resumed")}.bytes()), nil
	}
	resp.Header.Del(headerSession)
	resp.Body = callStream(bodyOf(resp), ex, func(*jsonrpc.Response) bool { return false }) // the call has begun
	return resp, nil
}

// callStream passes on the events of a call's stream that the SDK can read. One that it cannot read becomes an error
// response to the call and the end of the stream; half an event at a broken end is left out, and so is a large message that is
// not the answer. Lost tells whether an answer that comes first says that the session is not known.
func callStream(body *boundedBody, ex *exchange, lost func(*jsonrpc.Response) bool) io.ReadCloser {
	r := bufio.NewReader(body)
	closeBody := body.Close
	var end error
	begun := false
	next := func() ([]byte, error) {
		if end != nil {
			return nil, end
		}
		ev, err := readEvent(r, func(size int) error { return body.grow(ex, size) })
		switch {
		case errors.Is(err, errBodyTooLarge):
			ex.set(func(ex *exchange) { ex.tooLarge = true })
			end = io.EOF
			return event{data: errorFor(ex, "the answer is too large")}.bytes(), nil
		case err != nil && errors.Is(ex.facts().err, errSlowBody):
			end = io.EOF
			return event{data: errorFor(ex, "the answer comes too slowly")}.bytes(), nil
		case err != nil:
			return nil, err
		}
		ex.set(func(ex *exchange) { ex.resumes = 0 })
		if !ev.carriesMessage() {
			ev.data = nil
			return ev.bytes(), nil
		}
		msg, err := jsonrpc.DecodeMessage(ev.data)
		if err != nil {
			end = io.EOF
			return event{data: errorFor(ex, "no JSON-RPC message")}.bytes(), nil //nolint:nilerr // the call is told, the session lives on
		}
		if answer, ok := msg.(*jsonrpc.Response); ok && answer.ID == ex.callID() {
			switch {
			case !begun && lost(answer):
				ev.data = errorFor(ex, "the session is gone")
			case ex.take(answer):
				if ev.data, err = jsonrpc.EncodeMessage(answer); err != nil {
					ev.data = errorFor(ex, "no JSON-RPC message")
				}
			}
			end = io.EOF
			closeBody = func() error { return drain(body) }
			body.finish()
		} else if room := ex.vacate(); room != nil {
			room()
			ev.data = nil
		}
		begun = true
		return ev.bytes(), nil
	}
	return &eventBody{next: next, close: func() error { return closeBody() }}
}

// drain reads the little that follows an answer, and closes.
func drain(body io.ReadCloser) error {
	_, _ = io.CopyN(io.Discard, body, maxErrorBytes)
	return body.Close()
}

// errorFor is an error response to the exchange's call.
func errorFor(ex *exchange, text string) []byte {
	raw, err := jsonrpc.EncodeMessage(&jsonrpc.Response{
		ID: ex.callID(), Error: &jsonrpc.Error{Code: codeContained, Message: text},
	})
	if err != nil {
		return nil
	}
	return raw
}

func failure(req *http.Request, resp *http.Response, ex *exchange, text string) *http.Response {
	_ = resp.Body.Close()
	return respond(req, http.StatusOK, jsonType, errorFor(ex, text))
}

// respond makes a response.
func respond(req *http.Request, status int, contentType string, body []byte) *http.Response {
	header := http.Header{}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}
