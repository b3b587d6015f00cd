package openai

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// calls is a chunk with pieces of calls.
func calls(pieces string) string { return chunk(`{"tool_calls":[`+pieces+`]}`, "") }

func TestCallsWithoutAnIDOfTheirOwnAreToldApart(t *testing.T) {
	two := []loop.ToolCall{{ID: "c", Name: "add", Arguments: `{"x":1}`}, {Name: "now", Arguments: `{"y":2}`}}
	same := []loop.ToolCall{{ID: "c", Name: "add", Arguments: `{"x":1}`}, {Name: "add", Arguments: `{"y":2}`}}
	for reason, tc := range map[string]struct {
		body string
		want []loop.ToolCall
	}{
		"one id, two indexes": {calls(`{"index":0,"id":"c","function":{"name":"add","arguments":"{\"x\":1}"}}`) +
			calls(`{"index":1,"id":"c","function":{"name":"now","arguments":"{\"y\":2}"}}`), two},
		"one id, two indexes, in pieces": {calls(`{"index":0,"id":"c","function":{"name":"add","arguments":"{\"x\""}},{"index":1,"id":"c","function":{"name":"now","arguments":"{\"y\""}}`) +
			calls(`{"index":1,"function":{"arguments":":2}"}},{"index":0,"function":{"arguments":":1}"}}`), two},
		"one id and index, another name": {calls(`{"index":0,"id":"c","function":{"name":"add","arguments":"{\"x\":1}"}}`) +
			calls(`{"index":0,"id":"c","function":{"name":"now","arguments":"{\"y\":2}"}}`), two},
		"one id and index, and the first without arguments": {calls(`{"index":0,"id":"c","function":{"name":"add","arguments":""}}`) +
			calls(`{"index":0,"id":"c","function":{"name":"now","arguments":"{\"y\":2}"}}`), []loop.ToolCall{{ID: "c", Name: "add"}, two[1]}},
		"one id, index and name, other arguments": {calls(`{"index":0,"id":"c","function":{"name":"add","arguments":"{\"x\":1}"}}`) +
			calls(`{"index":0,"id":"c","function":{"name":"add","arguments":"{\"y\""}}`) + calls(`{"index":0,"function":{"arguments":":2}"}}`), same},
		"one id, no index": {calls(`{"id":"c","function":{"name":"add","arguments":"{\"x\":1}"}}`) +
			calls(`{"id":"c","function":{"name":"now","arguments":"{\"y\":2}"}}`), two},
		"no id, no index": {calls(`{"function":{"name":"add","arguments":"{\"x\":1}"}},{"function":{"name":"now","arguments":"{\"y\":2}"}}`),
			[]loop.ToolCall{{Name: "add", Arguments: `{"x":1}`}, two[1]}},
		"a null index": {calls(`{"index":null,"id":"c","function":{"name":"add","arguments":"{\"x\":1}"}}`) +
			calls(`{"index":null,"function":{"name":"now","arguments":"{\"y\":2}"}}`), two},
		"a whole call that is told again": {calls(`{"index":0,"id":"c","function":{"name":"add","arguments":"{\"x\":"}}`) + calls(`{"index":0,"function":{"arguments":"1}"}}`) +
			calls(`{"index":0,"id":"c","function":{"name":"add","arguments":"{\"x\":1}"}}`), two[:1]},
		"an end without arguments": {calls(`{"index":0,"id":"c","function":{"name":"add","arguments":"{\"x\":1}"}}`) +
			calls(`{"index":0,"id":"c","function":{"name":"add","arguments":""}}`), two[:1]},
		"a plain reply": {`{"choices":[{"finish_reason":"tool_calls","message":{"content":null,"tool_calls":[
			{"id":"c","type":"function","function":{"name":"add","arguments":"{\"x\":1}"}},{"id":"c","type":"function","function":{"name":"now","arguments":"{\"y\":2}"}}]}}]}`, two},
	} {
		t.Run(reason, func(t *testing.T) {
			body := tc.body
			if body[0] == 'd' {
				body += chunk(`{}`, "tool_calls") + done
			}
			reply, err := generate(t, serve(t, answer{body: body}).model(t))
			if err != nil {
				t.Fatal(err)
			}
			wantCalls(t, reply.ToolCalls, tc.want)
		})
	}
}

// wantCalls compares calls, where no id means that any will do that no other call has.
func wantCalls(t *testing.T, got, want []loop.ToolCall) {
	t.Helper()
	seen := map[string]bool{}
	var bare []loop.ToolCall
	for i, c := range got {
		if c.ID == "" || seen[c.ID] {
			t.Errorf("call %d of %+v has no id of its own", i, got)
		}
		seen[c.ID] = true
		if i < len(want) && want[i].ID == "" {
			c.ID = ""
		}
		bare = append(bare, c)
	}
	if !reflect.DeepEqual(bare, want) {
		t.Errorf("got  %+v\nwant %+v", bare, want)
	}
}

func TestEachCallOfAConversationHasAnIDOfItsOwn(t *testing.T) {
	modeltest.CallIDs(t, modeltest.Status(200, map[string]string{"Content-Type": "text/event-stream"}, hello), func(s *modeltest.Server) loop.Model {
		m, err := New(s.Config("m"))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}, func(body map[string]any) (calls, results []modeltest.SentCall) {
		for _, m := range body["messages"].([]any) {
			m := m.(map[string]any)
			list, _ := m["tool_calls"].([]any)
			for _, c := range list {
				c := c.(map[string]any)
				var args struct{ N string }
				_ = json.Unmarshal([]byte(c["function"].(map[string]any)["arguments"].(string)), &args)
				calls = append(calls, modeltest.SentCall{ID: c["id"].(string), Number: args.N})
			}
			if m["role"] == "tool" {
				results = append(results, modeltest.SentCall{ID: m["tool_call_id"].(string), Number: m["content"].(string)})
			}
		}
		return calls, results
	})
}
