package envtest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

func TestDeletingARunningTaskInterruptsItsCallWithinASecond(t *testing.T) {
	f := newFixture(t)
	came, left := make(chan struct{}), make(chan time.Time)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		buffer := make([]byte, 1<<16)
		for {
			if _, err := r.Body.Read(buffer); err != nil {
				break
			}
		}
		close(came)
		<-r.Context().Done()
		left <- time.Now()
	}))
	t.Cleanup(server.Close)
	f.model("default", v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: server.URL})
	task := f.task("doomed")
	<-came
	start := time.Now()
	f.must(kube.Delete(f.ctx, task))
	took := (<-left).Sub(start)
	t.Logf("the call was broken off %s after the deletion", took.Round(time.Millisecond))
	if took > time.Second {
		t.Errorf("the call went on for %s", took)
	}
}

func TestATranscriptBelongsToItsTask(t *testing.T) {
	f := newFixture(t)
	f.scripted("TASK_COMPLETE: done")
	task := f.task("owner")
	f.awaitExit("owner", v1alpha1.ExitCompleted)
	var segments v1alpha1.AgentTranscriptList
	f.must(kube.List(f.ctx, &segments, client.InNamespace(f.namespace)))
	if len(segments.Items) != 1 || !metav1.IsControlledBy(&segments.Items[0], task) {
		t.Errorf("got %d segments, want one that the task controls", len(segments.Items))
	}
}

func TestAppendsAreNotTrackedFieldByField(t *testing.T) {
	f := newFixture(t)
	f.scripted("Working.", "TASK_COMPLETE: done")
	f.task("untracked")
	f.awaitExit("untracked", v1alpha1.ExitCompleted)
	var segments v1alpha1.AgentTranscriptList
	f.must(kube.List(f.ctx, &segments, client.InNamespace(f.namespace)))
	if len(segments.Items) != 1 || len(segments.Items[0].ManagedFields) > 0 {
		t.Errorf("got %+v, want one segment without managed fields", segments.Items)
	}
}

func TestWhatEndedStaysAsItEnded(t *testing.T) {
	f := newFixture(t)
	f.scripted("TASK_COMPLETE: done")
	f.task("over")
	before := f.awaitExit("over", v1alpha1.ExitCompleted)
	f.patch("over", `{"spec":{"cancel":true,"maxIterations":99}}`)
	after := f.await("over", "observed", func(t *v1alpha1.AgentTask) bool {
		return t.Status.ObservedGeneration == t.Generation && t.Generation > before.Generation
	})
	if after.Status.ExitReason != v1alpha1.ExitCompleted || after.Status.Phase != v1alpha1.PhaseSucceeded ||
		!after.Status.CompletionTime.Equal(before.Status.CompletionTime) {
		t.Errorf("a finished task became %s", describe(after))
	}
}

func TestAnAnswerAfterTheEndIsWarnedOf(t *testing.T) {
	f := newFixture(t)
	f.scripted("TASK_COMPLETE: done")
	f.task("late")
	f.awaitExit("late", v1alpha1.ExitCompleted)
	f.patch("late", `{"spec":{"resumeInput":"blue"}}`)
	f.poll("the answer is warned of", func(ctx context.Context) (bool, error) {
		var events eventsv1.EventList
		err := kube.List(ctx, &events, client.InNamespace(f.namespace))
		return slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == "late" && e.Type == corev1.EventTypeWarning && e.Reason == "AnswerIgnored"
		}), err
	})
}

// Cancel and completion race; whichever wins, the task ends once.
func TestCancelRacingWithCompletionGivesOneEnd(t *testing.T) {
	const tasks = 20
	f := newFixture(t)
	g := newGate()
	f.chatModel(func(*fakechat.Request) fakechat.Reply { return g.pass(done) })
	ends := f.recordEnds()
	for i := range tasks {
		f.task(fmt.Sprintf("racer-%d", i))
	}
	for range tasks {
		<-g.came
	}
	for i := range tasks {
		if i == tasks/2 { // half of them are cancelled before any reply comes, the others as it comes
			go close(g.open)
		}
		f.patch(fmt.Sprintf("racer-%d", i), `{"spec":{"cancel":true}}`)
	}
	counts := map[v1alpha1.LoopExitReason]int{}
	for i := range tasks {
		name := fmt.Sprintf("racer-%d", i)
		f.await(name, "observed", func(t *v1alpha1.AgentTask) bool { return t.Finished() && t.Status.ObservedGeneration == t.Generation })
	}
	for name, seen := range ends() {
		if len(seen) != 1 {
			t.Errorf("%s ended %v", name, seen)
			continue
		}
		for reason := range seen {
			counts[reason]++
		}
	}
	t.Logf("ends: %v", counts)
	if counts[v1alpha1.ExitCompleted]+counts[v1alpha1.ExitCancelled] != tasks {
		t.Errorf("got %v", counts)
	}
}

// recordEnds watches all exit reasons that the tasks of the namespace ever show.
func (f *fixture) recordEnds() func() map[string]map[v1alpha1.LoopExitReason]bool {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	w, err := kube.Watch(ctx, &v1alpha1.AgentTaskList{}, client.InNamespace(f.namespace))
	f.must(err)
	seen := map[string]map[v1alpha1.LoopExitReason]bool{}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for e := range w.ResultChan() {
			task, ok := e.Object.(*v1alpha1.AgentTask)
			if !ok || task.Status.ExitReason == "" {
				continue
			}
			if seen[task.Name] == nil {
				seen[task.Name] = map[v1alpha1.LoopExitReason]bool{}
			}
			seen[task.Name][task.Status.ExitReason] = true
		}
	}()
	return func() map[string]map[v1alpha1.LoopExitReason]bool {
		cancel()
		w.Stop()
		<-finished
		return seen
	}
}

func TestConditionsSayTheSameAsThePhase(t *testing.T) {
	f := newFixture(t)
	f.scripted("NEED_INPUT: which?", "TASK_COMPLETE: done")
	f.task("told")
	check := func(task *v1alpha1.AgentTask, want map[string]bool) {
		t.Helper()
		for kind, on := range want {
			c := meta.FindStatusCondition(task.Status.Conditions, kind)
			if c == nil || (c.Status == metav1.ConditionTrue) != on || c.ObservedGeneration != task.Generation {
				t.Errorf("%s: condition %s is %+v", task.Status.Phase, kind, c)
			}
		}
	}
	task := f.awaitPhase("told", v1alpha1.PhaseNeedsInput)
	check(task, map[string]bool{"Ready": false, "Reconciling": true, "Stalled": false, "Finished": false})
	f.patch("told", `{"spec":{"resumeInput":"this"}}`)
	task = f.awaitExit("told", v1alpha1.ExitCompleted)
	check(task, map[string]bool{"Ready": true, "Reconciling": false, "Stalled": false, "Finished": true})
}
