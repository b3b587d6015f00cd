package model

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// DefaultMaxReplyBytes caps a reply where nothing else is configured: 4 MiB, ten times what a journal keeps of one.
const DefaultMaxReplyBytes int64 = 4 << 20

// smallReply is how much of a reply is read without Config.Room, and roomStep how much of that is taken at once: in bytes.
const smallReply, roomStep = 64 << 10, 64 << 10

// streamOverhead is how many times the cap a stream of events may take on the wire. Every few bytes of text come in some
// 300 bytes of JSON, so a long but honest reply passes the plain cap; the text itself is held to it by BeginCall.
const streamOverhead = 32

var (
	// ErrReplyTooLarge: the reply passed Config.MaxReplyBytes.
	ErrReplyTooLarge = errors.New("the reply is too large")
	// ErrNoRoom: Config.Room has none left for the reply.
	ErrNoRoom = errors.New("no memory is left for the reply")
	// ErrRequestTimeout: the call took longer than Config.RequestTimeout.
	ErrRequestTimeout = errors.New("the request timed out")
)

func (c Config) maxReplyBytes() int64 {
	if c.MaxReplyBytes > 0 {
		return c.MaxReplyBytes
	}
	return DefaultMaxReplyBytes
}

// BeginCall bounds one model call. The context ends after cfg.RequestTimeout, or when more bytes than cfg.MaxReplyBytes and cfg.Room
// allow were counted by the returned function, which also passes the count on to onBytes. context.Cause tells which, and
// ErrorFromTransport knows both. It also marks the call as a model's, whose events NewHTTPClient's client treats as such. The
// caller calls the last function when the call is over.
func BeginCall(ctx context.Context, cfg Config, onBytes func(n int)) (context.Context, func(n int), context.CancelFunc) {
	stop := context.CancelFunc(func() {})
	if cfg.RequestTimeout > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, cfg.RequestTimeout, ErrRequestTimeout)
	}
	call := &modelCall{room: cfg.Room, http: cfg.HTTP}
	ctx = httptrace.WithClientTrace(context.WithValue(ctx, callKey{}, call), &httptrace.ClientTrace{
		GetConn:      func(string) { call.sent.Store(false) },
		WroteRequest: func(info httptrace.WroteRequestInfo) { call.sent.Store(info.Err == nil) },
	})
	ctx, cut := context.WithCancelCause(ctx)
	left := cfg.maxReplyBytes()
	count := func(n int) {
		left -= int64(n)
		switch {
		case left < 0:
			cut(ErrReplyTooLarge)
		case !call.grow(n):
			cut(ErrNoRoom)
		}
		onBytes(n)
	}
	return ctx, count, func() { cut(nil); stop(); call.end() }
}

// modelCall marks the context of a model call. Tool servers share the HTTP client, and their streams are read by a decoder
// with bounds of its own, for which half an event is none.
type modelCall struct {
	// sent: the server has the request. answered: it began to answer.
	sent, answered atomic.Bool
	http           *http.Client
	room           Room

	mu          sync.Mutex
	read, taken int64
	over        bool
}

// grow counts n more bytes of the reply, and tells whether there is room for them.
func (c *modelCall) grow(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.read += int64(n); c.room != nil && !c.over && c.read > smallReply+c.taken; c.taken += roomStep {
		if !c.room.Take(roomStep) {
			return false
		}
	}
	return true
}

// end gives the room back.
func (c *modelCall) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over = true; c.taken > 0 {
		c.room.Give(c.taken)
		c.taken = 0
	}
}

// hidden tells whether the author of the endpoint is not to know why it gave no answer.
func (c *modelCall) hidden() bool {
	if c == nil || c.http == nil || c.answered.Load() {
		return false
	}
	t, ok := c.http.Transport.(interface{ Inside() bool })
	return ok && t.Inside()
}

type callKey struct{}

// callOf is the model call of a context, nil for none.
func callOf(ctx context.Context) *modelCall {
	call, _ := ctx.Value(callKey{}).(*modelCall)
	return call
}

func isEventStream(h http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && mediaType == "text/event-stream"
}

// cappedBody fails with ErrReplyTooLarge once more than left bytes were read, and with ErrNoRoom once the call has no room for more.
// What fits is still delivered.
type cappedBody struct {
	body io.ReadCloser
	left int64
	// call is the model call whose reply is held as it is read, nil for none.
	call *modelCall
}

// Read reads up to the cap.
func (b *cappedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrReplyTooLarge
	}
	// One byte more than allowed tells a reply of exactly the cap from a larger one.
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.body.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, ErrReplyTooLarge
	}
	if b.call != nil && !b.call.grow(n) {
		return 0, ErrNoRoom
	}
	return n, err
}

// Close closes the body below.
func (b *cappedBody) Close() error { return b.body.Close() }
