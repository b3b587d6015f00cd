package openai

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// Everything that must never be shown is planted with a word of its own, then every way to fail is taken.
func TestNoErrorShowsKeyPromptBodyOrURL(t *testing.T) {
	canaries := []string{"KEY-CANARY", "HOST-CANARY", "HEADER-CANARY", "QUERY-CANARY", "PATH-CANARY", "PROMPT-CANARY", "SYSTEM-CANARY", "BODY-CANARY", "ANSWER-HEADER-CANARY"}
	body := `{"error":{"message":"BODY-CANARY KEY-CANARY PROMPT-CANARY","type":"BODY-CANARY","param":"BODY-CANARY","code":"BODY-CANARY"}}`
	answers := map[string]answer{
		"HTML":         {body: "<html>BODY-CANARY"},
		"prose":        {body: "BODY-CANARY", header: map[string]string{"Content-Type": "text/plain; BODY-CANARY"}},
		"no choice":    {body: `{"BODY-CANARY":1}`},
		"not JSON":     {body: `{BODY-CANARY`},
		"bad event":    {body: "data: BODY-CANARY\n\n"},
		"error event":  {body: chunk(`{"content":"BODY-CANARY"}`, "") + "data: " + body + "\n\n"},
		"break":        {body: chunk(`{"content":"BODY-CANARY"}`, ""), then: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"error 200":    {body: body},
		"redirect":     {status: 307, header: map[string]string{"Location": "http://127.0.0.2:1/BODY-CANARY?BODY-CANARY"}},
		"bad redirect": {status: 307, header: map[string]string{"Location": "http://[BODY-CANARY"}},
		"bad type":     {body: `{"choices":"BODY-CANARY"}`},
	}
	for _, status := range []int{400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503} {
		answers[fmt.Sprint("status ", status)] = answer{status: status, body: body,
			header: map[string]string{"Retry-After": "ANSWER-HEADER-CANARY", "X-Request-Id": "ANSWER-HEADER-CANARY"}}
	}
	check := func(t *testing.T, m loop.Model) {
		t.Helper()
		_, err := m.Generate(t.Context(), &loop.Request{System: "SYSTEM-CANARY", Messages: []loop.Message{loop.UserText("PROMPT-CANARY")}}, func(int) {})
		if err == nil {
			t.Fatal("no error")
		}
		shown := fmt.Sprintf("%v %+v %#v", err, err, err)
		if e := (*loop.ModelError)(nil); !errors.As(err, &e) {
			t.Errorf("not a ModelError: %T", err)
		} else if e.Err != nil {
			// Not printed by ModelError, but others may unwrap it.
			shown += fmt.Sprintf("%v %+v %#v", e.Err, e.Err, e.Err)
		}
		for _, c := range canaries {
			if strings.Contains(shown, c) {
				t.Errorf("%s is shown: %s", c, shown)
			}
		}
	}
	plant := func(c *model.Config) {
		c.APIKey = "KEY-CANARY"
		c.Headers = map[string]string{"X-Auth": "HEADER-CANARY"}
		c.Query = map[string]string{"key": "QUERY-CANARY"}
		c.Endpoint += "/PATH-CANARY"
	}
	for name, a := range answers {
		t.Run(name, func(t *testing.T) { check(t, serve(t, a).model(t, plant)) })
	}
	t.Run("no server", func(t *testing.T) {
		f := serve(t, answer{})
		f.Close()
		check(t, f.model(t, plant))
	})
	t.Run("no such name", func(t *testing.T) {
		f := serve(t, answer{})
		guard := &egress.Guard{Resolver: modeltest.Resolver(t, nil)}
		check(t, f.model(t, plant, func(c *model.Config) {
			c.Endpoint = "http://HOST-CANARY.example.com/"
			c.HTTP, _ = model.NewHTTPClient(*c, guard)
		}))
	})
	t.Run("no TLS", func(t *testing.T) {
		f := serve(t, answer{})
		check(t, f.model(t, plant, func(c *model.Config) { c.Endpoint = strings.Replace(c.Endpoint, "http:", "https:", 1) }))
	})
}
