package model_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// fetch reads a body that comes in the given pieces, as a model call does or as a tool server's client.
func fetch(t *testing.T, asModel bool, contentType string, pieces ...string) (string, error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for _, p := range pieces {
			_, _ = io.WriteString(w, p)
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(s.Close)
	ctx := t.Context()
	if asModel {
		var end context.CancelFunc
		ctx, _, end = model.BeginCall(ctx, model.Config{}, func(int) {})
		defer end()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := newClient(t, model.Config{}, nil).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestABodyLosesItsByteOrderMark(t *testing.T) {
	const mark = "\xef\xbb\xbf"
	cases := map[string]struct {
		pieces []string
		want   string
	}{
		"JSON":                {[]string{mark + "{}"}, "{}"},
		"in pieces":           {[]string{mark[:1], mark[1:2], mark[2:], "{}"}, "{}"},
		"the mark alone":      {[]string{mark}, ""},
		"only the first":      {[]string{mark + mark}, mark},
		"not at the start":    {[]string{"{" + mark}, "{" + mark},
		"a part of it":        {[]string{mark[:2]}, mark[:2]},
		"no mark":             {[]string{"{}"}, "{}"},
		"nothing":             {nil, ""},
		"more than one piece": {[]string{"1234", strings.Repeat("5", 99)}, "1234" + strings.Repeat("5", 99)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := fetch(t, false, "application/json", c.pieces...); err != nil || got != c.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestTheLastEventOfAModelsStreamIsCompleted(t *testing.T) {
	cases := map[string]struct{ body, want string }{
		"without line end":      {"data: {}", "data: {}\n\n"},
		"without blank line":    {"data: {}\n", "data: {}\n\n"},
		"with CRLF":             {"data: {}\r\n", "data: {}\r\n\n"},
		"the end mark":          {"data: {}\n\ndata: [DONE]", "data: {}\n\ndata: [DONE]\n\n"},
		"whole":                 {"data: {}\n\n", "data: {}\n\n"},
		"whole, with CRLF":      {"data: {}\r\n\r\n", "data: {}\r\n\r\n"},
		"whole, and more lines": {"data: {}\n\n\n", "data: {}\n\n\n"},
		"a cut event is none":   {"data: {}\n\ndata: {\"a", "data: {}\n\ndata: {\"a"},
		"nothing":               {"", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := fetch(t, true, "text/event-stream", c.body); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
			for contentType, asModel := range map[string]bool{"text/event-stream": false, "application/json": true} {
				if got, err := fetch(t, asModel, contentType, c.body); err != nil || got != c.body {
					t.Errorf("%s, as a model's %v: got %q, %v", contentType, asModel, got, err)
				}
			}
		})
	}
}

func TestOneEventOfAModelsStreamIsBounded(t *testing.T) {
	const limit = 4 << 20
	half := "data:" + strings.Repeat("x", limit/2-4)
	cases := map[string]struct {
		asModel           bool
		contentType, body string
		tooLarge          bool
	}{
		"the largest":        {true, "text/event-stream", strings.Repeat("x", limit) + "\n\n", false},
		"one byte more":      {true, "text/event-stream", strings.Repeat("x", limit+1), true},
		"many lines":         {true, "text/event-stream", half + "\r\n" + half, true},
		"many events":        {true, "text/event-stream", half + "\r\n\r\n" + half, false},
		"comments in a row":  {true, "text/event-stream", strings.Repeat(": "+strings.Repeat(".", limit/4)+"\n", 6), false},
		"an endless comment": {true, "text/event-stream", ":" + strings.Repeat(".", limit), true},
		"a tool server's":    {false, "text/event-stream", strings.Repeat("x", limit+1), false},
		"no event but plain": {true, "application/json", strings.Repeat("x", limit), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := fetch(t, c.asModel, c.contentType, c.body)
			if errors.Is(err, model.ErrReplyTooLarge) != c.tooLarge {
				t.Errorf("got %v, want too large %v", err, c.tooLarge)
			}
			if c.tooLarge && len(got) > limit {
				t.Errorf("%d bytes delivered", len(got))
			}
		})
	}
}
