package modeltest

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// SentCall is a call or the result of one, as it is in a request: its id, and the number in its arguments or its content.
type SentCall struct{ ID, Number string }

// turns are the ids of the calls of each turn, before the request. Results come in the order of the calls.
var turns = map[string][][]string{
	"one id for all":            {{"call_0"}, {"call_0"}, {"call_0"}},
	"counted anew in each":      {{"call_0", "call_1"}, {"call_0", "call_1"}, {"call_1", "call_0"}},
	"twice in one reply":        {{"call_0", "call_0"}, {"call_0"}},
	"one that is like a new id": {{"call_0"}, {"call_0"}, {"call_0_2"}, {"call_0"}},
	"characters of all kinds":   {{"functions.ls:0"}, {"functions.ls:0"}, {"functions.ls:1"}},
	"unique":                    {{"a1B2c3D4e"}, {"chatcmpl-tool-1", "toolu_01"}, {"call_3"}},
}

// CallIDs checks that a model gives each call of a conversation an id that no other has, and each result that of its call. The server
// answers every request with answer; read finds what was sent, in its order. An id that is unique, and is taken at all, stays.
func CallIDs(t *testing.T, answer http.HandlerFunc, open func(*Server) loop.Model, read func(body map[string]any) (calls, results []SentCall)) {
	for name, replies := range turns {
		t.Run(name, func(t *testing.T) {
			msgs := []loop.Message{loop.UserText("hi")}
			var asked []string
			for _, ids := range replies {
				call, result := loop.Message{Role: loop.RoleAssistant}, loop.Message{Role: loop.RoleTool}
				for _, id := range ids {
					n := fmt.Sprint(len(asked))
					asked = append(asked, id)
					call.ToolCalls = append(call.ToolCalls, loop.ToolCall{ID: id, Name: "weather", Arguments: `{"n":"` + n + `"}`})
					result.ToolResults = append(result.ToolResults, loop.ToolResult{CallID: id, Name: "weather", Content: n})
				}
				msgs = append(msgs, call, result)
			}
			s := Serve(t, answer)
			if _, _, err := Ask(t, open(s), msgs...); err != nil {
				t.Fatal(err)
			}
			_, bodies := s.Seen()
			calls, results := read(bodies[0])
			if len(calls) != len(asked) || !slices.Equal(calls, results) {
				t.Errorf("calls %v\nresults %v", calls, results)
			}
			seen := map[string]bool{}
			for i, c := range calls {
				if seen[c.ID] || c.ID == "" || c.Number != fmt.Sprint(i) || name == "unique" && c.ID != asked[i] {
					t.Errorf("call %d of %v", i, calls)
				}
				seen[c.ID] = true
			}
		})
	}
}
