package model

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// DefaultMaxReplyBytes caps a reply where nothing else is configured: 16 MiB.
const DefaultMaxReplyBytes int64 = 16 << 20

// streamOverhead is how many times the cap a stream of events may take on the wire. Every few bytes of text come in some
// 300 bytes of JSON, so a long but honest reply passes the plain cap; the text itself is held to it by BeginCall.
const streamOverhead = 8

var (
	// ErrReplyTooLarge: the reply passed Config.MaxReplyBytes.
	ErrReplyTooLarge = errors.New("the reply is too large")
	// ErrRequestTimeout: the call took longer than Config.RequestTimeout.
	ErrRequestTimeout = errors.New("the request timed out")
)

func (c Config) maxReplyBytes() int64 {
	if c.MaxReplyBytes > 0 {
		return c.MaxReplyBytes
	}
	return DefaultMaxReplyBytes
}

// BeginCall bounds one model call. The context ends after cfg.RequestTimeout, or when more than cfg.MaxReplyBytes bytes
// were counted by the returned function, which also passes the count on to onBytes. context.Cause tells which, and
// ErrorFromTransport knows both. It also marks the call as a model's, whose events NewHTTPClient's client treats as such. The
// caller calls the last function when the call is over.
func BeginCall(ctx context.Context, cfg Config, onBytes func(n int)) (context.Context, func(n int), context.CancelFunc) {
	stop := context.CancelFunc(func() {})
	if cfg.RequestTimeout > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, cfg.RequestTimeout, ErrRequestTimeout)
	}
	call := &modelCall{}
	ctx = httptrace.WithClientTrace(context.WithValue(ctx, callKey{}, call), &httptrace.ClientTrace{
		GetConn:      func(string) { call.sent.Store(false) },
		WroteRequest: func(info httptrace.WroteRequestInfo) { call.sent.Store(info.Err == nil) },
	})
	ctx, cut := context.WithCancelCause(ctx)
	left := cfg.maxReplyBytes()
	count := func(n int) {
		left -= int64(n)
		if left < 0 {
			cut(ErrReplyTooLarge)
		}
		onBytes(n)
	}
	return ctx, count, func() { cut(nil); stop() }
}

// modelCall marks the context of a model call. Tool servers share the HTTP client, and their streams are read by a decoder
// with bounds of its own, for which half an event is none.
type modelCall struct {
	// sent: the server has the request.
	sent atomic.Bool
}

type callKey struct{}

func isModelCall(ctx context.Context) bool { return ctx.Value(callKey{}) != nil }

func wasSent(ctx context.Context) bool {
	call, ok := ctx.Value(callKey{}).(*modelCall)
	return ok && call.sent.Load()
}

func isEventStream(h http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && mediaType == "text/event-stream"
}

// cappedBody fails with ErrReplyTooLarge once more than left bytes were read. What fits is still delivered.
type cappedBody struct {
	body io.ReadCloser
	left int64
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
	return n, err
}

// Close closes the body below.
func (b *cappedBody) Close() error { return b.body.Close() }
