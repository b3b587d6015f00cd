package model

import (
	"regexp"
	"slices"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// maxToolName is the longest name that OpenAI, Anthropic and the servers compatible with them take.
const maxToolName = 64

var notInToolNames = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// AcceptableToolName is the name where it matches ^[a-zA-Z0-9_-]{1,64}$, as the providers want it, else one made of it that
// does. It is for the calls of the history: a name that the model made up would have every later request rejected.
func AcceptableToolName(name string) string {
	name = notInToolNames.ReplaceAllString(name, "_")
	if name == "" {
		return "unknown"
	}
	return name[:min(len(name), maxToolName)]
}

// HistoryTools are the tools that a conversation has calls of, by their acceptable names and of any input. Some servers refuse a
// conversation with calls where no tools are declared, as in a last call that is to make none.
func HistoryTools(messages []loop.Message) (out []loop.ToolDefinition) {
	seen := map[string]bool{}
	for _, m := range messages {
		for _, c := range m.ToolCalls {
			if name := AcceptableToolName(c.Name); !seen[name] {
				seen[name] = true
				out = append(out, loop.ToolDefinition{Name: name})
			}
		}
	}
	slices.SortFunc(out, func(a, b loop.ToolDefinition) int { return strings.Compare(a.Name, b.Name) })
	return out
}
