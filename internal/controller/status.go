package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/resolve"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// Waiting says why a task does not go on by itself.
type Waiting = resolve.Waiting

// Projection is all that a status is made of.
type Projection struct {
	State *loop.State
	Stats transcript.Stats
	// Task is the task's name, for the commands that its messages give.
	Task types.NamespacedName
	// Model is the AgentModel, nil while it is not known.
	Model *types.NamespacedName
	// Waiting is why the task does not go on by itself, nil for none.
	Waiting *Waiting
	// Active is the time that the task has spent running.
	Active time.Duration
	// UnusedAnswer says why spec.resumeInput does not answer the open question, empty for nothing.
	UnusedAnswer string
	// Suspend is the spec's.
	Suspend bool
	// InputTimeout gives the open question its deadline.
	InputTimeout time.Duration
	Generation   int64
	Now          time.Time
}

// ProjectStatus makes a task's status of its journal. Before is the status that stands; what did not change keeps its times.
func ProjectStatus(before *v1alpha1.AgentTaskStatus, p Projection) v1alpha1.AgentTaskStatus {
	s := p.State
	st := v1alpha1.AgentTaskStatus{
		Phase: phase(p), ExitReason: v1alpha1.LoopExitReason(s.ExitReason()), Message: message(p),
		Iterations: new(int32(s.Iterations)), Usage: usage(s), InputRequest: inputRequest(p),
		Model: before.Model, ObservedGeneration: p.Generation, Conditions: before.Conditions,
	}
	if p.Model != nil {
		st.Model = &v1alpha1.ObjectReference{Namespace: p.Model.Namespace, Name: p.Model.Name}
	}
	if s.Started() {
		st.StartTime = new(metav1.NewTime(s.StartedAt).Rfc3339Copy())
		st.ActiveSeconds = new(int64(p.Active / time.Second))
		st.Transcript = &v1alpha1.TranscriptStatus{Segments: &p.Stats.Segments, Events: &p.Stats.Events, Bytes: &p.Stats.Bytes}
	}
	if s.End != nil || s.Question != nil || p.suspended() {
		st.Output = s.Output // only at a pause or an end: it is large, and each write rewrites it
	}
	if s.End != nil {
		st.CompletionTime = new(metav1.NewTime(s.EndedAt).Rfc3339Copy())
		st.Summary = s.End.Summary
		if s.End.Output != "" {
			st.Output = s.End.Output
		}
	}
	show(&st)
	st.Conditions = conditions(st, p)
	return st
}

// maxMessageBytes is what the API takes of a message.
const maxMessageBytes = 2048

// show makes the texts of a status what they may be seen as: models, tools and servers wrote most of them, and people read them
// raw. They are escaped first and cut then, so none is longer than the API takes. The journal has them as they were.
func show(st *v1alpha1.AgentTaskStatus) {
	limits := map[*string]int{&st.Message: maxMessageBytes, &st.Summary: loop.MaxSummaryBytes, &st.Output: loop.MaxOutputBytes}
	if q := st.InputRequest; q != nil {
		limits[&q.Question] = loop.MaxQuestionBytes
		for i := range q.ToolCalls { // their ids and names are shown as they are, or not at all
			limits[q.ToolCalls[i].Arguments] = loop.MaxShownArguments
		}
	}
	delete(limits, nil) // arguments that an older operator left out
	for text, limit := range limits {
		*text = loop.Cut(loop.Visible(*text), limit)
	}
}

// suspended tells whether the task is held, be it before its start.
func (p *Projection) suspended() bool {
	return p.State.Suspended || p.Suspend && !p.State.Started()
}

func phase(p Projection) v1alpha1.AgentTaskPhase {
	s := p.State
	switch {
	case s.ExitReason() != "":
		return v1alpha1.LoopExitReason(s.ExitReason()).Phase()
	case p.suspended():
		return v1alpha1.PhaseSuspended
	case s.Started():
		return v1alpha1.PhaseRunning
	}
	return v1alpha1.PhasePending
}

func message(p Projection) string {
	s := p.State
	switch {
	case s.End != nil:
		return cmp.Or(s.End.Message, "The task has ended.")
	case p.Waiting != nil && p.Waiting.Held:
		return p.Waiting.Message
	case s.Question != nil:
		return question(p)
	case p.suspended():
		return "Held by spec.suspend. Set it to false to go on."
	case p.Waiting != nil:
		return p.Waiting.Message
	case s.Failures > 0:
		return retrying(s)
	case s.Started():
		return "The agent is working."
	}
	return "The task is about to start."
}

// retrying tells of a model call that failed and is tried again. It names no number that grows.
func retrying(s *loop.State) string {
	text := "A model call failed, and is tried again for as long as spec.retry of its AgentModel says: " + s.LastFailure.Message
	if s.LastFailure.RetryAfter >= time.Minute {
		text += " The model server asks to wait until " + s.RetryAt.UTC().Format(time.RFC3339) + "."
	}
	return text
}

// question tells how the open question is answered, as a command.
func question(p Projection) string {
	q := p.State.Question
	text, answer := "The agent asks a question: see status.inputRequest.question.", "YOUR ANSWER"
	if q.Kind == loop.QuestionApproval {
		text, answer = "A tool call waits for approval: see status.inputRequest.toolCalls.", "approve"
	}
	if p.UnusedAnswer != "" {
		text = p.UnusedAnswer
	}
	text += " Answer it by: " + answerCommand(p.Task, q.ID, answer)
	if q.Kind == loop.QuestionApproval {
		text += " (or \"deny: reason\")"
	}
	if q.InputHash != "" && p.UnusedAnswer == "" {
		text += " What spec.resumeInput holds already, from a question before, answers this one only beside this resumeInputID."
	}
	return text
}

