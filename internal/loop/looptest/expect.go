package looptest

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// exit is how the task stands: its exit reason, or Suspended or Running.
func (p *Player) exit() string {
	switch reason := p.state.ExitReason(); {
	case reason != "":
		return string(reason)
	case p.state.Suspended:
		return "Suspended"
	}
	return "Running"
}

// wholeSentences begin with a capital letter or with the name of a field, and end with a full stop. A brokenSentence is followed by
// another one without a full stop: a bracket, or two of them.
var wholeSentences = regexp.MustCompile(`^(?:[A-Z]|spec\.|max)[^)]*(?:\)[^)]*)*\.$`)

var brokenSentence = regexp.MustCompile(`\) [A-Z]|\.\.|\. [a-z]`)

// expect checks what the scenario says of the task.
func (p *Player) expect(when string, want *Expect) {
	p.t.Helper()
	s := p.state
	equal(p, when, "exit", p.exit(), want.Exit, want.Exit != "")
	if s.End != nil {
		equal(p, when, "cause", string(s.End.Cause), want.Cause, true)
		if m := s.End.Message; !wholeSentences.MatchString(m) || brokenSentence.MatchString(m) {
			p.t.Errorf("%s: message is %q, which is no whole sentences", when, s.End.Message)
		}
		if !strings.Contains(s.End.Message, want.Message) {
			p.t.Errorf("%s: message is %q, want it to contain %q", when, s.End.Message, want.Message)
		}
		given(p, when, "summary", s.End.Summary, want.Summary)
	}
	given(p, when, "iterations", s.Iterations, want.Iterations)
	given(p, when, "output", p.output(), want.Output)
	given(p, when, "tokens", s.Usage.Total(), want.Tokens)
	given(p, when, "estimated", s.Usage.Estimated, want.Estimated)
	given(p, when, "active time", p.specs.Spec().Active(s, p.clock.Now()), want.Active)
	given(p, when, "model calls", p.modelRun, want.ModelCalls)
	if want.ToolRuns != nil && !maps.Equal(p.toolRuns, want.ToolRuns) {
		p.t.Errorf("%s: tools ran %v times, want %v", when, p.toolRuns, want.ToolRuns)
	}
	question, kind := "", ""
	if s.Question != nil {
		question, kind = s.Question.Question, string(s.Question.Kind)
	}
	given(p, when, "question", question, want.Question)
	equal(p, when, "kind", kind, want.Kind, want.Kind != "")
	if want.Todo != nil {
		var open []string
		for _, item := range s.Todo {
			if !item.Done {
				open = append(open, item.Text)
			}
		}
		if !slices.Equal(open, want.Todo) {
			p.t.Errorf("%s: open items are %q, want %q", when, open, want.Todo)
		}
	}
}

// output is what status.output shows.
func (p *Player) output() string {
	if e := p.state.End; e != nil && e.Output != "" {
		return e.Output
	}
	return p.state.Output
}

func given[T comparable](p *Player, when, what string, got T, want *T) {
	p.t.Helper()
	if want != nil {
		equal(p, when, what, got, *want, true)
	}
}

func equal[T comparable](p *Player, when, what string, got, want T, looked bool) {
	p.t.Helper()
	if looked && got != want {
		p.t.Errorf("%s: %s is %v, want %v", when, what, show(got), show(want))
	}
}

func show(v any) any {
	if s, ok := v.(string); ok {
		return `"` + s + `"`
	}
	if d, ok := v.(time.Duration); ok {
		return d.String()
	}
	return v
}
