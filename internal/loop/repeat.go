package loop

import (
	"slices"
	"strings"
)

func (s *State) countRepeat(now trace) {
	if s.Repeats > 0 && now.same(&s.last) {
		s.Repeats++
		return
	}
	s.last, s.Repeats = now, 1
}

// trace is what of a turn must come back word for word to be a repeat: its text, or its calls with their results.
type trace struct {
	texts   []string
	calls   []ToolCall
	results []ToolResult
}

func (t *trace) same(o *trace) bool {
	sameCall := func(a, b ToolCall) bool { return a.Name == b.Name && a.Arguments == b.Arguments }
	sameResult := func(a, b ToolResult) bool { return a.Content == b.Content }
	if !slices.EqualFunc(t.calls, o.calls, sameCall) || !slices.EqualFunc(t.results, o.results, sameResult) {
		return false
	}
	return strings.TrimSpace(joinTexts(t.texts)) == strings.TrimSpace(joinTexts(o.texts))
}
