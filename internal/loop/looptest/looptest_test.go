package looptest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// recorder keeps what a test would have failed with.
type recorder struct {
	testing.TB
	failed []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

const ends = "- agent: 'TASK_COMPLETE: done'\nexpect: {exit: Completed}\n"

// A scenario that is not so fails: each expectation bites.
func TestPlayerFindsWhatIsNotSo(t *testing.T) {
	for name, c := range map[string]struct{ scenario, want string }{
		"it is so":       {"turns:\n" + ends, ""},
		"exit":           {"turns:\n- agent: 'NEED_INPUT: a?'\nexpect: {exit: Completed}", `exit is "NeedInput", want "Completed"`},
		"cause":          {"turns:\n- {agent: x, finish: refusal}\nexpect: {exit: Error}", `cause is "ModelRefused", want ""`},
		"message":        {"turns:\n- agent: 'TASK_COMPLETE: done'\nexpect: {exit: Completed, message: bananas}", "bananas"},
		"numbers":        {"turns:\n- agent: 'TASK_COMPLETE: done'\nexpect: {exit: Completed, iterations: 2, active: 1h}", "active time is 0s, want 1h0m0s"},
		"tool runs":      {"turns:\n- agent: 'TASK_COMPLETE: done'\nexpect: {exit: Completed, toolRuns: {a: 1}}", "want map[a:1]"},
		"todo":           {"turns:\n- agent: 'TASK_COMPLETE: done'\nexpect: {exit: Completed, todo: [a]}", `want ["a"]`},
		"sees":           {"turns:\n- {agent: 'TASK_COMPLETE: done', sees: [bananas]}\nexpect: {exit: Completed}", "does not contain"},
		"sees not":       {"spec: {prompt: " + strings.Repeat("long ", 1000) + "}\nturns:\n- {agent: 'TASK_COMPLETE: done', seesNot: [long]}\nexpect: {exit: Completed}", "contains"},
		"a reply more":   {"turns:\n" + "- agent: 'TASK_COMPLETE: done'\n" + ends, "turn 2 is never asked for: the task has ended"},
		"a reply less":   {"turns: [agent: x]\nexpect: {exit: Completed}", "a reply that the scenario does not have"},
		"another reply":  {"turns: [judge: x]\nexpect: {exit: Completed}", "where the scenario has a reply for judge"},
		"it waits":       {"turns:\n- agent: 'NEED_INPUT: a?'\n" + ends, "turn 2 is never asked for: the loop waits"},
		"an error":       {"turns: [{agent: x, error: Bananas}]\nexpect: {exit: Completed}", "no error"},
		"a predicate":    {"spec: {completion: {stopWhen: bananas}}\nturns: []\nexpect: {exit: Completed}", "stopWhen"},
		"a schema":       {"spec: {outputSchema: {type: 3}}\nturns: []\nexpect: {exit: Completed}", "outputSchema"},
		"a kind of spec": {"spec: {maxIterations: many}\nturns: []\nexpect: {exit: Completed}", "spec"},
	} {
		t.Run(name, func(t *testing.T) {
			scenarios, err := load(t, "name: n\nwhy: w\n"+c.scenario)
			if err != nil {
				t.Fatal(err)
			}
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				Play(r, &scenarios[0])
			}()
			<-done
			got := strings.Join(r.failed, "\n")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("it fails with %q, want %q", got, c.want)
			}
		})
	}
}

// A scenario that is written wrongly is refused, not half understood.
func TestLoadRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a field":      {"name: n\nwhy: w\nbananas: 1", "bananas"},
		"no name":      {"why: w\nexpect: {exit: Completed}", "are needed"},
		"no turn":      {"name: n\nwhy: w\nexpect: {exit: Completed}\nturns: [{finish: length}]", "turn 1 is 0 things"},
		"two turns":    {"name: n\nwhy: w\nexpect: {exit: Completed}\nturns: [{agent: a, judge: b}]", "turn 1 is 2 things"},
		"no duration":  {"name: n\nwhy: w\nexpect: {exit: Completed}\nturns: [{time: soon}]", "time.Duration"},
		"the second":   {"name: n\nwhy: w\nexpect: {exit: Completed}\n---\nname: m", "are needed"},
		"no YAML here": {"{", "scenario 1"},
	} {
		if _, err := load(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Load("["); err == nil {
		t.Error("a wrong pattern is no directory")
	}
}

func load(t *testing.T, text string) ([]Scenario, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(dir)
}
