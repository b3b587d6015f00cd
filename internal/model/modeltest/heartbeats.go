package modeltest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// heartbeats are what servers send to keep a connection, with the line end LF.
var heartbeats = map[string]string{
	"empty data":               "data:\n\n",
	"empty data after a space": "data: \n\n",
	"several":                  "data:\n\ndata: \n\n\n\ndata:\n\n",
	"empty lines of data":      "data:\ndata:\n\n",
	"null":                     "data: null\n\n",
	"a comment":                ": ping\n\n",
	"a comment alone":          ": ping\n",
	"a ping":                   "event: ping\ndata: {\"type\":\"ping\"}\n\n",
	"a ping that is no JSON":   "event: ping\ndata: 2026-12-01\n\n",
	"a ping without data":      "event: ping\n\n",
	"a heartbeat":              "event: heartbeat\ndata: \n\n",
	"a time to wait":           "retry: 3000\n\n",
	"an id":                    "id: 7\ndata:\n\n",
}

// Heartbeats checks that a model reads "Hello" from a stream with heartbeats before, between and after its events. events are those
// of the stream, as they are on the wire with the line end LF.
func Heartbeats(t *testing.T, events []string, open func(model.Config) (loop.Model, error)) {
	for name, beat := range heartbeats {
		for how, form := range map[string]func(string) string{
			"LF":                func(s string) string { return s },
			"CRLF":              func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
			"a byte order mark": func(s string) string { return "\xef\xbb\xbf" + s },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				body := beat
				for _, e := range events {
					body += e + beat
				}
				s := Serve(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, form(body))
				})
				cfg := s.Config("m")
				var err error
				if cfg.HTTP, err = model.NewHTTPClient(cfg, nil); err != nil {
					t.Fatal(err)
				}
				m, err := open(cfg)
				if err != nil {
					t.Fatal(err)
				}
				reply, n, err := Generate(t, m)
				if err != nil || len(reply.Texts()) != 1 || reply.Texts()[0] != "Hello" || n != len("Hello") || reply.Finish != loop.FinishStop || !reply.Usage.Reported() {
					t.Errorf("got %+v and %d bytes, %v", reply, n, err)
				}
				if s.Count() != 1 {
					t.Errorf("%d requests", s.Count())
				}
			})
		}
	}
}
