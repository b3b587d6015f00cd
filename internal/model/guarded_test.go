package model_test

import (
	"context"
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

// insideGuard takes loopback for the cluster's network, and keeps what the author is not told.
func insideGuard(t *testing.T) (*egress.Guard, *[]string) {
	told := &[]string{}
	return &egress.Guard{
		DenyLoopback: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Resolver: modeltest.Resolver(t, map[string]netip.Addr{
			"inside.example.com": netip.MustParseAddr("127.0.0.1"),
		}),
		OnFailure: func(_ context.Context, f egress.Failure) { *told = append(*told, f.Host+" "+f.Reason) },
	}, told
}

// generate makes a call as the providers do, and gives its error.
func generate(t *testing.T, guard *egress.Guard, url string, timeout time.Duration) *loop.ModelError {
	t.Helper()
	cfg := model.Config{RequestTimeout: timeout}
	cfg.HTTP = newClient(t, cfg, guard)
	ctx, _, end := model.BeginCall(t.Context(), cfg, func(int) {})
	defer end()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("prompt"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := cfg.HTTP.Do(req)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		return nil
	}
	return model.ErrorFromTransport(ctx, err)
}

// One text for all that a port can do tells nobody which of them are open.
func TestAnAuthorIsNotToldHowAnAddressInsideFails(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	serve := func(h http.HandlerFunc, tls bool) string {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		if tls {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		return s.URL
	}
	aborts := serve(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false)
	cut := serve(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "9")
		_, _ = io.WriteString(w, "x")
	}, false)
	named := strings.Replace(closed.URL, "127.0.0.1", "inside.example.com", 1)
	for name, c := range map[string]struct {
		url     string
		timeout time.Duration
		// admin is what the operator's log says, author what it says of an endpoint that is not inside.
		admin, author string
	}{
		"closed":          {closed.URL, 0, "refused the connection", "refused the connection"},
		"closed, by name": {named, 0, "refused the connection", "refused the connection"},
		"breaks off":      {aborts, 0, "broke before", "broke before"},
		"no TLS":          {strings.Replace(aborts, "http:", "https:", 1), 0, "does not speak TLS", "does not speak TLS"},
		"not trusted":     {serve(echo, true), 0, "certificate is not trusted", "certificate is not trusted"},
		"no HTTP":         {greets(t, "SSH-2.0-canary\r\n"), 0, "connection to the endpoint failed", "connection to the endpoint failed"},
		"silence":         {greets(t, ""), 50 * time.Millisecond, "requestTimeout", "requestTimeout"},
		"no such Service": {"http://llm.models.svc", 0, "could not be resolved", ""},
	} {
		t.Run(name, func(t *testing.T) {
			guard, told := insideGuard(t)
			e := generate(t, guard, c.url, c.timeout)
			if e == nil || e.Cause != loop.CauseModelUnavailable || !e.Retry || e.Error() != "The endpoint "+egress.Unreachable+"." {
				t.Errorf("the author is told %v", e)
			}
			host := strings.TrimPrefix(strings.TrimPrefix(c.url, "http://"), "https://")
			if len(*told) != 1 || !strings.HasPrefix((*told)[0], host+" ") || !strings.Contains((*told)[0], c.admin) || strings.Contains((*told)[0], "canary") {
				t.Errorf("the log says %q, want %q of %s", *told, c.admin, host)
			}
			guard, told = insideGuard(t)
			guard.DenyLoopback = false
			if e := generate(t, guard, c.url, c.timeout); c.author != "" && (e == nil || !strings.Contains(e.Error(), c.author) || len(*told) != 0) {
				t.Errorf("elsewhere the author is told %v, and the log %q", e, *told)
			}
		})
	}
	t.Run("an answer tells", func(t *testing.T) {
		guard, told := insideGuard(t)
		if e := generate(t, guard, cut, 0); e == nil || !strings.Contains(e.Error(), "broke before the reply was complete") || len(*told) != 0 {
			t.Errorf("got %v, and %q in the log", e, *told)
		}
	})
	t.Run("a refusal has its reason", func(t *testing.T) {
		guard, told := insideGuard(t)
		guard.DenyPrivate = true
		if e := generate(t, guard, "http://10.0.0.7", 0); e == nil || e.Cause != loop.CauseEndpointRefused || !strings.Contains(e.Error(), "private address") || len(*told) != 0 {
			t.Errorf("got %v, and %q in the log", e, *told)
		}
	})
}

// greets starts a server that says something before it was asked, and then nothing.
func greets(t *testing.T, text string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, text)
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return "http://" + listener.Addr().String()
}

func TestCredentialsInTheClearStayWithinOwnNetworks(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	away := httptest.NewServer(http.RedirectHandler("http://outside.example.com/", http.StatusTemporaryRedirect))
	t.Cleanup(away.Close)
	guard := &egress.Guard{Resolver: modeltest.Resolver(t, map[string]netip.Addr{
		"outside.example.com": netip.MustParseAddr("93.184.215.14"), "external.models.svc": netip.MustParseAddr("93.184.215.14"),
		"inside.example.com": netip.MustParseAddr("127.0.0.1"),
	})}
	client := newClient(t, model.Config{PrivateOnly: true}, guard)
	for _, url := range []string{server.URL, strings.Replace(server.URL, "127.0.0.1", "inside.example.com", 1)} {
		if got, err := post(t, client, url); err != nil || got != "HTTP/1.1 POST prompt" {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
	for url, want := range map[string]string{
		"http://93.184.215.14": "write https://", "http://1572394766": "write https://", "http://outside.example.com": "write https://",
		"http://external.models.svc": "write https://", away.URL: "redirects to another host",
	} {
		_, err := post(t, client, url)
		if e := model.ErrorFromTransport(t.Context(), err); err == nil || e.Cause != loop.CauseEndpointRefused || e.Retry || !strings.Contains(e.Detail, want) {
			t.Errorf("%s: got %+v, %v", url, e, err)
		}
	}
}

// A proxy dials for us, so what it would resolve is known by its name alone.
func TestCredentialsInTheClearPassAProxyOnTheirWayToAService(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) }))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "")
	for host, allowed := range map[string]bool{
		"llm.models.svc": true, "llm": true, "10.0.0.7": true, "api.example.com": false, "93.184.215.14": false, "api。example。com": false,
	} {
		got, err := post(t, newClient(t, model.Config{PrivateOnly: true}, nil), "http://"+host+"/v1")
		if (err == nil) != allowed || allowed && got != host {
			t.Errorf("%s: the proxy was asked for %q, %v", host, got, err)
		}
	}
	if got, err := post(t, newClient(t, model.Config{}, nil), "http://api.example.com/v1"); err != nil || got != "api.example.com" {
		t.Errorf("without credentials: %q, %v", got, err)
	}
}
