package wiretest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// called is a conversation with one call and its result for each id.
func called(ids ...string) []loop.Message {
	out := []loop.Message{loop.UserText("hello")}
	for i, id := range ids {
		out = append(out,
			loop.Message{Role: loop.RoleAssistant, ToolCalls: []loop.ToolCall{{ID: id, Name: "set__ping", Arguments: fmt.Sprintf(`{"n":%d}`, i)}}},
			loop.Message{Role: loop.RoleTool, ToolResults: []loop.ToolResult{{CallID: id, Name: "set__ping", Content: fmt.Sprintf("pong %d", i)}}})
	}
	return out
}

// Servers that make ids of their own for each reply refuse a conversation in which one comes twice.
func TestCallsOfSeveralRepliesDifferInTheirIDs(t *testing.T) {
	for name, ids := range map[string][]string{
		"one for all": {"call_0", "call_0", "call_0"}, "numbers": {"0", "1", "0"}, "unique": {"a", "b", "c"}, "a new one that is taken": {"a", "a", "a_2"},
	} {
		for provider, w := range wires {
			t.Run(name+"/"+provider, func(t *testing.T) {
				m, s := w.serve(t, always(stream(w.text("ok")...)))
				if _, err := ask(t, m, called(ids...)...); err != nil {
					t.Fatal(err)
				}
				calls, results := idsIn(s.bodies[0])
				if len(calls) != 3 || !slices.Equal(calls, results) || calls[0] == calls[1] || calls[1] == calls[2] || calls[0] == calls[2] {
					t.Errorf("calls %q, results %q", calls, results)
				}
			})
		}
	}
}

// idsIn are the ids of calls and of results, in order, wherever a format has them.
func idsIn(v any) (calls, results []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			c, r := idsIn(e)
			calls, results = append(calls, c...), append(results, r...)
		}
	case map[string]any:
		switch {
		case v["type"] == "function", v["type"] == "tool_use":
			return []string{fmt.Sprint(v["id"])}, nil
		case v["tool_call_id"] != nil:
			return nil, []string{fmt.Sprint(v["tool_call_id"])}
		case v["tool_use_id"] != nil:
			return nil, []string{fmt.Sprint(v["tool_use_id"])}
		case v["functionCall"] != nil:
			return []string{fmt.Sprint(object(v["functionCall"])["id"])}, nil
		case v["functionResponse"] != nil:
			return nil, []string{fmt.Sprint(object(v["functionResponse"])["id"])}
		}
		for _, key := range []string{"messages", "contents", "content", "parts", "tool_calls"} {
			c, r := idsIn(v[key])
			calls, results = append(calls, c...), append(results, r...)
		}
	}
	return calls, results
}

// A call that is to make no tool calls, such as the last one, goes through where a server insists on the tools of earlier ones.
func TestACallWithoutToolsAfterCallsGoesThrough(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal string
		// takesChoice: the server knows that no tool is to be called.
		takesChoice bool
	}{
		"LiteLLM (litellm#24158)": {`{"error":{"message":"Bedrock does not support tool calls without the tools= param.","type":"invalid_request_error"}}`, true},
		"in words":                {`{"error":{"message":"The conversation has tool messages, so 'tools' must be set as well.","type":"invalid_request_error","param":null,"code":null}}`, true},
		"by its parameter":        {`{"error":{"message":"Missing required parameter.","type":"invalid_request_error","param":"tools"}}`, true},
		"FastAPI":                 {`{"detail":"tools is required where messages hold tool calls"}`, true},
		"without a choice":        {`{"error":{"message":"'tools' must be set","type":"invalid_request_error"}}`, false},
	} {
		for provider, w := range wires {
			if !tc.takesChoice && provider != "OpenAI" {
				continue // the others' own API has it
			}
			t.Run(name+"/"+provider, func(t *testing.T) {
				m, s := w.serve(t, func(_ int, body map[string]any) answer {
					switch {
					case len(w.tools(body)) == 0:
						return answer{400, tc.refusal}
					case body["tool_choice"] != nil && !tc.takesChoice:
						return answer{400, `{"error":{"message":"Unknown parameter: 'tool_choice'.","param":"tool_choice"}}`}
					}
					return answer{body: stream(w.text("Two of three.")...)}
				})
				for range 2 { // the second time it is known
					reply, err := ask(t, m, append(called("a", "b"), loop.UserText("Say what is left."))...)
					if err != nil {
						t.Fatal(err)
					}
					if got := strings.Join(reply.Texts(), ""); got != "Two of three." {
						t.Errorf("%q", got)
					}
				}
				last := s.bodies[len(s.bodies)-1]
				if got := w.tools(last); !slices.Equal(got, []string{"set__ping"}) {
					t.Errorf("the tools are %q", got)
				}
				if choice := dump(last); tc.takesChoice && !strings.Contains(strings.ToLower(choice), `"none"`) {
					t.Errorf("a tool may be called: %s", choice)
				}
				if n := len(s.bodies); n > 4 {
					t.Errorf("%d requests", n)
				}
			})
		}
	}
}

