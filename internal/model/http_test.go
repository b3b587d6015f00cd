package model_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func newClient(t *testing.T, cfg model.Config, guard *egress.Guard) *http.Client {
	t.Helper()
	c, err := model.NewHTTPClient(cfg, guard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// post sends a request as the providers do and reads the answer to its end.
func post(t *testing.T, c *http.Client, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("prompt"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer key")
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = w.Write([]byte(r.Proto + " " + r.Method + " " + string(body)))
}

func TestAFailureTellsWhetherItsRequestWasSent(t *testing.T) {
	came := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		close(came)
		<-r.Context().Done()
	}))
	t.Cleanup(hangs.Close)
	breaks := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(breaks.Close)
	for name, tc := range map[string]struct {
		url  string
		cut  bool
		sent bool
	}{
		"no answer until it was cut": {hangs.URL, true, true},
		"a connection that broke":    {breaks.URL, false, true},
		"no connection":              {"http://127.0.0.1:1", false, false},
	} {
		ctx, cut := context.WithCancel(t.Context())
		defer cut()
		ctx, _, end := model.BeginCall(ctx, model.Config{}, func(int) {})
		defer end()
		if tc.cut {
			go func() {
				<-came
				cut()
			}()
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, tc.url, strings.NewReader("prompt"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := newClient(t, model.Config{}, nil).Do(req)
		if err == nil {
			resp.Body.Close()
			t.Fatalf("%s: an answer", name)
		}
		if e := model.ErrorFromTransport(ctx, err); e.Sent != tc.sent {
			t.Errorf("%s: sent %v", name, e.Sent)
		}
	}
}

func TestTheBundlesAuthorityIsTrustedOverHTTP2(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})

	got, err := post(t, newClient(t, model.Config{CABundle: bundle}, nil), s.URL)
	if err != nil || got != "HTTP/2.0 POST prompt" {
		t.Errorf("got %q, %v", got, err)
	}
	_, err = post(t, newClient(t, model.Config{}, nil), s.URL)
	if e := model.ErrorFromTransport(t.Context(), err); e.Cause != loop.CauseModelUnavailable || !strings.Contains(e.Detail, "caBundle") {
		t.Errorf("got %+v", e)
	}
}

func TestABundleWithoutCertificateIsRefused(t *testing.T) {
	if _, err := model.NewHTTPClient(model.Config{CABundle: []byte("nonsense")}, nil); err == nil {
		t.Error("taken")
	}
}

func TestRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other host was asked") }))
	t.Cleanup(other.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("/end", echo)
	for path, to := range map[string]struct {
		status int
		url    string
	}{
		"/same": {307, "/end"}, "/moved": {301, "/end"}, "/other": {307, other.URL}, "/loop": {308, "/loop"},
		"/upgrade": {307, "https://127.0.0.1/end"}, "/metadata": {307, "http://169.254.169.254/latest"},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to.url, to.status) })
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	client := newClient(t, model.Config{}, nil)

	if got, err := post(t, client, s.URL+"/same"); err != nil || got != "HTTP/1.1 POST prompt" {
		t.Errorf("within the host: %q, %v", got, err)
	}
	for path, want := range map[string]string{
		"/moved": "drops the request", "/other": "another host", "/loop": "too often", "/upgrade": "another host", "/metadata": "another host",
	} {
		_, err := post(t, client, s.URL+path)
		e := model.ErrorFromTransport(t.Context(), err)
		if err == nil || e.Cause != loop.CauseEndpointRefused || e.Retry || !strings.Contains(e.Detail, want) {
			t.Errorf("%s: got %+v, want it to name %q", path, e, want)
		}
	}
}

func TestRepliesAreCappedByWhatTheyAre(t *testing.T) {
	mux := http.NewServeMux()
	send := func(contentType string, n int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(make([]byte, n))
		}
	}
	mux.HandleFunc("/fits", send("application/json", 1000))
	mux.HandleFunc("/large", send("application/json", 1001))
	mux.HandleFunc("/stream", send("text/event-stream; charset=utf-8", 32_000))
	mux.HandleFunc("/stream-large", send("text/event-stream", 32_001))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	client := newClient(t, model.Config{MaxReplyBytes: 1000}, nil)
	for path, want := range map[string]struct {
		bytes    int
		tooLarge bool
	}{"/fits": {1000, false}, "/large": {1000, true}, "/stream": {32_000, false}, "/stream-large": {32_000, true}} {
		got, err := post(t, client, s.URL+path)
		if errors.Is(err, model.ErrReplyTooLarge) != want.tooLarge || len(got) != want.bytes {
			t.Errorf("%s: got %d bytes, %v, want %+v", path, len(got), err, want)
		}
	}
}

