package controller

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fold makes a state of events, a second apart.
func fold(t *testing.T, events ...loop.Event) *loop.State {
	t.Helper()
	for i := range events {
		events[i].Version, events[i].Seq, events[i].Time = loop.EventVersion, int64(i+1), start.Add(time.Duration(i)*time.Second)
	}
	s, err := loop.Fold(events)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func opened() loop.Event {
	return loop.Event{Kind: loop.KindOpened, Opened: &loop.Opened{Holder: "h"}}
}

func asked() loop.Event {
	return loop.Event{Kind: loop.KindAsked, Asked: &loop.Asked{ID: "q", Kind: loop.QuestionInput, Question: "which?"}}
}

func finished(reason loop.ExitReason, cause loop.Cause) loop.Event {
	return loop.Event{Kind: loop.KindFinished, Finished: &loop.Finished{Reason: reason, Cause: cause, Message: "It ended."}}
}

// kstatus, Flux and Argo CD read these conditions, so each phase has exactly one meaning.
func TestEachPhaseHasItsConditions(t *testing.T) {
	tests := map[string]struct {
		events                                []loop.Event
		waiting                               *Waiting
		phase                                 v1alpha1.AgentTaskPhase
		ready, reconciling, stalled, finished bool
		reason                                string
	}{
		"not started":      {nil, nil, v1alpha1.PhasePending, false, true, false, false, "Pending"},
		"waits for model":  {nil, &Waiting{Reason: "ModelNotFound", Message: "No model."}, v1alpha1.PhasePending, false, true, false, false, "ModelNotFound"},
		"running":          {[]loop.Event{opened()}, nil, v1alpha1.PhaseRunning, false, true, false, false, "Running"},
		"waits for a slot": {[]loop.Event{opened()}, &Waiting{Reason: "WaitingForModel"}, v1alpha1.PhaseRunning, false, true, false, false, "WaitingForModel"},
		"tries again": {[]loop.Event{opened(), {Kind: loop.KindModelFailed, ModelFailed: &loop.ModelFailed{Purpose: loop.PurposeTurn, Retry: true, Message: "Busy."}}}, nil,
			v1alpha1.PhaseRunning, false, true, false, false, "RetryingModelCall"},
		"stuck":     {[]loop.Event{opened()}, &Waiting{Reason: "JournalUnwritable", Stuck: true}, v1alpha1.PhaseRunning, false, false, true, false, "JournalUnwritable"},
		"asks":      {[]loop.Event{opened(), asked()}, nil, v1alpha1.PhaseNeedsInput, false, true, false, false, "NeedsInput"},
		"suspended": {[]loop.Event{opened(), {Kind: loop.KindSuspended}}, nil, v1alpha1.PhaseSuspended, false, true, false, false, "Suspended"},
		"completed": {[]loop.Event{opened(), finished(loop.ExitCompleted, "")}, nil, v1alpha1.PhaseSucceeded, true, false, false, true, "Completed"},
		"a limit":   {[]loop.Event{opened(), finished(loop.ExitTimeBudgetExceeded, "")}, nil, v1alpha1.PhaseFailed, false, false, true, true, "TimeBudgetExceeded"},
		"an error":  {[]loop.Event{opened(), finished(loop.ExitError, loop.CauseModelNotFound)}, nil, v1alpha1.PhaseFailed, false, false, true, true, "ModelNotFound"},
		"cancelled": {[]loop.Event{opened(), finished(loop.ExitCancelled, "")}, nil, v1alpha1.PhaseCancelled, false, false, true, true, "Cancelled"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			st := ProjectStatus(&v1alpha1.AgentTaskStatus{}, Projection{State: fold(t, tc.events...), Waiting: tc.waiting, Generation: 3, Now: start.Add(time.Minute)})
			if st.Phase != tc.phase {
				t.Errorf("phase %s, want %s", st.Phase, tc.phase)
			}
			for kind, want := range map[string]bool{"Ready": tc.ready, "Reconciling": tc.reconciling, "Stalled": tc.stalled, "Finished": tc.finished} {
				c := meta.FindStatusCondition(st.Conditions, kind)
				if c == nil || (c.Status == metav1.ConditionTrue) != want || c.ObservedGeneration != 3 {
					t.Errorf("%s is %+v, want %t", kind, c, want)
				}
			}
			if c := meta.FindStatusCondition(st.Conditions, "Ready"); c.Reason != tc.reason {
				t.Errorf("reason %s, want %s", c.Reason, tc.reason)
			}
		})
	}
}

func TestTheClockAloneIsNoReasonToWrite(t *testing.T) {
	s := fold(t, opened())
	first := ProjectStatus(&v1alpha1.AgentTaskStatus{}, Projection{State: s, Generation: 1, Now: start.Add(time.Second)})
	later := ProjectStatus(&first, Projection{State: s, Generation: 1, Now: start.Add(time.Hour)})
	if changed(&first, &later) {
		t.Error("a status is rewritten though nothing but time passed")
	}
	if next := ProjectStatus(&first, Projection{State: s, Generation: 2, Now: start.Add(time.Hour)}); !changed(&first, &next) {
		t.Error("a new generation is not written")
	}
}

