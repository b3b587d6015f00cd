package mcp

import (
	"bufio"
	"context"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// old sends a request of the old transport, whose answers come on the one stream that all calls share. There is nothing to
// contain: the status of a POST is all that belongs to one call. With a POST that fails the SDK gives the connection up,
// unless the POST failed because its caller went away: the session is as good as before, and the server is told.
func (w *wall) old(req *http.Request) (*http.Response, error) {
	rpc := requestOf(req)
	if req.Method == http.MethodPost && rpc == nil {
		return w.tell(req, true)
	}
	ex := exchangeOf(req.Context())
	if rpc != nil && rpc.IsCall() && ex != nil {
		ex.set(func(ex *exchange) { ex.id, ex.method, ex.params = rpc.ID, rpc.Method, rpc.Params })
		w.pending.Store(rpc.ID, ex)
		context.AfterFunc(req.Context(), func() { w.pending.Delete(rpc.ID) })
	}
	resp, err := w.send(req, ex, maxBodyBytes)
	if err == nil && failed(resp.StatusCode) {
		ex.set(func(ex *exchange) { ex.status = resp.StatusCode })
		if rpc != nil && rpc.IsCall() && w.established.Load() {
			raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes)) // of half a text, what there is
			w.noteLost(true, resp.StatusCode, responseIn(raw), raw, ex)
		}
	}
	if w.established.Load() && req.Method == http.MethodPost && req.Context().Err() == nil && (err != nil || failed(resp.StatusCode)) {
		w.onGone()
	}
	if err == nil && req.Method == http.MethodGet && mediaType(resp) == eventType {
		resp.Body = w.oldStream(bodyOf(resp))
	}
	return resp, err
}

// oldStream passes the events of the shared stream on. A large one must be the answer to a call, which then has its place.
func (w *wall) oldStream(body *boundedBody) io.ReadCloser {
	r := bufio.NewReader(body)
	next := func() ([]byte, error) {
		reading := &exchange{}
		defer reading.end()
		ev, err := readEvent(r, func(size int) error { return body.grow(reading, size) })
		if err != nil {
			return nil, err
		}
		room := reading.vacate()
		if answer, ok := decoded(ev).(*jsonrpc.Response); ok {
			if asked, ok := w.pending.LoadAndDelete(answer.ID); ok {
				ex := asked.(*exchange)
				if ex.take(answer) {
					if ev.data, err = jsonrpc.EncodeMessage(answer); err != nil {
						return nil, err
					}
				}
				ex.hold(room)
				return ev.bytes(), nil
			}
		}
		if room != nil {
			room()
			return nil, nil
		}
		return ev.bytes(), nil
	}
	return &eventBody{next: next, close: body.Close}
}

// decoded is the message of an event, nil when there is none.
func decoded(ev event) jsonrpc.Message {
	if !ev.carriesMessage() {
		return nil
	}
	msg, err := jsonrpc.DecodeMessage(ev.data)
	if err != nil {
		return nil
	}
	return msg
}
