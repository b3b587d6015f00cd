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
	for timeout, want := range map[time.Duration]*metav1.Time{0: nil, time.Hour: ptr(metav1.NewTime(start.Add(time.Second + time.Hour)))} {
		st := ProjectStatus(&v1alpha1.AgentTaskStatus{}, Projection{State: s, InputTimeout: timeout, Now: start})
		if got := st.InputRequest.Deadline; !got.Equal(want) {
			t.Errorf("inputTimeout %s: deadline %v, want %v", timeout, got, want)
		}
	}
}

func TestCostsAreExact(t *testing.T) {
	cached := "0.075"
	dear := &v1alpha1.Pricing{Currency: "USD", InputPerMillion: "3", OutputPerMillion: "15"}
	cheap := &v1alpha1.Pricing{Currency: "USD", InputPerMillion: "0.15", OutputPerMillion: "0.6"}
	foreign := &v1alpha1.Pricing{Currency: "EUR", InputPerMillion: "0.15", OutputPerMillion: "0.6"}
	for name, tc := range map[string]struct {
		usage, judge         loop.Usage
		pricing, judgePrices *v1alpha1.Pricing
		want                 string
	}{
		"no prices":                 {usage: loop.Usage{InputTokens: 10}},
		"nothing used":              {pricing: dear, want: "0"},
		"one token":                 {usage: loop.Usage{InputTokens: 1}, pricing: cheap, want: "0.00000015"},
		"whole":                     {usage: loop.Usage{OutputTokens: 2_000_000}, pricing: dear, want: "30"},
		"cached":                    {usage: loop.Usage{InputTokens: 1_000_000, CachedInputTokens: 400_000}, pricing: &v1alpha1.Pricing{Currency: "USD", InputPerMillion: "0.15", CachedInputPerMillion: &cached, OutputPerMillion: "1"}, want: "0.12"},
		"a judge by its own prices": {usage: loop.Usage{InputTokens: 3_000_000}, judge: loop.Usage{InputTokens: 1_000_000}, pricing: dear, judgePrices: cheap, want: "6.15"},
		"a judge without prices":    {usage: loop.Usage{InputTokens: 3_000_000}, judge: loop.Usage{InputTokens: 1_000_000}, pricing: dear},
		"a judge without prices that used nothing":      {usage: loop.Usage{InputTokens: 1_000_000}, pricing: dear, want: "3"},
		"no sum over two currencies":                    {usage: loop.Usage{InputTokens: 3_000_000}, judge: loop.Usage{InputTokens: 1_000_000}, pricing: dear, judgePrices: foreign},
		"a judge of another currency that used nothing": {usage: loop.Usage{InputTokens: 1_000_000}, pricing: dear, judgePrices: foreign, want: "3"},
	} {
		currency := ""
		if tc.want != "" {
			currency = "USD"
		}
		if got, in := cost(&loop.State{Usage: tc.usage, JudgeUsage: tc.judge}, tc.pricing, tc.judgePrices); got != tc.want || in != currency {
			t.Errorf("%s: %q %q, want %q %q", name, got, in, tc.want, currency)
		}
	}
}

func TestCostStaysWhileTheModelIsAway(t *testing.T) {
	tokens := int64(10)
	before := v1alpha1.AgentTaskStatus{Usage: &v1alpha1.TokenUsage{TotalTokens: &tokens, Cost: "0.5", Currency: "EUR"}}
	for used, want := range map[int64]string{10: "0.5 EUR", 11: " "} {
		st := ProjectStatus(&before, Projection{State: &loop.State{Usage: loop.Usage{InputTokens: used}}, Now: start})
		if got := st.Usage.Cost + " " + st.Usage.Currency; got != want {
			t.Errorf("%d tokens: cost %q, want %q", used, got, want)
		}
	}
}

func TestOnlyWhatEndsATaskOrMovesItsLimitsInterruptsACall(t *testing.T) {
	yes := true
	for name, tc := range map[string]struct {
		change func(*v1alpha1.AgentTask)
		want   error
	}{
		"cancel":      {func(t *v1alpha1.AgentTask) { t.Spec.Cancel = &yes }, loop.ErrCancelled},
		"deletion":    {func(t *v1alpha1.AgentTask) { t.DeletionTimestamp = &metav1.Time{Time: start} }, loop.ErrCancelled},
		"another one": {func(t *v1alpha1.AgentTask) { t.UID = "other" }, loop.ErrCancelled},
		"less time":   {func(t *v1alpha1.AgentTask) { t.Spec.MaxDuration = &metav1.Duration{Duration: 1} }, loop.ErrSpecChanged},
		"less tokens": {func(t *v1alpha1.AgentTask) { t.Spec.MaxTokens = ptr(int64(1)) }, loop.ErrSpecChanged},
		"suspend":     {func(t *v1alpha1.AgentTask) { t.Spec.Suspend = &yes }, nil},
		"an answer":   {func(t *v1alpha1.AgentTask) { t.Spec.ResumeInput = ptr("x") }, nil},
		"more turns":  {func(t *v1alpha1.AgentTask) { t.Spec.MaxIterations = ptr(int32(9)) }, nil},
	} {
		was := &v1alpha1.AgentTask{}
		now := was.DeepCopy()
		tc.change(now)
		if got := interruption(was, now); got != tc.want { //nolint:errorlint // the very value is what is passed on
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
