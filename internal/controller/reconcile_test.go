package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// approved are the events of a task whose human has allowed a call that has not begun.
func approved() []loop.Event {
	return []loop.Event{
		opened(),
		{Kind: loop.KindModelReplied, ModelReplied: &loop.ModelReplied{
			Purpose: loop.PurposeTurn, NeedApproval: []string{"c"},
			Reply: loop.Reply{ToolCalls: []loop.ToolCall{{ID: "c", Name: "ops__deploy"}}, Finish: loop.FinishToolCalls},
		}},
		{Kind: loop.KindAsked, Asked: &loop.Asked{ID: "q", Kind: loop.QuestionApproval, Question: "Deploy?", CallIDs: []string{"c"}}},
		{Kind: loop.KindAnswered, Answered: &loop.Answered{QuestionID: "q", Text: "approve"}},
	}
}

// awayRig is a task with an approved call whose toolset cannot be reached.
func awayRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, interceptor.Funcs{}, answers("TASK_COMPLETE: done"),
		&v1alpha1.AgentToolset{ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: "ops", UID: "set-1", Generation: 1}, Spec: v1alpha1.AgentToolsetSpec{URL: "http://127.0.0.1:1/mcp"}},
		aTask(func(s *v1alpha1.AgentTaskSpec) {
			s.MaxDuration = &metav1.Duration{Duration: time.Minute}
			s.Toolsets = []v1alpha1.ToolsetReference{{Name: "ops"}}
		}))
	r.write(approved()...)
	return r
}

func TestTheTimeOfATaskEndsWhileAnApprovedCallWaitsForItsTool(t *testing.T) {
	r := awayRig(t)
	result, err := r.reconcile()
	if err != nil || result.RequeueAfter < time.Second || r.task().Status.Phase != v1alpha1.PhaseRunning {
		t.Fatalf("%+v, %v, %+v", result, err, r.task().Status)
	}
	r.clock.Add(time.Hour)
	if task := r.look(1); task.Status.ExitReason != v1alpha1.ExitTimeBudgetExceeded {
		t.Errorf("it is %s/%s an hour after its minute", task.Status.Phase, task.Status.ExitReason)
	}
}

func TestARestartWhileAnApprovedCallWaitsIsNoAttempt(t *testing.T) {
	r := awayRig(t)
	for range 5 {
		r.restart()
		r.look(1)
	}
	if task, kinds := r.task(), r.kinds(); task.Finished() || len(kinds) != len(approved()) {
		t.Errorf("%s %q, journal %v", task.Status.Phase, task.Status.Message, kinds)
	}
}

func condition(task *v1alpha1.AgentTask, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(task.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// A slip in an edit holds the loop, and nothing that a user relies on besides.
func TestAWrongEditHoldsNeitherLimitsNorAnswersNorCancel(t *testing.T) {
	for name, tc := range map[string]struct {
		events []loop.Event
		edit   func(*v1alpha1.AgentTaskSpec)
		later  time.Duration
		want   v1alpha1.LoopExitReason
		last   loop.EventKind
	}{
		"maxDuration":         {[]loop.Event{opened()}, func(*v1alpha1.AgentTaskSpec) {}, 2 * time.Minute, v1alpha1.ExitTimeBudgetExceeded, loop.KindFinished},
		"inputTimeout":        {[]loop.Event{opened(), asked()}, func(*v1alpha1.AgentTaskSpec) {}, 2 * time.Hour, v1alpha1.ExitInputTimeout, loop.KindFinished},
		"an answer":           {[]loop.Event{opened(), asked()}, func(s *v1alpha1.AgentTaskSpec) { s.ResumeInput = new("blue") }, 0, "", loop.KindAnswered},
		"a cancel":            {[]loop.Event{opened()}, func(s *v1alpha1.AgentTaskSpec) { s.Cancel = new(true) }, 0, v1alpha1.ExitCancelled, loop.KindFinished},
		"nothing goes on":     {[]loop.Event{opened()}, func(*v1alpha1.AgentTaskSpec) {}, time.Second, "", loop.KindOpened},
		"a signal waits, too": {[]loop.Event{opened(), replied("TASK_COMPLETE: done")}, func(*v1alpha1.AgentTaskSpec) {}, time.Second, "", loop.KindModelReplied},
		"a question stands":   {[]loop.Event{opened(), asked()}, func(*v1alpha1.AgentTaskSpec) {}, time.Minute, v1alpha1.ExitNeedInput, loop.KindAsked},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, interceptor.Funcs{}, answers("TASK_COMPLETE: done"), aTask(func(s *v1alpha1.AgentTaskSpec) {
				s.MaxDuration, s.InputTimeout = &metav1.Duration{Duration: time.Minute}, &metav1.Duration{Duration: time.Hour}
				s.Completion = &v1alpha1.Completion{StopWhen: "iteration >"}
			}))
			r.write(tc.events...)
			r.look(1)
			r.edit(tc.edit)
			r.clock.Add(tc.later)
			task, kinds := r.look(2), r.kinds()
			if task.Status.ExitReason != tc.want || kinds[len(kinds)-1] != tc.last {
				t.Errorf("%s/%s %q, journal %v; want %q and %s last", task.Status.Phase, task.Status.ExitReason, task.Status.Message, kinds, tc.want, tc.last)
			}
			if c := condition(task, v1alpha1.ConditionReconciling); !task.Finished() && c.Reason != "InvalidStopWhen" {
				t.Errorf("the condition says %q of it", c.Reason)
			}
		})
	}
}

