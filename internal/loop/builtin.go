package loop

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop/signal"
)

// The built-in tools: signals for models that call tools rather than write lines, and a list of what is left to do.
const (
	ToolTaskComplete = "task_complete"
	ToolNeedInput    = "need_input"
	ToolTodo         = "todo"
)

// IsBuiltin tells whether the loop itself runs the tool of that name.
func IsBuiltin(name string) bool {
	return name == ToolTaskComplete || name == ToolNeedInput || name == ToolTodo
}

func builtinTools(sp *Spec) []ToolDefinition {
	output := ""
	if sp.Output != nil {
		output = `,"output":{"description":"The result. It must satisfy the output schema of your instructions."}`
	}
	return []ToolDefinition{
		{
			Name:        ToolTaskComplete,
			Description: "Say that the task is done. Call it only when everything that was asked for is done. It means the same as a line TASK_COMPLETE: summary.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"summary":{"type":"string","description":"What was done, in a few sentences."}` + output + `},"required":["summary"]}`),
		},
		{
			Name:        ToolNeedInput,
			Description: "Ask the human a question and stop until it is answered. It means the same as a line NEED_INPUT: question.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"question":{"type":"string"},"choices":{"type":"array","items":{"type":"string"}}},"required":["question"]}`),
		},
		{
			Name:        ToolTodo,
			Description: "Replace your list of what is to be done. Keep it current; you are reminded of its open items.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"text":{"type":"string"},"done":{"type":"boolean"}},"required":["text"]}}},"required":["items"]}`),
		},
	}
}

type completeArgs struct {
	Summary string          `json:"summary"`
	Output  json.RawMessage `json:"output"`
}

type needInputArgs struct {
	Question string   `json:"question"`
	Choices  []string `json:"choices"`
}

type todoArgs struct {
	Items []TodoItem `json:"items"`
}

// These bound the list that every nudge repeats: its items, and the text of each in bytes of JSON.
const (
	maxTodoItems = 50
	maxTodoText  = 500
)

// runBuiltin runs a built-in tool. A signal takes effect only when the results are in and all of them succeeded.
func runBuiltin(c ToolCall) (result ToolResult, todo []TodoItem) {
	ok := func(text string) ToolResult { return ToolResult{CallID: c.ID, Name: c.Name, Content: text} }
	switch c.Name {
	case ToolTaskComplete:
		var a completeArgs
		if err := decodeArgs(c.Arguments, &a); err != nil {
			return failedResult(c, err.Error()), nil
		}
		return ok("Noted."), nil
	case ToolNeedInput:
		var a needInputArgs
		if err := decodeArgs(c.Arguments, &a); err != nil {
			return failedResult(c, err.Error()), nil
		}
		if strings.TrimSpace(a.Question) == "" {
			return failedResult(c, `the argument "question" is empty: write what you need to know`), nil
		}
		return ok("The question is put to the human. The answer is the next message."), nil
	}
	var a todoArgs
	if err := decodeArgs(c.Arguments, &a); err != nil {
		return failedResult(c, err.Error()), nil
	}
	if len(a.Items) > maxTodoItems {
		return failedResult(c, fmt.Sprintf("the list has %d items, at most %d are kept: make it shorter", len(a.Items), maxTodoItems)), nil
	}
	for i := range a.Items {
		a.Items[i].Text = cutJSON(a.Items[i].Text, maxTodoText)
	}
	return ok(fmt.Sprintf("The list has %d items, %d of them open.", len(a.Items), len(openItems(a.Items)))), append([]TodoItem{}, a.Items...)
}

func decodeArgs(args string, into any) error {
	if err := json.Unmarshal([]byte(orEmptyObject(args)), into); err != nil {
		return fmt.Errorf("the arguments are not JSON of the tool's schema (%s): correct them and call again", jsonFault(err))
	}
	return nil
}

func orEmptyObject(args string) string {
	if a := strings.TrimSpace(args); a == "" || a == "null" {
		return "{}"
	}
	return args
}

func jsonFault(err error) string { return cutAt(err.Error(), 200) }

func failedResult(c ToolCall, why string) ToolResult {
	return ToolResult{CallID: c.ID, Name: c.Name, Content: why, IsError: true}
}

func openItems(items []TodoItem) []string {
	var open []string
	for _, i := range items {
		if !i.Done {
			open = append(open, i.Text)
		}
	}
	return open
}

// nativeSignal finds what the built-in calls of a reply signal; the rules are those of text: a question wins, questions are
// joined, the last completion counts.
func nativeSignal(calls []ToolCall, results []ToolResult) (signal.Signal, bool) {
	failed := map[string]bool{}
	for _, r := range results {
		failed[r.CallID] = r.IsError
	}
	var questions []string
	out := signal.Signal{}
	for _, c := range calls {
		if failed[c.ID] {
			continue
		}
		switch c.Name {
		case ToolTaskComplete:
			var a completeArgs
			if decodeArgs(c.Arguments, &a) == nil {
				out = signal.Signal{Kind: signal.Complete, Payload: strings.TrimSpace(a.Summary)}
			}
		case ToolNeedInput:
			var a needInputArgs
			if decodeArgs(c.Arguments, &a) == nil && strings.TrimSpace(a.Question) != "" {
				q := strings.TrimSpace(a.Question)
				if len(a.Choices) > 0 {
					q += "\nChoices: " + strings.Join(a.Choices, " | ")
				}
				questions = append(questions, q)
			}
		}
	}
	if len(questions) > 0 {
		out = signal.Signal{Kind: signal.NeedInput, Payload: strings.Join(questions, "\n")}
	}
	return out, out.Kind != signal.None
}

// strongerSignal joins the signal of a reply's text with that of its built-in calls.
func strongerSignal(text, native signal.Signal) signal.Signal {
	switch {
	case text.Kind == signal.NeedInput && native.Kind == signal.NeedInput:
		if text.Payload == native.Payload {
			return native
		}
		return signal.Signal{Kind: signal.NeedInput, Payload: text.Payload + "\n" + native.Payload}
	case text.Kind == signal.NeedInput:
		return text
	case native.Kind == text.Kind && native.Payload == "":
		return text // an empty summary does not hide one
	}
	return native
}
