package model_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// turns are replies with calls of these ids, each followed by results that name the call by its number.
func turns(replies ...[]string) (out []loop.Message) {
	n := 0
	for _, ids := range replies {
		call, result := loop.Message{Role: loop.RoleAssistant}, loop.Message{Role: loop.RoleTool}
		for _, id := range ids {
			n++
			call.ToolCalls = append(call.ToolCalls, loop.ToolCall{ID: id, Name: fmt.Sprint(n)})
			result.ToolResults = append(result.ToolResults, loop.ToolResult{CallID: id, Name: fmt.Sprint(n)})
		}
		out = append(out, call, result)
	}
	return out
}

func TestNoTwoCallsOfAConversationHaveOneID(t *testing.T) {
	for name, tc := range map[string]struct {
		why  string
		ids  [][]string
		want []string
	}{
		"unique":                {"some servers know their own again", [][]string{{"a", "b"}, {"c"}}, []string{"a", "b", "c"}},
		"one for all":           {"each is of one reply (open-webui#28305)", [][]string{{"call_0"}, {"call_0"}, {"call_0"}}, []string{"call_0", "call_0_2", "call_0_3"}},
		"numbers of a reply":    {"they begin anew in each", [][]string{{"0", "1"}, {"0", "1"}}, []string{"0", "1", "0_2", "1_2"}},
		"the new one is taken":  {"a later reply may have it", [][]string{{"a"}, {"a"}, {"a_2"}}, []string{"a", "a_3", "a_2"}},
		"the new one was taken": {"an earlier reply may have had it", [][]string{{"a_2"}, {"a"}, {"a"}}, []string{"a_2", "a", "a_3"}},
		"empty":                 {"an old journal may hold it", [][]string{{""}, {""}}, []string{"", "_2"}},
	} {
		given := turns(tc.ids...)
		var calls, results []string
		for _, m := range model.UniqueCallIDs(given) {
			for _, c := range m.ToolCalls {
				calls = append(calls, c.ID)
			}
			for _, r := range m.ToolResults {
				results = append(results, r.CallID)
			}
		}
		if !slices.Equal(calls, tc.want) || !slices.Equal(results, tc.want) {
			t.Errorf("%s: calls %q, results %q; want %q: %s", name, calls, results, tc.want, tc.why)
		}
		if again := turns(tc.ids...); given[0].ToolCalls[0] != again[0].ToolCalls[0] || len(given) > 2 && given[2].ToolCalls[0] != again[2].ToolCalls[0] {
			t.Errorf("%s: what was given has changed", name)
		}
	}
}

// A result without a call stays as it is: only its server can say what is wrong with it.
func TestAResultWithoutACallStaysAsItIs(t *testing.T) {
	got := model.UniqueCallIDs([]loop.Message{{Role: loop.RoleTool, ToolResults: []loop.ToolResult{{CallID: "x"}}}})
	if got[0].ToolResults[0].CallID != "x" {
		t.Errorf("%+v", got)
	}
}

func BenchmarkUniqueCallIDs(b *testing.B) {
	replies := make([][]string, 10_000)
	for i := range replies {
		replies[i] = []string{"call_0"}
	}
	given := turns(replies...)
	for b.Loop() {
		model.UniqueCallIDs(given)
	}
}
