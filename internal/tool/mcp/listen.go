package mcp

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxListenDelay is the longest pause before a broken listening stream is opened again.
const maxListenDelay = time.Minute

// listen serves the SDK's listening stream, on which the server notifies of changes: the standalone GET, or
// subscriptions/listen since 2026-07-28. The SDK gets a stream that is there at once and lasts as long as the session; the
// real ones come and go behind it. So a server that is slow to open the stream does not hold up the handshake, and a proxy
// that cuts idle streams does not end the session.
func (w *wall) listen(req *http.Request) *http.Response {
	r, pipe := io.Pipe()
	go w.relay(req, pipe)
	resp := respond(req, http.StatusOK, eventType, nil)
	resp.Body, resp.ContentLength = r, -1
	return resp
}

// relay keeps a real stream open until the session ends or the server says that it has none.
func (w *wall) relay(req *http.Request, pipe *io.PipeWriter) {
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	defer context.AfterFunc(ctx, func() { pipe.CloseWithError(io.EOF) })()

	for delay := w.listenDelay; ; delay = min(2*delay, maxListenDelay) {
		heard, again := w.hear(ctx, req, pipe)
		if !again || w.deaf.Load() {
			break
		}
		if heard {
			delay = w.listenDelay
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil || w.deaf.Load() {
			break
		}
		// What was sent while nobody listened is lost.
		w.onGap()
	}
	// The SDK would end the session with the stream.
	<-ctx.Done()
}

// small is the bound of what is no answer.
func small(size int) error {
	if size > maxSmallBytes {
		return errBodyTooLarge
	}
	return nil
}

// hear passes the events of one real stream on. It tells whether there were any, and whether to open another stream.
func (w *wall) hear(ctx context.Context, req *http.Request, pipe *io.PipeWriter) (heard, again bool) {
	out := w.redirected(req.WithContext(ctx))
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return false, false
		}
		out.Body = body
	}
	resp, err := w.send(out, nil, maxErrorBytes)
	if err != nil {
		return false, ctx.Err() == nil
	}
	defer resp.Body.Close()
	// A 404 is no sign that the session is gone: some servers answer so where they mean 405.
	if failed(resp.StatusCode) || mediaType(resp) != eventType {
		return false, resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests
	}
	for r := bufio.NewReader(resp.Body); ; {
		ev, err := readEvent(r, small)
		if err != nil {
			return heard, ctx.Err() == nil
		}
		heard = true
		if !ev.carriesMessage() {
			continue
		}
		// Only requests and notifications of the server belong here. A response would be that to subscriptions/listen
		// itself, which says that the stream ends.
		msg, err := jsonrpc.DecodeMessage(ev.data)
		if _, ok := msg.(*jsonrpc.Request); err != nil || !ok {
			continue
		}
		// No id: the SDK must not try to resume this stream by itself.
		if _, err := pipe.Write(event{data: ev.data}.bytes()); err != nil {
			return heard, false
		}
	}
}
