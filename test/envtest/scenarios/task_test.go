package scenarios

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

func (p *player) task() *v1alpha1.AgentTask { return tasks.task(p.namespace) }

func (p *player) describe() string {
	st := p.task().Status
	return fmt.Sprintf("%s/%s %q after %d iterations, output %q, question %q", st.Phase, st.ExitReason, st.Message,
		deref(st.Iterations), st.Output, deref(st.InputRequest).Question)
}

func deref[T any](v *T) (zero T) {
	if v == nil {
		return zero
	}
	return *v
}

// wireFields are a spec's fields in the API's words, where these differ from the scenarios'.
func (p *player) wireFields(in map[string]any) map[string]any {
	out := maps.Clone(in)
	for _, field := range []string{"resumeInput", "resumeInputID"} {
		if out[field] == "" {
			out[field] = nil // taken away
		}
	}
	if c, ok := out["context"].(map[string]any); ok && c["mode"] == string(v1alpha1.ContextFresh) {
		// What a scenario leaves out is off, and the API's default is on.
		out["context"] = looptest.Merged(map[string]any{"progressLog": false}, c)
	}
	if c, ok := out["completion"].(map[string]any); ok {
		c = maps.Clone(c)
		if c["strategy"] != nil && c["strategy"] != string(v1alpha1.CompletionSignal) {
			c = looptest.Merged(map[string]any{"judge": map[string]any{}}, c) // the task's own model, which is not the default
		}
		if expression, ok := c["stopWhen"].(string); ok {
			for _, t := range p.tools {
				expression = strings.ReplaceAll(expression, fmt.Sprintf("%q", t.Name), fmt.Sprintf("%q", p.visible(t.Name)))
			}
			c["stopWhen"] = expression
		}
		out["completion"] = c
	}
	return out
}

// patch changes the task's spec as a user does, and waits until the operator's cache holds that.
func (p *player) patch(changes map[string]any) {
	p.Helper()
	if changes["resumeInputID"] == "open" {
		changes = looptest.Merged(changes, map[string]any{"resumeInputID": p.state().Question.ID})
	}
	p.fields = looptest.Merged(p.fields, changes)
	p.send(p.wireFields(changes))
}

// wake makes the operator look at the task again, by a change that changes nothing for it.
func (p *player) wake() {
	p.Helper()
	p.wakes++
	p.send(map[string]any{"ttlSecondsAfterFinished": 1_000_000 + p.wakes})
}

func (p *player) send(spec map[string]any) {
	p.Helper()
	raw, err := json.Marshal(map[string]any{"spec": spec})
	p.must(err)
	task := &v1alpha1.AgentTask{ObjectMeta: p.meta("task")}
	p.must(kube.Patch(p.ctx, task, client.RawPatch(types.MergePatchType, raw)))
	p.generation = task.Generation
	p.known(&v1alpha1.AgentTask{ObjectMeta: p.meta("task")}, p.generation)
}

// expect waits until all is as wanted. A task that has ended stays as it is, and one that asks for a reply after the last
// turn is not going to end as it should, so nothing is waited for then.
func (p *player) expect(when string, want *looptest.Expect, last bool) {
	p.Helper()
	var wrong []string
	late := time.Now().Add(patience / 2)
	p.until("what is expected "+when, func() bool {
		ended := p.task().Finished() || last && p.pending != nil
		wrong = p.differences(want)
		return len(wrong) == 0 || ended || time.Now().After(late)
	})
	for _, w := range wrong {
		p.Errorf("%s: %s", when, w)
	}
	if p.Failed() {
		p.Fatalf("%s, the task is %s", when, p.describe())
	}
}

// differences are what of the task is not as wanted.
func (p *player) differences(want *looptest.Expect) []string {
	p.Helper()
	task := p.task()
	st := &task.Status
	d := &diff{}
	exit := string(st.ExitReason)
	if exit == "" {
		exit = string(st.Phase)
	}
	if want.Exit != "" {
		compare(d, "exit", exit, &want.Exit)
	}
	if task.Finished() {
		cause := want.Cause
		if cause == "" {
			cause = want.Exit
		}
		compare(d, "the reason of Finished", meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionFinished).Reason, &cause)
	}
	if !strings.Contains(st.Message, want.Message) {
		d.add("message", st.Message, "text with "+want.Message)
	}
	question := deref(st.InputRequest)
	text := plainNames(question.Question)
	compare(d, "question", text, want.Question)
	if want.Kind != "" {
		compare(d, "kind", string(question.Kind), &want.Kind)
	}
	compare(d, "iterations", int64(deref(st.Iterations)), want.Iterations)
	compare(d, "summary", st.Summary, want.Summary)
	usage := deref(st.Usage)
	compare(d, "tokens", deref(usage.TotalTokens), want.Tokens)
	compare(d, "estimated", deref(usage.Estimated), want.Estimated)
	if want.Active != nil {
		seconds := int64(*want.Active / time.Second)
		compare(d, "activeSeconds", deref(st.ActiveSeconds), &seconds)
	}
	compare(d, "model calls", p.modelCalls, want.ModelCalls)
	if runs := p.kit.ran(); want.ToolRuns != nil && !maps.Equal(runs, want.ToolRuns) {
		d.add("tool runs", runs, want.ToolRuns)
	}
	p.compareJournal(d, task, want)
	return d.found
}

// compareJournal compares what the status does not show: the agent's list, and the output of a task that runs.
func (p *player) compareJournal(d *diff, task *v1alpha1.AgentTask, want *looptest.Expect) {
	p.Helper()
	shown := task.Finished() || task.Status.InputRequest != nil || task.Status.Phase == v1alpha1.PhaseSuspended
	if shown {
		compare(d, "output", task.Status.Output, want.Output)
	}
	if want.Todo == nil && (shown || want.Output == nil) {
		return
	}
	s := p.state()
	if !shown {
		compare(d, "output", s.Output, want.Output)
	}
	var open []string
	for _, item := range s.Todo {
		if !item.Done {
			open = append(open, item.Text)
		}
	}
	if want.Todo != nil && !slices.Equal(open, want.Todo) {
		d.add("open items", open, want.Todo)
	}
}

type diff struct{ found []string }

func (d *diff) add(what string, got, want any) {
	d.found = append(d.found, fmt.Sprintf("%s is %#v, want %#v", what, got, want))
}

func compare[T comparable](d *diff, what string, got T, want *T) {
	if want != nil && got != *want {
		d.add(what, got, *want)
	}
}
