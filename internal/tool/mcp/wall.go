package mcp

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxErrorBytes is how much is read of the body of a failed request.
	maxErrorBytes = 64 << 10
	// maxRedirects within one origin.
	maxRedirects = 3
	// sendAttempts is how often a request that changes nothing is sent before its connection counts as broken.
	sendAttempts = 3

	// finishTime is how long the rest of a stream may take whose answer has arrived.
	finishTime = time.Second

	// maxAnswers is how many answers to the server's own requests are under way at once; the rest is dropped.
	maxAnswers = 8
	// defaultTellTime is how long the server may take to accept what it need not answer.
	defaultTellTime = 10 * time.Second

	headerSession     = "Mcp-Session-Id"
	headerMethod      = "Mcp-Method"
	headerLastEventID = "Last-Event-Id"
	methodListen      = "subscriptions/listen"
	methodList        = "tools/list"
	methodCall        = "tools/call"
	jsonType          = "application/json"
	eventType         = "text/event-stream"
)

var (
	errOtherOrigin  = errors.New("the server points to another origin")
	errRedirect     = errors.New("the server redirects elsewhere")
	errBodyTooLarge = errors.New("the response is too large")
	errPanic        = errors.New("the HTTP transport panicked")
	errClosed       = errors.New("the session is closed")
)

// wall stands between the SDK and the network, for one session.
//
// It adds the toolset's headers, keeps them to the toolset's origin, bounds what is read, and notes in each call's
// exchange how far it got. And it contains faults: the SDK ends the whole session, with every call in flight on it, when one
// response has an unexpected status, type or form, or when a listening stream ends too often. The wall gives it a proper
// error response to that one call instead.
type wall struct {
	base      http.RoundTripper
	origin    string
	headers   http.Header
	transport Transport
	// ctx ends with the session, and every request with it.
	ctx context.Context
	// at is where the server took the last call: elsewhere than at the toolset's URL when it redirects.
	at atomic.Pointer[url.URL]
	// large are the places for large answers; pending has the exchanges of the old transport's calls, by request id.
	large *places
	// namespace is the toolset's.
	namespace string
	pending   sync.Map
	// answers bounds the answers to the server's requests, and hushed ends them. tellTime bounds each.
	answers  chan struct{}
	hushed   context.Context
	hush     context.CancelFunc
	tellTime time.Duration
	// established: the handshake is over. Before it, a fault may end the session: nothing is in flight.
	established atomic.Bool
	// deaf: the session takes no more calls, so its listening stream is not opened again.
	deaf atomic.Bool
	// onGone is called when the server has forgotten the session; onGap when notifications may have been missed.
	onGone, onGap func()
	// listenDelay is the first pause before a broken listening stream is opened again.
	listenDelay time.Duration
}

func newWall(ctx context.Context, cfg Config) (*wall, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, errors.New("the URL is not valid")
	}
	base := cfg.HTTP.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	w := &wall{
		base: base, origin: origin(u), headers: headersOf(cfg.Headers), namespace: cfg.Namespace, transport: cfg.Transport, ctx: ctx,
		answers: make(chan struct{}, maxAnswers),
		onGone:  func() {}, onGap: func() {},
	}
	w.hushed, w.hush = context.WithCancel(ctx)
	return w, nil
}

// headersOf drops the headers that are the protocol's own, and those by which net/http would take a POST for repeatable.
func headersOf(in map[string]string) http.Header {
	out := http.Header{}
	for _, k := range slices.Sorted(maps.Keys(in)) {
		name := http.CanonicalHeaderKey(k)
		switch name {
		case "Idempotency-Key", "X-Idempotency-Key", headerLastEventID, "Content-Type", "Content-Length", "Accept":
			continue
		}
		if !strings.HasPrefix(name, "Mcp-") {
			out.Set(name, in[k])
		}
	}
	return out
}

// client is the HTTP client for the SDK.
func (w *wall) client() *http.Client {
	// Balancers keep a session on one replica by a cookie.
	jar, _ := cookiejar.New(nil) // without options it cannot fail
	return &http.Client{Transport: w, Jar: jar, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		// A 307 or 308 says that the request was not looked at and belongs to another path; that is followed within the
		// origin. Anything else would lose the body or take the headers elsewhere.
		if len(via) > maxRedirects || origin(req.URL) != w.origin || req.Method != via[0].Method {
			exchangeOf(req.Context()).set(func(ex *exchange) { ex.err = errRedirect })
			return errRedirect
		}
		return nil
	}}
}

func origin(u *url.URL) string { return strings.ToLower(u.Scheme + "://" + u.Host) }

// RoundTrip implements http.RoundTripper.
func (w *wall) RoundTrip(req *http.Request) (*http.Response, error) {
	if origin(req.URL) != w.origin {
		exchangeOf(req.Context()).set(func(ex *exchange) { ex.err = errOtherOrigin })
		return nil, errOtherOrigin
	}
	if w.transport == SSE {
		return w.old(req)
	}
	switch {
	case req.Method == http.MethodPost && req.Header.Get(headerMethod) == methodListen,
		req.Method == http.MethodGet && req.Header.Get(headerLastEventID) == "":
		return w.listen(req), nil
	case req.Method == http.MethodGet:
		return w.resume(req)
	case req.Method == http.MethodPost:
		return w.post(req)
	default:
		return w.send(req, nil, maxErrorBytes)
	}
}

