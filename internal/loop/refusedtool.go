package loop

import (
	"fmt"
	"maps"
	"time"
)

// maxRefusedTools is how many tools a task may lose to a model server that refuses their schemas. Each costs it a request.
const maxRefusedTools = 20

// canDoWithout tells whether the task goes on without a tool whose schema was refused.
func (s *State) canDoWithout(tool string) bool {
	return tool != "" && !IsBuiltin(tool) && !s.RefusedTools[tool] && len(s.RefusedTools) < maxRefusedTools
}

// refuse notes that a tool is not offered any more. The map is made anew: others may hold the former one.
func (s *State) refuse(tool string) {
	refused := maps.Clone(s.RefusedTools)
	if refused == nil {
		refused = map[string]bool{}
	}
	refused[tool] = true
	s.RefusedTools = refused
	s.Failures, s.RetryAt = 0, time.Time{}
}

// cannotOffer answers a call of a tool that is not offered any more.
func (s *State) cannotOffer(c ToolCall) string {
	if !s.RefusedTools[c.Name] {
		return ""
	}
	return fmt.Sprintf("There is no tool %q any more: the model's server refused its schema.", c.Name)
}
