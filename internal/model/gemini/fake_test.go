package gemini

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// chunks answers with a stream.
func chunks(cs ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, c := range cs {
			_, _ = io.WriteString(w, "data: "+c+"\r\n\r\n")
		}
		_ = http.NewResponseController(w).Flush()
	}
}

// apiError is an error as the API words it, with google.rpc details.
func apiError(code int, kind, message string, details ...string) string {
	text, _ := json.Marshal(message)
	return fmt.Sprintf(`{"error":{"code":%d,"message":%s,"status":%q,"details":[%s]}}`, code, text, kind, strings.Join(details, ","))
}

func mustNew(t *testing.T, cfg model.Config) loop.Model {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return m
}

var hello = []string{chunk(`{"text":"Hel"}`), chunk(`{"text":"lo"}`), last(`{"text":""}`, "STOP")}
