package resolve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// The counters of the operator are floating point: one absurd count, and no later one changes them.
func TestNoModelReportsMoreTokensThanACallCanHave(t *testing.T) {
	const most = 2_000_000_000
	lie := func(mediaType, body string) *v1alpha1.AgentModelSpec {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", mediaType)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(server.Close)
		return &v1alpha1.AgentModelSpec{Model: "m", Endpoint: server.URL}
	}
	specs := map[v1alpha1.Provider]*v1alpha1.AgentModelSpec{
		v1alpha1.ProviderOpenAI: lie("application/json", `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],
			"usage":{"prompt_tokens":2305843009213693951,"completion_tokens":2305843009213693951,"total_tokens":4611686018427387902}}`),
		v1alpha1.ProviderAnthropic: lie("application/json", `{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn",
			"usage":{"input_tokens":2305843009213693951,"output_tokens":2305843009213693951}}`),
		v1alpha1.ProviderGemini: lie("text/event-stream", `data: {"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}],`+
			`"usageMetadata":{"promptTokenCount":2147483647,"candidatesTokenCount":2147483647,"totalTokenCount":2147483647}}`+"\n\n"),
		v1alpha1.ProviderScripted: {Scripted: &v1alpha1.Script{Replies: []v1alpha1.ScriptedReply{{
			Text: new("ok"), Usage: &v1alpha1.ScriptedUsage{InputTokens: new(int64(1) << 62), OutputTokens: new(int64(1) << 62)},
		}}}},
	}
	for provider, spec := range specs {
		t.Run(string(provider), func(t *testing.T) {
			spec.Provider = provider
			r := newRig(t, interceptor.Funcs{})
			m, err := r.Build(t.Context(), &v1alpha1.AgentModel{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "1", Generation: 1}, Spec: *spec})
			if err != nil {
				t.Fatal(err)
			}
			reply, err := m.Model.Generate(t.Context(), &loop.Request{Messages: []loop.Message{loop.UserText("x")}}, func(int) {})
			if err != nil {
				t.Fatal(err)
			}
			if u := reply.Usage; u.InputTokens <= 0 || u.OutputTokens <= 0 || u.Total() > most {
				t.Errorf("%+v, want at most %d in all", u, most)
			}
		})
	}
}
