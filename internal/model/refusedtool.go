package model

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// toolPaths find the number of a tool in the path to a part of its definition: tools[4].function.parameters of OpenAI,
// tools.4.custom.input_schema of Anthropic, tools[0].function_declarations[4].parameters of Gemini, ["body","tools",4,"function"] of
// FastAPI.
var toolPaths = patterns(
	`function_?declarations(?:\[|\.)(?P<tool>\d+)`,
	`\btools"?(?:\[|\.|, ?)(?P<tool>\d+)(?:\]?\.(?:function|custom|input_schema|parameters)|\]?, ?"function)`,
)

// schemaWords are in a message about the definition of a tool. Others name a tool as well, such as one about a call of it.
var schemaWords = regexp.MustCompile(`schema|parameters|properties|\bitems\b`)

// prose is what a provider said, for those who look for more in it. It is a function, so that nothing that prints an error shows it.
type prose func() string

func (prose) Error() string { return "what the provider said is not shown" }

// noteRefusedTool completes an error by which a provider refuses the definition of one of the request's tools.
func noteRefusedTool(err error, tools []loop.ToolDefinition) {
	var (
		e    *loop.ModelError
		text prose
	)
	if !errors.As(err, &e) || !errors.As(err, &text) || e.Cause != loop.CauseModelRequestInvalid || e.OutputCap != nil || !isRejection(e.Status) {
		return
	}
	e.Err = nil
	if e.RefusedTool = refusedTool(text(), tools); e.RefusedTool != "" {
		e.Detail = fmt.Sprintf("the model server refuses the schema of tool %q: correct it in its tool server, or deny the tool in spec.deny of its AgentToolset", e.RefusedTool)
	}
}

func refusedTool(text string, tools []loop.ToolDefinition) string {
	lower := strings.ToLower(text)
	if !schemaWords.MatchString(lower) {
		return ""
	}
	longest := ""
	for _, t := range tools {
		if len(t.Name) > len(longest) && namesWord(text, t.Name) {
			longest = t.Name
		}
	}
	if longest != "" {
		return longest
	}
	for _, re := range toolPaths {
		if n, ok := figuresIn(re, lower)["tool"]; ok && n < int64(len(tools)) {
			return tools[n].Name
		}
	}
	return ""
}

// namesWord tells whether a text has a name that is no part of a longer one.
func namesWord(text, name string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(name)
		if (from == 0 || !inWord(text[from-1])) && (to == len(text) || !inWord(text[to])) {
			return true
		}
		at = from + 1
	}
}

func inWord(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
