package anthropic

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// events answers with a stream of events, named as in the wire format.
func events(evs ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("Request-Id", "req_1")
		writeEvents(w, evs...)
	}
}

func writeEvents(w http.ResponseWriter, evs ...string) {
	for _, e := range evs {
		_, _ = io.WriteString(w, onWire(e))
	}
	_ = http.NewResponseController(w).Flush()
}

// onWire is an event with its name.
func onWire(e string) string {
	var typed struct{ Type string }
	_ = json.Unmarshal([]byte(e), &typed)
	return "event: " + typed.Type + "\ndata: " + e + "\n\n"
}

func apiError(kind, message string) string {
	raw, _ := json.Marshal(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}})
	return string(raw)
}

func mustNew(t *testing.T, cfg model.Config) loop.Model {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return m
}

var hello = []string{
	evStart, evBlock("0", `{"type":"text","text":""}`), evPiece("0", `{"type":"text_delta","text":"Hello"}`), evEnd("0"),
	evDelta("end_turn", "9"), evStop,
}