// A refusal of one tool's schema names the tool, by which it can be corrected or left out.
func TestARefusedSchemaNamesItsTool(t *testing.T) {
	tools := []loop.ToolDefinition{{Name: "todo"}, {Name: "good__ping"}, {Name: "bad__query"}, {Name: "bad__query_all"}}
	for name, tc := range map[string]struct{ provider, refusal, want string }{
		"OpenAI":            {"OpenAI", `{"error":{"message":"The schema of function 'bad__query' is not valid: in properties.list an array needs items.","type":"invalid_request_error","param":"tools[2].function.parameters","code":"invalid_function_parameters"}}`, "bad__query"},
		"by its number":     {"OpenAI", `{"error":{"message":"Invalid schema.","param":"tools[2].function.parameters"}}`, "bad__query"},
		"Azure":             {"OpenAI", `{"error":{"message":"Invalid schema for function 'bad__query_all': array schema missing items","code":"invalid_function_parameters","param":"tools[3].function.parameters"}}`, "bad__query_all"},
		"FastAPI":           {"OpenAI", `{"detail":[{"loc":["body","tools",2,"function","parameters"],"msg":"not a schema"}]}`, "bad__query"},
		"a text":            {"OpenAI", `{"error":"tool bad__query: parameters are no JSON Schema"}`, "bad__query"},
		"Anthropic":         {"Anthropic", `{"type":"error","error":{"type":"invalid_request_error","message":"tools.2.custom.input_schema: JSON schema is invalid. It must match draft 2020-12"}}`, "bad__query"},
		"Anthropic, older":  {"Anthropic", `{"type":"error","error":{"type":"invalid_request_error","message":"tools.3.input_schema.type: Field required"}}`, "bad__query_all"},
		"Bedrock":           {"Anthropic", `{"message":"The schema of tool bad__query is not valid: items is missing"}`, "bad__query"},
		"by its name alone": {"Anthropic", `{"type":"error","error":{"type":"invalid_request_error","message":"input_schema of \"bad__query_all\" has no type"}}`, "bad__query_all"},
		"Gemini":            {"Gemini", `{"error":{"code":400,"message":"* GenerateContentRequest.tools[0].function_declarations[2].parameters.properties[list].items: missing field.","status":"INVALID_ARGUMENT"}}`, "bad__query"},
		"Gemini, by name":   {"Gemini", `{"error":{"code":400,"message":"Unable to submit request because bad__query functionDeclaration parameters.list schema didn't specify the schema type field.","status":"INVALID_ARGUMENT"}}`, "bad__query"},
		"Gemini, in camels": {"Gemini", `{"error":{"code":400,"message":"Invalid JSON payload: Unknown name \"x\" at 'tools[0].functionDeclarations[3].parameters'","status":"INVALID_ARGUMENT"}}`, "bad__query_all"},
		"Gemini, another":   {"Gemini", `{"error":{"code":400,"message":"The schema of good__ping is too deep.","status":"INVALID_ARGUMENT"}}`, "good__ping"},
		"about a call":      {"OpenAI", `{"error":{"message":"The call of bad__query has no result.","param":"messages[2]"}}`, ""},
		"about none":        {"OpenAI", `{"error":{"message":"temperature is out of range","param":"temperature"}}`, ""},
		"a number too high": {"Anthropic", `{"type":"error","error":{"type":"invalid_request_error","message":"tools.9.custom.input_schema: invalid"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := wires[tc.provider].serve(t, func(int, map[string]any) answer { return answer{400, tc.refusal} })
			_, err := m.Generate(t.Context(), &loop.Request{Messages: []loop.Message{loop.UserText("hello")}, Tools: tools}, func(int) {})
			var e *loop.ModelError
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			if e.RefusedTool != tc.want || e.Cause != loop.CauseModelRequestInvalid || strings.Contains(e.Error(), tc.want) != true {
				t.Errorf("%q, %s: %s", e.RefusedTool, e.Cause, e.Error())
			}
		})
	}
}

// Beside tools, some models take no effort. Where none was asked for, none is what they get; else the end says what to set.
func TestToolsBesideAnEffort(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal string
		asked   string
		// takesNone: the server knows the effort none.
		takesNone bool
		requests  []any // the efforts of the first calls
		fails     bool
	}{
		"none asked for":               {refusedEffort, "", true, []any{nil, "none", "none"}, false},
		"in words":                     {`{"error":{"message":"Function tools with reasoning_effort are not supported for m in /v1/chat/completions. Please use /v1/responses instead.","param":null}}`, "", true, []any{nil, "none", "none"}, false},
		"by a code":                    {`{"error":{"message":"Unsupported value","code":"unsupported_value","param":"reasoning_effort"}}`, "", true, []any{nil, "none", "none"}, false},
		"FastAPI":                      {`{"detail":[{"loc":["body","reasoning_effort"],"msg":"not together with tools"}]}`, "", true, []any{nil, "none", "none"}, false},
		"one asked for":                {refusedEffort, "high", true, []any{"high"}, true},
		"the most asked for":           {refusedEffort, "max", true, []any{"max"}, true},
		"none, which it does not take": {refusedEffort, "", false, []any{nil, "none"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, s := wires["OpenAI"].serve(t, func(_ int, body map[string]any) answer {
				if body["reasoning_effort"] != "none" || !tc.takesNone {
					return answer{400, tc.refusal}
				}
				return answer{body: stream(wires["OpenAI"].text("ok")...)}
			}, func(cfg *model.Config) { cfg.Parameters.ReasoningEffort = tc.asked })
			for range 2 {
				_, err := m.Generate(t.Context(), &loop.Request{Messages: []loop.Message{loop.UserText("hello")}, Tools: []loop.ToolDefinition{{Name: "todo"}}}, func(int) {})
				if (err != nil) != tc.fails {
					t.Fatal(err)
				}
				if err != nil {
					if !strings.Contains(err.Error(), "set spec.parameters.reasoningEffort of the AgentModel") {
						t.Errorf("the error does not say what to set: %v", err)
					}
					break
				}
			}
			var efforts []any
			for _, b := range s.bodies {
				efforts = append(efforts, b["reasoning_effort"])
			}
			if !slices.Equal(efforts, tc.requests) {
				t.Errorf("the efforts were %v, want %v", efforts, tc.requests)
			}
		})
	}
}

const refusedEffort = `{"error":{"message":"Tools of kind function do not go together with reasoning_effort for m on this path. Use the responses path, or set reasoning_effort to 'none'.","type":"invalid_request_error","param":"reasoning_effort","code":null}}`

// Each provider has its own scale of efforts. What is beyond it is its most.
func TestEveryEffortIsTakenByEveryProvider(t *testing.T) {
	for provider, want := range map[string]map[string]string{
		"OpenAI":    {"xhigh": `"reasoning_effort":"xhigh"`, "max": `"reasoning_effort":"max"`, "low": `"reasoning_effort":"low"`, "none": `"reasoning_effort":"none"`},
		"Anthropic": {"xhigh": `"effort":"xhigh"`, "max": `"effort":"max"`, "low": `"effort":"low"`, "none": `"type":"disabled"`},
		"Gemini":    {"xhigh": `"thinkingLevel":"HIGH"`, "max": `"thinkingLevel":"HIGH"`, "low": `"thinkingLevel":"LOW"`, "none": `"thinkingLevel":"MINIMAL"`},
	} {
		for effort, sent := range want {
			w := wires[provider]
			m, s := w.serve(t, always(stream(w.text("ok")...)), func(cfg *model.Config) {
				cfg.Model, cfg.Parameters.ReasoningEffort = map[string]string{"OpenAI": "gpt-x", "Anthropic": "claude-opus-4-7", "Gemini": "gemini-3-pro"}[provider], effort
			})
			if _, err := ask(t, m); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(dump(s.bodies[0]), sent) {
				t.Errorf("%s, %s: %s", provider, effort, dump(s.bodies[0]))
			}
		}
	}
}

// Mistral's API, and the templates of its models elsewhere, refuse a user's message right after a tool's.
func TestAUsersMessageMayFollowAToolsWhereverItMust(t *testing.T) {
	for name, refusal := range map[string]string{
		"Mistral":    `{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","param":null,"code":"3230"}`,
		"in capital": `{"error":{"message":"Unexpected role \"USER\" after role \"TOOL\"."}}`,
		"by a text":  `{"error":"unexpected role user after role tool"}`,
		"FastAPI":    `{"detail":"Unexpected role 'user' after role 'tool'"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := wires["OpenAI"]
			m, s := w.serve(t, func(_ int, body map[string]any) answer {
				last := ""
				for _, message := range list(body["messages"]) {
					role := fmt.Sprint(object(message)["role"])
					if role == "user" && last == "tool" {
						return answer{400, refusal}
					}
					last = role
				}
				return answer{body: stream(w.text("ok")...)}
			})
			for range 2 {
				if _, err := ask(t, m, append(called("a"), loop.UserText("Of the task's limits, this is left: 1 of 5 turns."))...); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(s.bodies); n != 3 {
				t.Errorf("%d requests: it is remembered", n)
			}
		})
	}
}
