package gemini

import (
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestEachCallOfAConversationHasAnIDOfItsOwn(t *testing.T) {
	modeltest.CallIDs(t, chunks(hello...), func(s *modeltest.Server) loop.Model { return mustNew(t, s.Config("m")) },
		func(body map[string]any) (calls, results []modeltest.SentCall) {
			for _, m := range body["contents"].([]any) {
				for _, p := range m.(map[string]any)["parts"].([]any) {
					p := p.(map[string]any)
					if c, ok := p["functionCall"].(map[string]any); ok {
						calls = append(calls, modeltest.SentCall{ID: c["id"].(string), Number: c["args"].(map[string]any)["n"].(string)})
					}
					if r, ok := p["functionResponse"].(map[string]any); ok {
						results = append(results, modeltest.SentCall{ID: r["id"].(string), Number: r["response"].(map[string]any)["output"].(string)})
					}
				}
			}
			return calls, results
		})
}

// Ids that the API never gave are made up, may be those of another turn, and are still not sent.
func TestIDsThatWereMadeUpAreNotSentEvenWhereTheyRepeat(t *testing.T) {
	f := modeltest.Serve(t, chunks(last(`{"functionCall":{"name":"f","args":{"n":1}}},{"functionCall":{"name":"f","args":{"n":1}}}`, "STOP")))
	m := mustNew(t, f.Config("m"))
	msgs := []loop.Message{loop.UserText("hi")}
	for range 3 {
		reply, _, err := modeltest.Ask(t, m, msgs...)
		if err != nil {
			t.Fatal(err)
		}
		result := loop.Message{Role: loop.RoleTool}
		for _, c := range reply.ToolCalls {
			result.ToolResults = append(result.ToolResults, loop.ToolResult{CallID: c.ID, Name: c.Name, Content: "ok"})
		}
		msgs = append(msgs, assistant(reply.Blocks, reply.ToolCalls...), result)
	}
	_, bodies := f.Seen()
	turn := `{"role":"model","parts":[{"functionCall":{"name":"f","args":{"n":1}}},{"functionCall":{"name":"f","args":{"n":1}}}]},
		{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"ok"}}},{"functionResponse":{"name":"f","response":{"output":"ok"}}}]}`
	modeltest.WantJSON(t, bodies[2]["contents"], `[{"role":"user","parts":[{"text":"hi"}]},`+turn+`,`+turn+`]`)
}