func (w *wall) post(req *http.Request) (*http.Response, error) {
	rpc := requestOf(req)
	if rpc == nil || !rpc.IsCall() {
		return w.tell(req, rpc == nil)
	}
	ex := exchangeOf(req.Context())
	if ex == nil {
		ex = &exchange{over: true}
	}
	ex.set(func(ex *exchange) {
		ex.id, ex.method, ex.params, ex.status, ex.err = rpc.ID, rpc.Method, rpc.Params, 0, nil
	})
	attempts := 1
	if rpc.Method != methodCall {
		attempts = sendAttempts
	}
	if rpc.Method == methodList {
		ex.set(func(ex *exchange) { ex.most = maxPageBytes })
	}
	resp, err := w.sendUpTo(attempts, req, ex)
	if err != nil {
		return nil, err
	}
	if !redirects(resp) {
		w.at.Store(req.URL)
	}
	if !w.established.Load() {
		if failed(resp.StatusCode) {
			ex.set(func(ex *exchange) { ex.status = resp.StatusCode })
		}
		bodyOf(resp).perEvent = false // one answer is all that comes
		return resp, nil
	}
	return w.contain(req, resp, ex), nil
}

// tell sends a notification, or an answer to a request of the server. Nobody waits for what comes back, so nothing that does
// is a fault.
func (w *wall) tell(req *http.Request, answer bool) (*http.Response, error) {
	accepted := respond(req, http.StatusAccepted, "", nil)
	ctx, cancel := context.WithTimeout(req.Context(), w.tellTime)
	defer cancel()
	switch {
	case answer:
		// The SDK answers each request at once, however many the server sends, and whether or not it takes the answers.
		select {
		case w.answers <- struct{}{}:
			defer func() { <-w.answers }()
		default:
			return accepted, nil
		}
		defer context.AfterFunc(w.hushed, cancel)()
	case !w.established.Load():
		return w.sendUpTo(sendAttempts, req, nil)
	}
	resp, err := w.send(w.redirected(req.WithContext(ctx)), nil, maxErrorBytes)
	switch {
	case err == nil:
		w.noteGone(req, resp, nil)
		_ = resp.Body.Close()
	case !answer:
		return nil, err
	}
	return accepted, nil
}

// redirected is the request for where the server takes calls. http.Client follows redirects for what is sent from above the
// wall only.
func (w *wall) redirected(req *http.Request) *http.Request {
	out := req.Clone(req.Context())
	if at := w.at.Load(); at != nil {
		out.URL = at
	}
	return out
}

func redirects(resp *http.Response) bool {
	return resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.Header.Get("Location") != ""
}

// sendUpTo sends a request, and again as long as its connection breaks. Only requests that change nothing get more than one
// attempt.
func (w *wall) sendUpTo(attempts int, req *http.Request, ex *exchange) (*http.Response, error) {
	for i := 1; ; i++ {
		resp, err := w.send(req, ex, maxBodyBytes)
		// A refusal that has a name stays the same however often it is asked for.
		if err == nil || i >= attempts || transportReason(err) != "" || req.Context().Err() != nil || req.GetBody == nil {
			return resp, err
		}
		body, bodyErr := req.GetBody()
		if bodyErr != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = body
	}
}

// send does one real request: with the toolset's headers, until the request's context or the session ends, and with a body
// that ends with an error after limit bytes. A body of events has no limit here: each event has its own.
func (w *wall) send(req *http.Request, ex *exchange, limit int) (*http.Response, error) {
	if w.ctx.Err() != nil {
		return nil, errClosed
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
	detach := context.AfterFunc(req.Context(), cancel)
	stop := context.AfterFunc(w.ctx, cancel)
	done := func() { detach(); stop(); cancel() }
	out := ex.traced(req.Clone(ctx))
	for k, v := range w.headers {
		if out.Header.Get(k) == "" {
			out.Header[k] = v
		}
	}
	ex.set(func(ex *exchange) { ex.handed = true })
	resp, err := roundTrip(w.base, out)
	if err != nil {
		done()
		ex.set(func(ex *exchange) { ex.err = err })
		return nil, err
	}
	ex.set(func(ex *exchange) { ex.responded = true })
	grow := func(ex *exchange, size int) error {
		switch {
		case size > limit, size > ex.largest():
			return errBodyTooLarge
		case size > maxSmallBytes:
			return w.large.claim(ctx, w.namespace, ex, cancel)
		}
		return nil
	}
	resp.Body = &boundedBody{
		ReadCloser: resp.Body, grow: grow, ex: ex, perEvent: mediaType(resp) == eventType, done: done,
		finish: func() { detach(); time.AfterFunc(finishTime, cancel) },
	}
	return resp, nil
}

// roundTrip turns a panic of the transport into an error: within the SDK it would leave a call that never ends.
func roundTrip(base http.RoundTripper, req *http.Request) (resp *http.Response, err error) {
	defer func() {
		if recover() != nil {
			resp, err = nil, errPanic
		}
	}()
	return base.RoundTrip(req)
}
