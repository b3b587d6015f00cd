package gemini

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// keyHeader carries the API key.
const keyHeader = "X-Goog-Api-Key"

// exchange is what one call learns of its HTTP exchange: the SDK's errors carry no headers, and it logs the errors of
// reading to standard error.
type exchange struct {
	status int // 0 until headers arrived
	header http.Header
	// readErr is why the body broke off, nil where it ended as it should.
	readErr error
}

type exchangeKey struct{}

func withExchange(ctx context.Context) (context.Context, *exchange) {
	ex := &exchange{}
	return context.WithValue(ctx, exchangeKey{}, ex), ex
}

// transport adds what the SDK has no setting for.
type transport struct {
	next http.RoundTripper
	// host is the endpoint's. Nothing is added for any other, so nothing follows a redirect.
	host  string
	query map[string]string
	// header replaces the key, for an endpoint that needs none or takes it in another header; nil keeps it. The SDK
	// insists on a key.
	header map[string]string
}

// RoundTrip sends one request.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context()) // A RoundTripper must not change its argument.
	if t.header != nil {
		req.Header.Del(keyHeader)
	}
	if req.URL.Host == t.host {
		if v := t.header[keyHeader]; v != "" {
			req.Header.Set(keyHeader, v)
		}
		q := req.URL.Query()
		for k, v := range t.query {
			q.Set(k, v)
		}
		req.URL.RawQuery = q.Encode()
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if ex, ok := req.Context().Value(exchangeKey{}).(*exchange); ok {
		ex.status, ex.header = resp.StatusCode, resp.Header
		resp.Body = &body{ReadCloser: resp.Body, ex: ex}
	}
	return resp, nil
}

// body notes why reading failed, and lets the SDK see an ordinary end.
type body struct {
	io.ReadCloser
	ex *exchange
}

// Read reads from the response.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.ex.readErr = err
		err = io.EOF
	}
	return n, err
}
