package model

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/agentloop-dev/agenttask-operator/internal/egress"
)

// maxRedirects bounds how often one request is sent on.
const maxRedirects = 5

// Why a request was not sent on. Both end the call: an endpoint that redirects elsewhere is to be written as it is.
var (
	errRedirectElsewhere = errors.New("redirect to another host")
	errRedirectMethod    = errors.New("redirect that drops the request")
	errRedirectLoop      = errors.New("too many redirects")
)

// NewHTTPClient builds the client that all providers and tasks of one AgentModel or AgentToolset share, so that its
// connections are reused. It dials through the guard (nil is the zero Guard), trusts cfg.CABundle beside the system's
// roots, takes the proxy from the environment, caps replies at cfg.MaxReplyBytes and never leaves the endpoint's own
// scheme, host and port. It sets no timeout for the whole call: BeginCall does.
func NewHTTPClient(cfg Config, guard *egress.Guard) (*http.Client, error) {
	t := &guardedTransport{maxBytes: cfg.maxReplyBytes()}
	if guard != nil {
		t.guard = *guard
	}
	t.guard.PrivateOnly, t.guard.OnDial = cfg.PrivateOnly, t.noteDial
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(cfg.CABundle) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool() // a system without roots: the bundle alone
		}
		if !roots.AppendCertsFromPEM(cfg.CABundle) {
			return nil, errors.New("the CA bundle holds no PEM certificate")
		}
		tlsConfig.RootCAs = roots
	}
	proxies := httpproxy.FromEnvironment()
	t.proxy = proxies.ProxyFunc()
	t.next = &http.Transport{
		Proxy:                 func(r *http.Request) (*url.URL, error) { return t.proxy(r.URL) },
		DialContext:           dialer(&t.guard, proxies),
		TLSClientConfig:       tlsConfig,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   128,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   15 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
	return &http.Client{Transport: t, CheckRedirect: checkRedirect}, nil
}

// dialer guards every dial but those to the proxies of the environment: whoever installed the operator chose them, often
// on loopback. What is asked of the proxy is checked by guardedTransport.
func dialer(guard *egress.Guard, proxies *httpproxy.Config) func(context.Context, string, string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	trusted := map[string]bool{}
	for _, raw := range []string{proxies.HTTPProxy, proxies.HTTPSProxy} {
		if addr := proxyAddress(raw); addr != "" {
			trusted[addr] = true
		}
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if trusted[address] {
			return plain.DialContext(ctx, network, address)
		}
		return guard.DialContext(ctx, network, address)
	}
}

// proxyAddress is the host:port that the transport dials for a proxy written as in the environment, "" for none.
func proxyAddress(raw string) string {
	if raw == "" {
		return ""
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		if u, err = url.Parse("http://" + raw); err != nil || u.Hostname() == "" {
			return ""
		}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// checkRedirect follows a redirect only within the same scheme, host and port, and only as the same request. So neither
// the provider's key nor any header of the user's reaches another host.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case origin(req.URL) != origin(first.URL):
		return errRedirectElsewhere
	case req.Method != first.Method:
		// 301, 302 and 303 turn a POST into a GET without body.
		return errRedirectMethod
	case len(via) > maxRedirects:
		return errRedirectLoop
	}
	return nil
}

// origin is scheme, host and port in one comparable form.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return fmt.Sprintf("%s://%s:%s", u.Scheme, u.Hostname(), port)
}
