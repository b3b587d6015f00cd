package model

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// ErrorFromTransport turns an error below HTTP into what the loop is to do. The context is the one of the call
// (BeginCall): when it ended, its cause says why, and it knows whether the request was sent. The result wraps only errors
// that hold no URL, header or body.
func ErrorFromTransport(ctx context.Context, err error) *loop.ModelError {
	if known := (*loop.ModelError)(nil); errors.As(err, &known) {
		return known
	}
	e := endedError(ctx)
	if e == nil {
		if e = refusedError(err); e != nil {
			return e
		}
		e = brokenError(err)
	}
	call := callOf(ctx)
	e.Sent = call != nil && call.sent.Load()
	if call.hidden() && (ctx.Err() == nil || errors.Is(e.Err, ErrRequestTimeout)) { // and not one that we broke off
		e.Detail = "the endpoint " + egress.Unreachable
	}
	return e
}

// endedError is for a call whose own context ended.
func endedError(ctx context.Context) *loop.ModelError {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, ErrRequestTimeout):
		return &loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true, Err: ErrRequestTimeout,
			Detail: "the reply was not complete within the model's requestTimeout"}
	case errors.Is(cause, ErrReplyTooLarge):
		return tooLarge()
	case errors.Is(cause, ErrNoRoom):
		return noRoom()
	default:
		return &loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true, Err: cause,
			Detail: "the call was interrupted"}
	}
}

// refusedError is for what we refuse ourselves. It would be refused again.
func refusedError(err error) *loop.ModelError {
	refuse := func(detail string, sentinel error) *loop.ModelError {
		return &loop.ModelError{Cause: loop.CauseEndpointRefused, Detail: detail, Err: sentinel}
	}
	var refused *egress.RefusedError
	switch {
	case errors.As(err, &refused):
		return refuse(refused.Error(), refused)
	case errors.Is(err, errRedirectElsewhere):
		return refuse("the endpoint redirects to another host, scheme or port, which is not followed: set the final address as endpoint",
			errRedirectElsewhere)
	case errors.Is(err, errRedirectMethod):
		return refuse("the endpoint redirects in a way that drops the request (HTTP 301, 302 or 303): set the final address as endpoint",
			errRedirectMethod)
	case errors.Is(err, errRedirectLoop):
		return refuse("the endpoint redirects too often", errRedirectLoop)
	case errors.Is(err, ErrReplyTooLarge):
		return tooLarge()
	case errors.Is(err, ErrNoRoom):
		return noRoom()
	}
	return nil
}

func noRoom() *loop.ModelError {
	return &loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true, Err: ErrNoRoom,
		Detail: "the operator has no memory left for so large a reply just now"}
}

func tooLarge() *loop.ModelError {
	return &loop.ModelError{Cause: loop.CauseModelReplyInvalid, Err: ErrReplyTooLarge,
		Detail: "the reply is larger than the size that is allowed"}
}

// brokenError is for everything that the network does. It may be tried again, certificates and names included: both are
// mended without a change of the task.
func brokenError(err error) *loop.ModelError {
	broken := func(detail string, sentinel error) *loop.ModelError {
		return &loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true, Detail: detail, Err: sentinel}
	}
	var (
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		rec  tls.RecordHeaderError
		netE net.Error
	)
	switch {
	case errors.As(err, &dns):
		return broken("the endpoint's name could not be resolved", nil)
	case errors.As(err, &cert):
		return broken("the endpoint's certificate is not trusted: its authority may belong in caBundle", nil)
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &rec):
		return broken("the endpoint does not speak TLS: its address may have to begin with http://", nil)
	case errors.Is(err, syscall.ECONNREFUSED):
		return broken("the endpoint refused the connection", syscall.ECONNREFUSED)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netE) && netE.Timeout():
		return broken("the endpoint did not answer in time", os.ErrDeadlineExceeded)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return broken("the endpoint cannot be reached", syscall.EHOSTUNREACH)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return broken("the connection broke before the reply was complete", io.ErrUnexpectedEOF)
	default:
		return broken("the connection to the endpoint failed", nil)
	}
}
