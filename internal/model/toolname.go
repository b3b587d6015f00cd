package model

import "regexp"

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