func replied(text string) loop.Event {
	return loop.Event{Kind: loop.KindModelReplied, ModelReplied: &loop.ModelReplied{
		Purpose: loop.PurposeTurn, Reply: loop.Reply{Blocks: []loop.Block{{Kind: loop.BlockText, Text: text}}, Finish: loop.FinishStop},
	}}
}

var transcripts = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "agenttranscripts"}

// A task that cannot go on says why, and can be cancelled.
func TestWhatBlocksATaskIsToldAndDoesNotKeepItFromBeingCancelled(t *testing.T) {
	openAI := answers()
	openAI.Spec = v1alpha1.AgentModelSpec{
		Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: "http://127.0.0.1:1/v1", Auth: &v1alpha1.Auth{SecretRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"}},
	}
	garbage := func(t *testing.T) client.Object {
		r := newRig(t, interceptor.Funcs{}, aTask(func(*v1alpha1.AgentTaskSpec) {}))
		r.write(opened())
		var list v1alpha1.AgentTranscriptList
		if err := r.kube.List(t.Context(), &list); err != nil || len(list.Items) != 1 {
			t.Fatal(err)
		}
		s := list.Items[0]
		s.ResourceVersion, s.Segment.Data = "", []byte("garbage")
		return &s
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		faults  interceptor.Funcs
		reason  string
		stalled metav1.ConditionStatus
	}{
		"a Secret that the API server cannot decrypt": {
			objects: []client.Object{openAI},
			faults: interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, ok := o.(*corev1.Secret); ok {
					return apierrors.NewInternalError(errors.New("no key service"))
				}
				return c.Get(ctx, key, o, opts...)
			}},
			reason: "ReferenceUnreadable", stalled: metav1.ConditionFalse,
		},
		"a quota for journals": {
			objects: []client.Object{answers("TASK_COMPLETE: done")},
			faults: interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if _, ok := o.(*v1alpha1.AgentTranscript); ok {
					return apierrors.NewForbidden(transcripts, o.GetName(), errors.New("exceeded quota"))
				}
				return c.Create(ctx, o, opts...)
			}},
			reason: "JournalUnwritable", stalled: metav1.ConditionTrue,
		},
		"a damaged journal": {objects: []client.Object{answers(), garbage(t)}, reason: "JournalUnreadable", stalled: metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tc.faults, append(tc.objects, aTask(func(*v1alpha1.AgentTaskSpec) {}))...)
			_, _ = r.reconcile() // an error makes the workqueue try again
			task := r.task()
			if c := condition(task, v1alpha1.ConditionStalled); c.Status != tc.stalled || c.Reason != tc.reason || task.Finished() {
				t.Errorf("%s %q, Stalled %+v", task.Status.Phase, task.Status.Message, c)
			}
			r.edit(func(s *v1alpha1.AgentTaskSpec) { s.Cancel = new(true) })
			_, _ = r.reconcile()
			if task := r.task(); task.Status.ExitReason != v1alpha1.ExitCancelled || task.Status.CompletionTime == nil {
				t.Errorf("after the cancel it is %s/%s %q", task.Status.Phase, task.Status.ExitReason, task.Status.Message)
			}
		})
	}
}

func TestADeletedTaskThatAFinalizerHoldsIsCancelled(t *testing.T) {
	task := aTask(func(*v1alpha1.AgentTaskSpec) {})
	task.Finalizers = []string{"example.com/hold"}
	r := newRig(t, interceptor.Funcs{}, answers("NEED_INPUT: which?"), task)
	if task := r.look(1); task.Status.Phase != v1alpha1.PhaseNeedsInput {
		t.Fatalf("it is %s", task.Status.Phase)
	}
	if err := r.kube.Delete(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if task := r.look(1); task.Status.ExitReason != v1alpha1.ExitCancelled || !strings.Contains(task.Status.Message, "deleted") {
		t.Errorf("it is %s/%s %q", task.Status.Phase, task.Status.ExitReason, task.Status.Message)
	}
}

func TestATaskThatIsSuspendedBeforeItsStartHasNotBegun(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("TASK_COMPLETE: done"), aTask(func(s *v1alpha1.AgentTaskSpec) { s.Suspend = new(true) }))
	task := r.look(2)
	if st := task.Status; st.Phase != v1alpha1.PhaseSuspended || st.StartTime != nil || len(r.kinds()) > 0 || condition(task, v1alpha1.ConditionReconciling).Reason != "Suspended" {
		t.Errorf("%+v, journal %v", st, r.kinds())
	}
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.Suspend = new(false) })
	if task := r.look(2); task.Status.ExitReason != v1alpha1.ExitCompleted {
		t.Errorf("it is %s %q", task.Status.Phase, task.Status.Message)
	}
}

