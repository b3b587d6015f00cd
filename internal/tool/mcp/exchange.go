package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptrace"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// exchange is what is known about one JSON-RPC call's way through HTTP. The SDK's errors do not tell a request that never
// left from one whose answer was lost, so the wall notes it here.
type exchange struct {
	mu sync.Mutex
	id jsonrpc.ID
	// method and params are those of the request.
	method string
	params json.RawMessage
	// handed: the request was handed to the HTTP transport. asked: that wanted a connection. connected: there was one, so
	// from here on the server may have seen the request.
	handed, asked, connected bool
	// responded: the server gave an HTTP response.
	responded bool
	// status is the last HTTP status that was no success, 0 for none.
	status int
	// err is the last transport error.
	err error
	// most is the largest answer that is read, 0 for maxBodyBytes.
	most int
	// answered: a whole JSON-RPC response to this call arrived.
	answered bool
	// tooLarge: the answer passed maxBodyBytes.
	tooLarge bool
	// sessionGone: the server does not know the session any more, so it did not look at the call.
	sessionGone bool
	// resumes counts the attempts to fetch the rest of a broken stream since the last event.
	resumes int
	// structured is the answer's structured content as the server wrote it: the SDK rounds its numbers.
	structured json.RawMessage
	// result is what a tool's server answered, for a result that the SDK cannot read. listed and odd are a list's, read entry by entry.
	result json.RawMessage
	listed []listed
	odd    []string
	// room gives back the place of a large answer, nil when there is none; see places. over: it gets none any more.
	room context.CancelFunc
	over bool
}

type exchangeKey struct{}

func withExchange(ctx context.Context, ex *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, ex)
}

func exchangeOf(ctx context.Context) *exchange {
	ex, _ := ctx.Value(exchangeKey{}).(*exchange)
	return ex
}

func (ex *exchange) set(f func(ex *exchange)) {
	if ex == nil {
		return
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	f(ex)
}

func (ex *exchange) callID() (id jsonrpc.ID) {
	ex.set(func(ex *exchange) { id = ex.id })
	return id
}

// largest is the largest answer that is read.
func (ex *exchange) largest() (most int) {
	ex.set(func(ex *exchange) { most = ex.most })
	return cmp.Or(most, maxBodyBytes)
}

// take notes the answer, and makes it one that the SDK can read. It tells whether it changed it for that.
func (ex *exchange) take(answer *jsonrpc.Response) (changed bool) {
	structured := structuredIn(answer.Result)
	ex.set(func(ex *exchange) { ex.answered, ex.structured = true, structured })
	return ex.mend(answer)
}

// facts is a copy of an exchange, to decide on.
type facts struct {
	status int
	err    error

	neverSent, responded, answered, tooLarge, sessionGone bool

	structured, result json.RawMessage
	listed             []listed
	odd                []string
}

func (ex *exchange) facts() facts {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return facts{
		status: ex.status, err: ex.err, responded: ex.responded, answered: ex.answered, tooLarge: ex.tooLarge, sessionGone: ex.sessionGone,
		// A transport that is not net/http's may not call the hooks; then only a request it never got is certain.
		neverSent:  !ex.handed || (ex.asked && !ex.connected),
		structured: ex.structured, result: ex.result, listed: ex.listed, odd: ex.odd,
	}
}

// traced adds the hooks that tell whether a request got a connection.
func (ex *exchange) traced(req *http.Request) *http.Request {
	if ex == nil {
		return req
	}
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { ex.set(func(ex *exchange) { ex.asked = true }) },
		GotConn: func(httptrace.GotConnInfo) { ex.set(func(ex *exchange) { ex.connected = true }) },
	}
	return req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
}
