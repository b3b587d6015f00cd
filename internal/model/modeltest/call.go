package modeltest

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// Request is a small turn.
func Request() *loop.Request {
	return &loop.Request{Purpose: loop.PurposeTurn, System: "sys", Messages: []loop.Message{loop.UserText(CanaryPrompt)}}
}

// Generate sends Request and counts the bytes that were reported.
func Generate(t testing.TB, m loop.Model) (*loop.Reply, int, error) {
	t.Helper()
	return send(t, m, Request())
}

// Ask sends a turn that offers the tool weather, and counts the bytes that were reported.
func Ask(t testing.TB, m loop.Model, msgs ...loop.Message) (*loop.Reply, int, error) {
	t.Helper()
	return send(t, m, &loop.Request{Purpose: loop.PurposeTurn, System: "sys", Messages: msgs,
		Tools: []loop.ToolDefinition{{Name: "weather", InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`)}},
	})
}

func send(t testing.TB, m loop.Model, req *loop.Request) (reply *loop.Reply, n int, err error) {
	t.Helper()
	reply, err = m.Generate(t.Context(), req, func(k int) { n += k })
	return reply, n, err
}

// WantModelError checks the type, and that nothing secret is in any text of the error or of what it wraps.
func WantModelError(t testing.TB, err error) *loop.ModelError {
	t.Helper()
	var e *loop.ModelError
	if !errors.As(err, &e) {
		t.Fatalf("got %T (%v), want a ModelError", err, err)
	}
	for text := error(e); text != nil; {
		for _, canary := range []string{CanaryKey, CanaryPrompt, CanaryQuery, CanaryBody} {
			if strings.Contains(text.Error(), canary) {
				t.Errorf("%q holds %q", text.Error(), canary)
			}
		}
		u, ok := text.(interface{ Unwrap() error })
		if !ok {
			break
		}
		text = u.Unwrap()
	}
	return e
}

// WantJSON compares what a value looks like as JSON.
func WantJSON(t testing.TB, got any, want string) {
	t.Helper()
	raw, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	if w := decoded(t, want); !reflect.DeepEqual(decoded(t, string(raw)), w) {
		pretty, _ := json.MarshalIndent(w, "", " ")
		t.Errorf("got  %s\nwant %s", raw, pretty)
	}
}

func decoded(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("the test's own JSON: %v\n%s", err, text)
	}
	return v
}
