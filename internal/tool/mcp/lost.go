package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A server that has forgotten a session should answer 404. Many answer something else, and say so in words.
var (
	// namesSession is the session of the protocol, and nothing else.
	namesSession = regexp.MustCompile(`(?i)mcp[-_ ]?session`)
	// lostSession is a session that is not there.
	lostSession = regexp.MustCompile(`(?i)\bsession\b|session_?id`)
	lostWords   = regexp.MustCompile(`(?i)not[ _-]?found|unknown|missing|invalid|expired|no valid|not valid|no such|n[o']t exist|terminated|closed|not initialized|no longer|required|gone|lost|stale|inactive`)
	ofSessions  = regexp.MustCompile(`(?i)session`)
)

// saysLost tells whether what a server said in answer to a call means that it does not know the session, and so has not looked at the
// call. A tool may be about sessions of its own: what could be about these is not taken for it.
func saysLost(status int, code int64, text string, call json.RawMessage) bool {
	if !lostWords.MatchString(text) {
		return false
	}
	if namesSession.MatchString(text) {
		return true
	}
	if !lostSession.MatchString(text) || ofSessions.Match(call) || code == jsonrpc.CodeInvalidParams {
		return false
	}
	plainlySaid := code == jsonrpc.CodeInvalidRequest || code == codeNoSession || code == codeServer
	return plainlySaid || status >= 400 && status < 500 || status >= 500 && code != 0
}

// Codes of JSON-RPC that servers give a session that they do not know. The first also means that a request took too long.
const codeNoSession, codeServer = -32001, -32000

// noteLost notes that the server does not know the session that the request was sent in. Answer is the JSON-RPC error in its answer, nil
// where there is none, and raw is what it said instead.
func (w *wall) noteLost(sent bool, status int, answer *jsonrpc.Response, raw []byte, ex *exchange) bool {
	var code int64
	text := string(bytes.TrimSpace(raw))
	var rpc *jsonrpc.Error
	switch {
	case answer != nil && errors.As(answer.Error, &rpc):
		code, text = rpc.Code, rpc.Message
	case status == http.StatusOK:
		return false // it is a result
	}
	var call json.RawMessage
	ex.set(func(ex *exchange) { call = ex.params })
	gone := status == http.StatusNotFound || status == http.StatusGone
	if !sent || status == http.StatusUnauthorized || status == http.StatusForbidden || !gone && !saysLost(status, code, text, call) {
		return false
	}
	w.forgotten(ex)
	return true
}
