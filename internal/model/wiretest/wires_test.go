// Package wiretest holds what is the same for all providers against each of them, in the bytes that their servers write.
package wiretest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/anthropic"
	"github.com/agentloop-dev/agenttask-operator/internal/model/gemini"
	"github.com/agentloop-dev/agenttask-operator/internal/model/openai"
)

// wire is one provider's format.
type wire struct {
	new func(model.Config) (loop.Model, error)
	// text are the events of a reply whose text comes in these pieces, call those of a reply with one call.
	text func(pieces ...string) []string
	call func(id, name, arguments string) []string
	// tools are the names that a request offers, in order.
	tools func(body map[string]any) []string
}

var wires = map[string]wire{
	"OpenAI": {
		new: openai.New,
		text: func(pieces ...string) (out []string) {
			for _, p := range pieces {
				out = append(out, fmt.Sprintf(`data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`, quoted(p)))
			}
			return append(out, `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, openaiUsage, "data: [DONE]")
		},
		call: func(id, name, arguments string) []string {
			return []string{
				fmt.Sprintf(`data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}]},"finish_reason":null}]}`, id, name, quoted(arguments)),
				`data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, openaiUsage, "data: [DONE]",
			}
		},
		tools: func(body map[string]any) (out []string) {
			for _, t := range list(body["tools"]) {
				out = append(out, fmt.Sprint(object(object(t)["function"])["name"]))
			}
			return out
		},
	},
	"Anthropic": {
		new: anthropic.New,
		text: func(pieces ...string) []string {
			out := []string{anthropicStart, named(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)}
			for _, p := range pieces {
				out = append(out, named(fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`, quoted(p))))
			}
			return append(out, named(`{"type":"content_block_stop","index":0}`), anthropicEnd("end_turn"), named(`{"type":"message_stop"}`))
		},
		call: func(id, name, arguments string) []string {
			return []string{
				anthropicStart, named(fmt.Sprintf(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}}`, id, name)),
				named(fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":%s}}`, quoted(arguments))),
				named(`{"type":"content_block_stop","index":0}`), anthropicEnd("tool_use"), named(`{"type":"message_stop"}`),
			}
		},
		tools: func(body map[string]any) (out []string) {
			for _, t := range list(body["tools"]) {
				out = append(out, fmt.Sprint(object(t)["name"]))
			}
			return out
		},
	},
	"Gemini": {
		new: gemini.New,
		text: func(pieces ...string) (out []string) {
			for _, p := range pieces {
				out = append(out, fmt.Sprintf(`data: {"candidates":[{"content":{"role":"model","parts":[{"text":%s}]},"index":0}]}`, quoted(p)))
			}
			return append(out, geminiEnd)
		},
		call: func(id, name, arguments string) []string {
			return []string{
				fmt.Sprintf(`data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":%q,"name":%q,"args":%s}}]},"index":0}]}`, id, name, arguments), geminiEnd,
			}
		},
		tools: func(body map[string]any) (out []string) {
			for _, t := range list(body["tools"]) {
				for _, d := range list(object(t)["functionDeclarations"]) {
					out = append(out, fmt.Sprint(object(d)["name"]))
				}
			}
			return out
		},
	},
}

const (
	openaiUsage = `data: {"id":"c1","model":"m","choices":[],"usage":{"prompt_tokens":900,"completion_tokens":6,"total_tokens":906}}`
	geminiEnd   = `data: {"candidates":[{"content":{"role":"model","parts":[]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":900,"candidatesTokenCount":6,"totalTokenCount":906}}`
)

var anthropicStart = named(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":900,"output_tokens":1}}}`)

func anthropicEnd(reason string) string {
	return named(`{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":6}}`)
}

// named is an event with its name.
func named(data string) string {
	var event struct{ Type string }
	_ = json.Unmarshal([]byte(data), &event)
	return "event: " + event.Type + "\ndata: " + data
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

func list(v any) []any { l, _ := v.([]any); return l }

func object(v any) map[string]any { o, _ := v.(map[string]any); return o }

// stream frames events.
func stream(events ...string) string { return strings.Join(events, "\n\n") + "\n\n" }

// server answers requests, and keeps their bodies.
type server struct {
	mu     sync.Mutex
	bodies []map[string]any
}

// answer is a status and a body.
type answer struct {
	status int
	body   string
}

// serve gives a model of a wire whose server answers so.
func (w wire) serve(t *testing.T, respond func(n int, body map[string]any) answer, change ...func(*model.Config)) (loop.Model, *server) {
	t.Helper()
	s := &server{}
	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body := map[string]any{}
		_ = json.NewDecoder(r.Body).Decode(&body)
		s.mu.Lock()
		s.bodies = append(s.bodies, body)
		n := len(s.bodies)
		s.mu.Unlock()
		a := respond(n, body)
		kind := "application/json"
		if strings.Contains(a.body, "data:") && !strings.HasPrefix(a.body, "{") {
			kind = "text/event-stream"
		}
		rw.Header().Set("Content-Type", kind)
		rw.WriteHeader(max(a.status, http.StatusOK))
		_, _ = io.WriteString(rw, a.body)
	}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	cfg := model.Config{Model: "m", Endpoint: web.URL, APIKey: "key"}
	for _, c := range change {
		c(&cfg)
	}
	m, err := w.new(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return model.Checked(m, 0), s
}

// always answers every request with the same body.
func always(body string) func(int, map[string]any) answer {
	return func(int, map[string]any) answer { return answer{body: body} }
}

func ask(t *testing.T, m loop.Model, messages ...loop.Message) (*loop.Reply, error) {
	t.Helper()
	if len(messages) == 0 {
		messages = []loop.Message{loop.UserText("hello")}
	}
	return m.Generate(t.Context(), &loop.Request{Messages: messages, MaxOutputTokens: 100}, func(int) {})
}

// dump is a body as it was sent.
func dump(body map[string]any) string {
	out, _ := json.Marshal(body)
	return string(out)
}