// A cache that lags behind what was seen when a question was asked says nothing of answers.
func TestAnOlderSpecInTheCacheIsNotBelieved(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("NEED_INPUT: which?"), aTask(func(s *v1alpha1.AgentTaskSpec) { s.ResumeInput = new("old") }))
	stale := r.task()
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.ResumeInput = new("new") })
	r.Client = lagging(r.kube, stale)
	if task := r.look(2); task.Status.Phase != v1alpha1.PhaseNeedsInput {
		t.Errorf("it is %s: what was there before the question was taken for its answer", task.Status.Phase)
	}
}

// A new leader's cache may show an answer that the former one has used up.
func TestAfterATakeoverALaggingCacheAnswersNothing(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("NEED_INPUT: which?", "NEED_INPUT: and now?", "TASK_COMPLETE: done"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	if task := r.look(1); task.Status.InputRequest == nil {
		t.Fatalf("it is %s", task.Status.Phase)
	}
	stale := r.task()
	stale.Spec.ResumeInput = new("first answer")
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.ResumeInput = new("first answer") })
	asked := r.look(2)
	if q := asked.Status.InputRequest; q == nil || q.Question != "and now?" {
		t.Fatalf("it is %s, %+v", asked.Status.Phase, q)
	}
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.ResumeInput = nil })
	r.look(1)
	r.restart()
	r.Client = lagging(r.kube, stale) // the answer to the first question is all that it shows
	if task := r.look(2); task.Status.Phase != v1alpha1.PhaseNeedsInput || task.Status.InputRequest.ID != asked.Status.InputRequest.ID {
		t.Errorf("it is %s: an old answer was taken from a lagging cache", task.Status.Phase)
	}
}

// lagging is a client that always reads the same old version of the task from its cache.
func lagging(c client.WithWatch, stale *v1alpha1.AgentTask) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if task, ok := o.(*v1alpha1.AgentTask); ok {
			stale.DeepCopyInto(task)
			return nil
		}
		return c.Get(ctx, key, o, opts...)
	}})
}

func TestAnAnswerThatIsNotUsedIsWarnedOf(t *testing.T) {
	answered := loop.Event{Kind: loop.KindAnswered, Answered: &loop.Answered{QuestionID: "q", Text: "blue", InputHash: loop.HashInput("blue")}}
	second := loop.Event{Kind: loop.KindAsked, Asked: &loop.Asked{ID: "q2", Kind: loop.QuestionInput, Question: "and?", InputHash: loop.HashInput("blue")}}
	for name, tc := range map[string]struct {
		events []loop.Event
		told   string
		id     string
		input  string
		warned bool
	}{
		"the answer that was used":                  {[]loop.Event{opened(), asked(), answered}, "q", "q", "blue", false},
		"the same, without id":                      {[]loop.Event{opened(), asked(), answered}, "q", "", "blue", false},
		"edited after it was used":                  {[]loop.Event{opened(), asked(), answered}, "q", "q", "red", true},
		"a second answer with the first one's id":   {[]loop.Event{opened(), asked(), answered, second}, "q2", "q", "red", true},
		"the first answer, at the second question":  {[]loop.Event{opened(), asked(), answered, second}, "q2", "q", "blue", false},
		"an answer with the id of no question":      {[]loop.Event{opened(), asked()}, "q", "other", "red", true},
		"an answer to nothing":                      {[]loop.Event{opened()}, "", "", "red", true},
		"an answer that waits for its journal only": {[]loop.Event{opened(), asked()}, "q", "q", "red", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, interceptor.Funcs{})
			task := aTask(func(s *v1alpha1.AgentTaskSpec) { s.ResumeInput, s.ResumeInputID = &tc.input, tc.id })
			if tc.told != "" {
				task.Status.InputRequest = &v1alpha1.InputRequest{ID: tc.told}
			}
			s := &session{key: taskKey, live: newLive(task), state: fold(t, slices.Clone(tc.events)...)}
			for range 2 {
				r.warn(s, &plan{s: s})
			}
			if got := len(r.events.Events); (got == 1) != tc.warned || got > 1 {
				t.Errorf("%d warnings", got)
			}
		})
	}
}