func TestAProxyFromTheEnvironmentIsUsedAndItsTargetChecked(t *testing.T) {
	asked := make(chan string, 9)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host
		_, _ = io.WriteString(w, "through the proxy")
	}))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "")
	// The proxy itself is on loopback, which its installation allows by naming it.
	client := newClient(t, model.Config{}, &egress.Guard{DenyLoopback: true})

	if got, err := post(t, client, "http://llm.example.com/v1"); err != nil || got != "through the proxy" || <-asked != "llm.example.com" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, target := range []string{"http://169.254.169.254/", "http://metadata.google.internal/", "http://0xa9fea9fe/", "http://localhost/", "http://169。254。169。254/", proxy.URL} {
		_, err := post(t, client, target)
		if e := model.ErrorFromTransport(t.Context(), err); err == nil || e.Cause != loop.CauseEndpointRefused {
			t.Errorf("%s: got %+v", target, e)
		}
	}
	if len(asked) != 0 {
		t.Errorf("the proxy was asked for %s", <-asked)
	}
}

func TestTransportErrorsHaveADisposition(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	aborts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(aborts.Close)
	guard := &egress.Guard{Resolver: modeltest.Resolver(t, map[string]netip.Addr{"meta.example.com": netip.MustParseAddr("169.254.169.254")})}
	cases := map[string]struct {
		url    string
		cause  loop.Cause
		retry  bool
		detail string
	}{
		"refused":      {closed.URL, loop.CauseModelUnavailable, true, "refused the connection"},
		"broken":       {aborts.URL, loop.CauseModelUnavailable, true, "broke"},
		"no TLS":       {strings.Replace(aborts.URL, "http:", "https:", 1), loop.CauseModelUnavailable, true, "TLS"},
		"unknown name": {"http://nowhere.example.com", loop.CauseModelUnavailable, true, "resolved"},
		"metadata":     {"http://meta.example.com", loop.CauseEndpointRefused, false, "metadata"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := post(t, newClient(t, model.Config{}, guard), c.url)
			e := model.ErrorFromTransport(t.Context(), err)
			if err == nil || e.Cause != c.cause || e.Retry != c.retry || !strings.Contains(e.Detail, c.detail) {
				t.Errorf("got %+v (from %v)", e, err)
			}
		})
	}
}

func TestTheEndOfACallSaysWhy(t *testing.T) {
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(loop.ErrShuttingDown)
		ctx, _, end := model.BeginCall(ctx, model.Config{}, func(int) {})
		defer end()
		if e := model.ErrorFromTransport(ctx, ctx.Err()); !errors.Is(e, loop.ErrShuttingDown) || e.Cause != loop.CauseModelUnavailable || !e.Retry {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		ctx, _, end := model.BeginCall(t.Context(), model.Config{RequestTimeout: time.Nanosecond}, func(int) {})
		defer end()
		<-ctx.Done()
		if e := model.ErrorFromTransport(ctx, ctx.Err()); !errors.Is(e, model.ErrRequestTimeout) || e.Cause != loop.CauseModelUnavailable || !e.Retry {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("too large", func(t *testing.T) {
		passedOn := 0
		ctx, count, end := model.BeginCall(t.Context(), model.Config{MaxReplyBytes: 10}, func(n int) { passedOn += n })
		defer end()
		count(10)
		if ctx.Err() != nil {
			t.Fatal("cut at the cap, not above it")
		}
		count(1)
		if e := model.ErrorFromTransport(ctx, ctx.Err()); !errors.Is(e, model.ErrReplyTooLarge) || e.Cause != loop.CauseModelReplyInvalid || e.Retry || passedOn != 11 {
			t.Errorf("got %+v, %d bytes passed on", e, passedOn)
		}
	})
	t.Run("a ModelError stays itself", func(t *testing.T) {
		own := &loop.ModelError{Cause: loop.CauseModelRefused}
		if got := model.ErrorFromTransport(t.Context(), own); got != own {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a network timeout", func(t *testing.T) {
		err := &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
		if e := model.ErrorFromTransport(t.Context(), err); e.Cause != loop.CauseModelUnavailable || !e.Retry || !strings.Contains(e.Detail, "in time") {
			t.Errorf("got %+v", e)
		}
	})
}
