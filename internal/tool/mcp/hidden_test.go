package mcp

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
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// One text for all that a port can do tells nobody which of them are open.
func TestAnAuthorIsNotToldHowAServerInsideFails(t *testing.T) {
	refused := httptest.NewServer(http.NotFoundHandler())
	refused.Close()
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(tls.Close)
	breaks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(breaks.Close)
	found := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(found.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	const hidden = "the server " + egress.Unreachable
	for name, c := range map[string]struct{ url, author, outside string }{
		"refused":    {refused.URL, hidden, "the connection was refused"},
		"no TLS":     {strings.Replace(breaks.URL, "http:", "https:", 1), hidden, "the server does not speak TLS"},
		"untrusted":  {tls.URL, hidden, "the server's certificate is not trusted"},
		"breaks off": {breaks.URL, hidden, "the connection failed, or the answer was not MCP"},
		"silent":     {"http://" + silent.Addr().String(), hidden, "no answer within 100ms"},
		"an answer":  {found.URL, "there is no MCP server at this URL (HTTP 404)", "there is no MCP server at this URL (HTTP 404)"},
		"forbidden":  {"http://10.0.0.7", "the endpoint is a private address, which this installation refuses", "the endpoint is a private address, which this installation refuses"},
	} {
		for _, transport := range []Transport{StreamableHTTP, SSE} {
			for inside, want := range map[bool]string{true: c.author, false: c.outside} {
				told := make(chan string, 99)
				client, err := model.NewHTTPClient(model.Config{}, &egress.Guard{
					DenyLoopback: inside, DenyPrivate: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
					OnFailure: func(_ context.Context, f egress.Failure) { told <- f.Reason },
				})
				if err != nil {
					t.Fatal(err)
				}
				cfg := Config{Name: "ts", URL: c.url, Transport: transport, HTTP: client, ConnectTimeout: 100 * time.Millisecond}
				if name != "silent" {
					cfg.ConnectTimeout = 0
				}
				_, err = newPool(t).Tools(t.Context(), "k", cfg)
				if err == nil || err.Error() != `toolset "ts" is not available: `+want {
					t.Errorf("%s, %s, inside %v: got %v", name, transport, inside, err)
				}
				if inside && want == hidden {
					<-told // the log has it
				}
			}
		}
	}
}
