package anthropic

import (
	"regexp"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestEachCallOfAConversationHasAnIDOfItsOwn(t *testing.T) {
	acceptable := regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	modeltest.CallIDs(t, events(hello...), func(s *modeltest.Server) loop.Model { return mustNew(t, s.Config("m")) },
		func(body map[string]any) (calls, results []modeltest.SentCall) {
			for _, m := range body["messages"].([]any) {
				for _, c := range m.(map[string]any)["content"].([]any) {
					switch c := c.(map[string]any); c["type"] {
					case "tool_use":
						calls = append(calls, modeltest.SentCall{ID: c["id"].(string), Number: c["input"].(map[string]any)["n"].(string)})
						if !acceptable.MatchString(c["id"].(string)) {
							t.Errorf("the API refuses %q", c["id"])
						}
					case "tool_result":
						content := c["content"].([]any)[0].(map[string]any)
						results = append(results, modeltest.SentCall{ID: c["tool_use_id"].(string), Number: content["text"].(string)})
					}
				}
			}
			return calls, results
		})
}
