package outputcap_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/anthropic"
	"github.com/agentloop-dev/agenttask-operator/internal/model/gemini"
	"github.com/agentloop-dev/agenttask-operator/internal/model/openai"
	"github.com/agentloop-dev/agenttask-operator/internal/model/outputcap"
)

// thoughts are the tokens that the servers below spend on hidden reasoning, unless a cap stops them.
const thoughts = 100_000

// provider is one wire format.
type provider struct {
	build func(model.Config) (loop.Model, error)
	// cap finds the cap of a request, 0 for none.
	cap func(body map[string]any) float64
	// refusal and reply are written with the cap and the ceiling, and with the tokens that are billed.
	refusal, reply string
}

func field(name string) func(map[string]any) float64 {
	return func(body map[string]any) float64 { n, _ := body[name].(float64); return n }
}

var providers = map[string]provider{
	"OpenAI": {openai.New, field("max_tokens"),
		`{"error":{"message":"max_tokens is too large: %d. This model supports at most %d completion tokens.","param":"max_tokens"}}`,
		`{"choices":[{"message":{"content":"ok"},"finish_reason":"length"}],"usage":{"prompt_tokens":7,"completion_tokens":%d}}`},
	"Anthropic": {anthropic.New, field("max_tokens"),
		`{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: %d > %d, which is the maximum allowed number of output tokens"}}`,
		`{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"max_tokens","usage":{"input_tokens":7,"output_tokens":%d}}`},
	"Gemini": {gemini.New,
		func(body map[string]any) float64 {
			config, _ := body["generationConfig"].(map[string]any)
			return field("maxOutputTokens")(config)
		},
		`{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"it has a maxOutputTokens value of %d but the supported range is from 1 (inclusive) to %d (inclusive)"}}`,
		`data: {"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":0,"thoughtsTokenCount":%d}}` + "\n\n"},
}

// serve starts a server of a wire format that refuses caps above a ceiling, 0 for none, and counts the requests.
func (p provider) serve(t *testing.T, ceiling int64, requests *int) model.Config {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests++
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		most := int64(p.cap(body))
		w.Header().Set("Content-Type", "application/json")
		if ceiling > 0 && most > ceiling {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, p.refusal, most, ceiling)
			return
		}
		if p.reply[0] == 'd' {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		billed := int64(thoughts)
		if most > 0 {
			billed = min(billed, most)
		}
		_, _ = io.WriteString(w, fmt.Sprintf(p.reply, billed))
	}))
	t.Cleanup(s.Close)
	return model.Config{Model: "m", Endpoint: s.URL, HTTP: s.Client()}
}

func TestHiddenReasoningStaysWithinTheCap(t *testing.T) {
	for name, p := range providers {
		for kind, tc := range map[string]struct {
			ceiling, left int64
			billed        int64
			requests      int // of two calls
		}{
			"a server that refuses large caps, little left": {16_384, 5000, 5000, 2},
			"a server that refuses large caps, much left":   {16_384, 90_000, 16_384, 3},
			"a server that refuses large caps, very much":   {16_384, 1 << 40, 16_384, 3},
			"a server that takes any, little left":          {0, 5000, 5000, 2},
			"a server that takes any, much left":            {0, 90_000, 90_000, 2},
			"a request without cap":                         {16_384, 0, thoughts, 2},
		} {
			if name == "Anthropic" && tc.left == 0 {
				tc.billed = 8192 // its API takes no request without cap
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				requests := 0
				raw, err := p.build(p.serve(t, tc.ceiling, &requests))
				if err != nil {
					t.Fatal(err)
				}
				m := outputcap.Wrap(raw, 0)
				for range 2 {
					reply, err := m.Generate(t.Context(), &loop.Request{Messages: []loop.Message{loop.UserText("go")}, MaxOutputTokens: tc.left}, func(int) {})
					if err != nil {
						t.Fatal(err)
					}
					if reply.Usage.OutputTokens != tc.billed {
						t.Errorf("%d tokens are billed, want %d", reply.Usage.OutputTokens, tc.billed)
					}
				}
				if requests != tc.requests {
					t.Errorf("%d requests for two calls, want %d", requests, tc.requests)
				}
			})
		}
	}
}

func TestAUsersCapThatIsTooLargeIsLowered(t *testing.T) {
	for name, p := range providers {
		t.Run(name, func(t *testing.T) {
			requests := 0
			cfg := p.serve(t, 16_384, &requests)
			cfg.Parameters.MaxOutputTokens = 50_000
			raw, err := p.build(cfg)
			if err != nil {
				t.Fatal(err)
			}
			m := outputcap.Wrap(raw, 0)
			for range 2 {
				reply, err := m.Generate(t.Context(), &loop.Request{Messages: []loop.Message{loop.UserText("go")}}, func(int) {})
				if err != nil || reply.Usage.OutputTokens != 16_384 {
					t.Errorf("got %+v, %v", reply, err)
				}
			}
			if requests != 3 {
				t.Errorf("%d requests for two calls, want 3", requests)
			}
		})
	}
}