func TestWhatIsShownFitsWhatTheAPIAdmits(t *testing.T) {
	long := strings.Repeat("ä", 40_000)
	s := fold(t, opened(),
		loop.Event{Kind: loop.KindModelReplied, ModelReplied: &loop.ModelReplied{Purpose: loop.PurposeTurn, Reply: loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockText, Text: long}}}}},
		loop.Event{Kind: loop.KindFinished, Finished: &loop.Finished{Reason: loop.ExitError, Message: long, Summary: long}})
	st := ProjectStatus(&v1alpha1.AgentTaskStatus{}, Projection{State: s, Now: start})
	for what, n := range map[string][2]int{
		"output": {len(st.Output), 32768}, "summary": {len(st.Summary), 4096}, "message": {len(st.Message), 2048},
	} {
		if n[0] == 0 || n[0] > n[1] {
			t.Errorf("%s has %d bytes, at most %d are admitted", what, n[0], n[1])
		}
	}
}

func TestAQuestionHasTheDeadlineOfInputTimeout(t *testing.T) {
	s := fold(t, opened(), asked())
	for timeout, want := range map[time.Duration]*metav1.Time{0: nil, time.Hour: new(metav1.NewTime(start.Add(time.Second + time.Hour)))} {
		st := ProjectStatus(&v1alpha1.AgentTaskStatus{}, Projection{State: s, InputTimeout: timeout, Now: start})
		if got := st.InputRequest.Deadline; !got.Equal(want) {
			t.Errorf("inputTimeout %s: deadline %v, want %v", timeout, got, want)
		}
	}
}

// Every open question's message is the command that answers it.
func TestTheMessageOfAQuestionIsTheCommandThatAnswersIt(t *testing.T) {
	approval := loop.Event{Kind: loop.KindAsked, Asked: &loop.Asked{ID: "approval-1-x", Kind: loop.QuestionApproval, Question: "May it?"}}
	again := loop.Event{Kind: loop.KindAsked, Asked: &loop.Asked{ID: "q2", Kind: loop.QuestionInput, Question: "Again?", InputHash: loop.HashInput("yes")}}
	for name, tc := range map[string]struct {
		asked  loop.Event
		unused string
		want   string
	}{
		"a question": {asked(), "", `The agent asks a question: see status.inputRequest.question. Answer it by: ` +
			`kubectl patch agenttask task -n ns --field-manager=agenttask-answer --type=merge -p '{"spec":{"resumeInputID":"q","resumeInput":"YOUR ANSWER"}}'`},
		"an approval": {approval, "", `A tool call waits for approval: see status.inputRequest.toolCalls. Answer it by: ` +
			`kubectl patch agenttask task -n ns --field-manager=agenttask-answer --type=merge -p '{"spec":{"resumeInputID":"approval-1-x","resumeInput":"approve"}}' (or "deny: reason")`},
		"a question with the answer of one before": {again, "", `The agent asks a question: see status.inputRequest.question. Answer it by: ` +
			`kubectl patch agenttask task -n ns --field-manager=agenttask-answer --type=merge -p '{"spec":{"resumeInputID":"q2","resumeInput":"YOUR ANSWER"}}' ` +
			`What spec.resumeInput holds already, from a question before, answers this one only beside this resumeInputID.`},
		"an answer that answers nothing": {asked(), "It is not taken.", `It is not taken. Answer it by: ` +
			`kubectl patch agenttask task -n ns --field-manager=agenttask-answer --type=merge -p '{"spec":{"resumeInputID":"q","resumeInput":"YOUR ANSWER"}}'`},
	} {
		st := ProjectStatus(&v1alpha1.AgentTaskStatus{}, Projection{State: fold(t, opened(), tc.asked), Task: taskKey, UnusedAnswer: tc.unused, Now: start})
		if st.Message != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, st.Message, tc.want)
		}
	}
}

// What a user acts on is written before the Reconcile ends.
func TestWhatAUserActsOnIsWrittenAtOnce(t *testing.T) {
	question := func(id string) *v1alpha1.InputRequest { return &v1alpha1.InputRequest{ID: id} }
	for name, tc := range map[string]struct {
		was, now v1alpha1.AgentTaskStatus
		want     bool
	}{
		"it is about to start": {v1alpha1.AgentTaskStatus{}, v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhasePending}, false},
		"it runs":              {v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhasePending}, v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseRunning}, false},
		"it is suspended":      {v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseRunning}, v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseSuspended}, true},
		"it asks":              {v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseRunning}, v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseNeedsInput, InputRequest: question("a")}, true},
		"it asks again":        {v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseNeedsInput, InputRequest: question("a")}, v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseNeedsInput, InputRequest: question("b")}, true},
		"it is answered":       {v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseNeedsInput, InputRequest: question("a")}, v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseRunning}, true},
		"it has ended":         {v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseRunning}, v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseFailed}, true},
		"another turn":         {v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseRunning}, v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseRunning, Iterations: new(int32(1))}, false},
	} {
		if got := urgent(&tc.was, &tc.now); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
