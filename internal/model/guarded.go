package model

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"

	"github.com/agentloop-dev/agenttask-operator/internal/egress"
)

// guardedTransport checks what the dialer cannot see (the target behind a proxy), caps replies and mends what servers make of
// their bodies. It is of one AgentModel or AgentToolset, and so of one endpoint.
type guardedTransport struct {
	next     *http.Transport
	guard    egress.Guard
	proxy    func(*url.URL) (*url.URL, error)
	maxBytes int64
	// inside: the endpoint is, or once was, at an address within the own networks.
	inside atomic.Bool
}

// RoundTrip sends one request.
func (t *guardedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.check(req.URL); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		t.tell(req, err)
		return nil, err
	}
	call := callOf(req.Context())
	if call != nil {
		call.answered.Store(true)
	}
	capped := &cappedBody{body: withoutMark(resp.Body), left: t.maxBytes}
	resp.Body = capped
	switch {
	case !isEventStream(resp.Header):
		capped.call = call
	case call != nil:
		resp.Body = &eventBody{ReadCloser: capped}
		fallthrough
	default:
		capped.left *= streamOverhead
	}
	return resp, nil
}

func (t *guardedTransport) check(to *url.URL) error {
	host := to.Hostname()
	if t.guard.InsideHost(host) {
		t.inside.Store(true)
	}
	if err := t.guard.CheckHost(host); err != nil {
		return err
	}
	if via, err := t.proxy(to); err != nil || via == nil {
		return nil //nolint:nilerr // the transport asks again, and fails
	}
	return t.guard.CheckProxied(host)
}

func (t *guardedTransport) noteDial(addr netip.Addr) {
	if t.guard.Inside(addr) {
		t.inside.Store(true)
	}
}

// Inside tells whether the endpoint was seen to be within the own networks. Its author is then told egress.Unreachable of a connection that
// fails.
func (t *guardedTransport) Inside() bool { return t.inside.Load() }

// tell gives the guard the reason that an author is not told.
func (t *guardedTransport) tell(req *http.Request, err error) {
	if !t.Inside() || errors.Is(err, egress.ErrRefused) {
		return
	}
	reason := brokenError(err).Detail
	switch {
	case errors.Is(err, context.Canceled):
		reason = "the call was ended before there was an answer"
	case errors.Is(err, ErrRequestTimeout):
		reason = "there was no answer within the model's requestTimeout"
	}
	t.guard.Failed(req.Context(), egress.Failure{Host: req.URL.Host, Reason: reason})
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (t *guardedTransport) CloseIdleConnections() { t.next.CloseIdleConnections() }