// answerManager is the field manager of the answer's command. Flux drops what managers named kubectl* have set.
const answerManager = "agenttask-answer"

func answerCommand(task types.NamespacedName, id, answer string) string {
	return fmt.Sprintf(`kubectl patch agenttask %s -n %s --field-manager=%s --type=merge -p '{"spec":{"resumeInputID":%q,"resumeInput":%q}}'`,
		task.Name, task.Namespace, answerManager, id, answer)
}

func usage(s *loop.State) *v1alpha1.TokenUsage {
	u := s.Usage
	out := &v1alpha1.TokenUsage{
		InputTokens: &u.InputTokens, OutputTokens: &u.OutputTokens, CachedInputTokens: &u.CachedInputTokens, TotalTokens: new(u.Total()),
	}
	if u.Estimated {
		out.Estimated = new(true)
	}
	if amount, currency, ok := s.Cost(); ok {
		out.Cost, out.Currency = amount, currency
	}
	return out
}

func inputRequest(p Projection) *v1alpha1.InputRequest {
	q := p.State.Question
	if q == nil {
		return nil
	}
	out := &v1alpha1.InputRequest{
		ID: q.ID, Kind: v1alpha1.InputRequestKind(q.Kind), Question: q.Question,
		AskedAt: metav1.NewTime(q.AskedAt).Rfc3339Copy(),
	}
	if p.InputTimeout > 0 {
		out.Deadline = new(metav1.NewTime(q.AskedAt.Add(p.InputTimeout)).Rfc3339Copy())
	}
	for _, c := range q.Calls {
		out.ToolCalls = append(out.ToolCalls, v1alpha1.PendingToolCall{ID: c.ID, Name: c.Name, Arguments: &c.Arguments})
	}
	return out
}

// conditions are the kstatus ones and Finished. Their messages name no numbers that grow, so that they change only with the state.
func conditions(st v1alpha1.AgentTaskStatus, p Projection) []metav1.Condition {
	out := append([]metav1.Condition{}, st.Conditions...)
	reason := conditionReason(st, p)
	set := func(kind string, on bool, reason, message string) {
		c := metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message,
			ObservedGeneration: st.ObservedGeneration, LastTransitionTime: metav1.NewTime(p.Now).Rfc3339Copy(),
		}
		if on {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&out, c)
	}
	ended, success := p.State.End != nil, st.Phase == v1alpha1.PhaseSucceeded
	stuck := !ended && p.Waiting != nil && p.Waiting.Stuck
	set(v1alpha1.ConditionReady, success, reason, st.Message)
	set(v1alpha1.ConditionReconciling, !ended && !stuck, reason, st.Message)
	set(v1alpha1.ConditionStalled, ended && !success || stuck, reason, st.Message)
	if ended {
		set(v1alpha1.ConditionFinished, true, reason, st.Message)
	} else {
		set(v1alpha1.ConditionFinished, false, "NotFinished", "The task has not ended.")
	}
	if refused := slices.Sorted(maps.Keys(p.State.RefusedTools)); len(refused) > 0 {
		set(v1alpha1.ConditionToolsWithheld, true, "SchemaRefused", "Not offered, since the model's server refused their schemas: "+firstTools(refused)+
			". The task goes on without them. Correct them at their tool server, or leave them out by spec.deny of their AgentToolset (a name here is toolset__tool).")
	}
	return out
}

func conditionReason(st v1alpha1.AgentTaskStatus, p Projection) string {
	s := p.State
	switch {
	case s.End != nil && s.End.Cause != "":
		return string(s.End.Cause)
	case s.End != nil:
		return string(s.End.Reason)
	case p.Waiting != nil && (p.Waiting.Held || p.Waiting.Stuck || s.Question == nil && !p.suspended()):
		return p.Waiting.Reason
	case s.Question == nil && !p.suspended() && s.Failures > 0:
		return "RetryingModelCall"
	}
	return string(st.Phase)
}

// urgent tells whether a status must be written at once, rather than within the status interval: what a user acts on. That a task
// is about to start, or runs, may wait a moment: on a fast model, its next turn or its end will tell more.
func urgent(was, now *v1alpha1.AgentTaskStatus) bool {
	moved := was.Phase != now.Phase && now.Phase != v1alpha1.PhaseRunning && now.Phase != v1alpha1.PhasePending
	return moved || was.ExitReason != now.ExitReason || questionOf(was) != questionOf(now)
}

func questionOf(st *v1alpha1.AgentTaskStatus) string {
	if st.InputRequest == nil {
		return ""
	}
	return st.InputRequest.ID
}

// changed tells whether there is anything to write. The running clock alone is nothing, and the output changes with the phase or
// the question alone: the cache does not hold it.
func changed(was, now *v1alpha1.AgentTaskStatus) bool {
	a, b := *was, *now
	if b.CompletionTime == nil {
		a.ActiveSeconds, b.ActiveSeconds = nil, nil
	}
	return !sameStatus(&a, &b)
}

// waitsForOthers tells whether a task waits for another object, which may just have appeared.
func waitsForOthers(t *v1alpha1.AgentTask) bool {
	if t.Finished() {
		return false
	}
	switch conditionsReason(&t.Status) {
	case string(v1alpha1.PhaseRunning), string(v1alpha1.PhaseNeedsInput), string(v1alpha1.PhaseSuspended), parked.Reason:
		return false
	}
	return true
}

// conditionsReason is why the task has not ended, empty while no status was written.
func conditionsReason(st *v1alpha1.AgentTaskStatus) string {
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReconciling); c != nil {
		return c.Reason
	}
	return ""
}
