package model

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// conversation makes messages of words: "a b" is a reply with the calls a and b, "=a b" the results of calls a and b.
func conversation(words ...string) []loop.Message {
	var out []loop.Message
	for _, w := range words {
		m := loop.Message{Role: loop.RoleAssistant}
		ids, results := strings.CutPrefix(w, "=")
		for i, id := range strings.Split(ids, " ") {
			if results {
				m.Role = loop.RoleTool
				m.ToolResults = append(m.ToolResults, loop.ToolResult{CallID: id, Content: fmt.Sprint(i)})
			} else {
				m.ToolCalls = append(m.ToolCalls, loop.ToolCall{ID: id, Arguments: fmt.Sprint(i)})
			}
		}
		out = append(out, m)
	}
	return out
}

func TestEachCallOfARequestHasAnIDOfItsOwn(t *testing.T) {
	for reason, c := range map[string]struct{ in, want []string }{
		"unique ones stay":                 {[]string{"a b", "=a b", "c", "=c"}, []string{"a b", "=a b", "c", "=c"}},
		"the same each turn":               {[]string{"a", "=a", "a", "=a", "a", "=a"}, []string{"a", "=a", "a_2", "=a_2", "a_3", "=a_3"}},
		"counted anew each turn":           {[]string{"a b", "=a b", "a b", "=b a"}, []string{"a b", "=a b", "a_2 b_2", "=b_2 a_2"}},
		"results in messages of their own": {[]string{"a b", "=a", "=b", "b a", "=b", "=a"}, []string{"a b", "=a", "=b", "b_2 a_2", "=b_2", "=a_2"}},
		"twice in one reply":               {[]string{"a a", "=a a"}, []string{"a a_2", "=a a_2"}},
		"a new id that is there already":   {[]string{"a_2", "=a_2", "a", "=a", "a", "=a"}, []string{"a_2", "=a_2", "a", "=a", "a_3", "=a_3"}},
		"an old id like a new one":         {[]string{"a", "=a", "a", "=a", "a_2", "=a_2"}, []string{"a", "=a", "a_2", "=a_2", "a_2_2", "=a_2_2"}},
		"no id at all":                     {[]string{"", "=", "", "="}, []string{"call_2", "=call_2", "call_3", "=call_3"}},
		"a result of no call":              {[]string{"a", "=b"}, []string{"a", "=b"}},
	} {
		t.Run(reason, func(t *testing.T) {
			req := &loop.Request{Messages: conversation(c.in...)}
			if got := UniqueCallIDs(req); !reflect.DeepEqual(got.Messages, conversation(c.want...)) {
				t.Errorf("got %+v", got.Messages)
			}
			if !reflect.DeepEqual(req.Messages, conversation(c.in...)) {
				t.Error("the request itself was changed")
			}
		})
	}
}

func TestNewCallIDsDependOnWhatCameBeforeAlone(t *testing.T) {
	words := []string{"a a", "=a a", "b", "=b", "a b", "=b a", "a_2", "=a_2", "a", "=a"}
	whole := UniqueCallIDs(&loop.Request{Messages: conversation(words...)}).Messages
	for n := range words {
		if got := UniqueCallIDs(&loop.Request{Messages: conversation(words[:n]...)}).Messages; !reflect.DeepEqual(got, append([]loop.Message(nil), whole[:n]...)) {
			t.Errorf("the first %d messages became %+v", n, got)
		}
	}
}
