package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// countWrites counts the writes of statuses, and lets hook see each before it is made.
func countWrites(n *int, hook func(task *v1alpha1.AgentTask) error) interceptor.Funcs {
	return interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
		*n++
		if task, ok := o.(*v1alpha1.AgentTask); ok && hook != nil {
			if err := hook(task); err != nil {
				return err
			}
		}
		return c.SubResource(sub).Update(ctx, o, opts...)
	}}
}

func running(message string) v1alpha1.AgentTaskStatus {
	return v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseRunning, Message: message}
}

func TestANewerStatusTakesThePlaceOfOneThatWaits(t *testing.T) {
	writes := 0
	r := newRig(t, countWrites(&writes, nil), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	l := newLive(r.task())
	for _, message := range []string{"one", "two", "three"} {
		r.statuses.later(l, running(message))
	}
	for range 3 {
		if err := r.statuses.writePending(t.Context(), taskKey); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.task().Status.Message; got != "three" || writes != 1 {
		t.Errorf("%q after %d writes", got, writes)
	}
	r.statuses.later(l, running("three"))
	if len(r.statuses.pending) > 0 {
		t.Error("what stands there already is to be written again")
	}
}

func TestAStatusThatWaitedIsNotWrittenOverANewerOne(t *testing.T) {
	writes := 0
	r := newRig(t, countWrites(&writes, nil), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	l := newLive(r.task())
	old := r.statuses.want(l, running("old"))
	if err := r.statuses.now(t.Context(), l, running("new"), ""); err != nil {
		t.Fatal(err)
	}
	if err := r.statuses.write(t.Context(), old); err != nil || r.task().Status.Message != "new" || writes != 1 {
		t.Errorf("%q, %d writes, %v", r.task().Status.Message, writes, err)
	}
}

func TestAStatusOfSomebodyElseIsNotWrittenOver(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.AgentTask)
		want   error
		status string
	}{
		"a status of another holder": {func(task *v1alpha1.AgentTask) { task.Status = running("theirs") }, errForeignStatus, "theirs"},
		"a label":                    {func(task *v1alpha1.AgentTask) { task.Labels = map[string]string{"a": "b"} }, nil, "ours"},
		"an end": {func(task *v1alpha1.AgentTask) {
			task.Status = v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseCancelled, Message: "ended"}
		}, nil, "ended"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, interceptor.Funcs{}, aTask(func(*v1alpha1.AgentTaskSpec) {}))
			l := newLive(r.task())
			task := r.task()
			tc.change(task)
			status := task.Status
			if err := r.kube.Update(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			task.Status = status
			if err := r.kube.Status().Update(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			if err := r.statuses.now(t.Context(), l, running("ours"), ""); !errors.Is(err, tc.want) || r.task().Status.Message != tc.status {
				t.Errorf("%q, %v", r.task().Status.Message, err)
			}
		})
	}
}

// A question is told by a write that succeeds only on the version whose resumeInput the journal has noted: whatever is written before
// anybody can have seen the question is no answer to it.
func TestWhatIsWrittenBeforeAQuestionIsToldDoesNotAnswerIt(t *testing.T) {
	var r *rig
	writes, early := 0, false
	r = newRig(t, countWrites(&writes, func(task *v1alpha1.AgentTask) error {
		if task.Status.InputRequest != nil && !early {
			early = true
			r.edit(func(s *v1alpha1.AgentTaskSpec) { s.ResumeInput = new("meant for something else") })
		}
		return nil
	}), answers("NEED_INPUT: which?", "TASK_COMPLETE: done"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	task := r.look(4)
	if !early || task.Status.Phase != v1alpha1.PhaseNeedsInput || task.Status.InputRequest == nil {
		t.Fatalf("%s/%s %q", task.Status.Phase, task.Status.ExitReason, task.Status.Message)
	}
	if !strings.Contains(task.Status.Message, "written before question") {
		t.Errorf("it is not told: %q", task.Status.Message)
	}
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.ResumeInput = new("blue") })
	if task := r.look(3); task.Status.ExitReason != v1alpha1.ExitCompleted {
		t.Errorf("answered, it is %s %q", task.Status.Phase, task.Status.Message)
	}
}

func TestATaskWithoutRoomForAStatusIsTold(t *testing.T) {
	writes := 0
	r := newRig(t, countWrites(&writes, func(*v1alpha1.AgentTask) error {
		return apierrors.NewRequestEntityTooLargeError("etcdserver: request is too large")
	}), answers("TASK_COMPLETE: done"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	result, err := r.Reconcile(t.Context(), request())
	if err != nil || result.RequeueAfter < time.Minute || len(r.events.Events) != 1 {
		t.Errorf("%+v, %v, %d events", result, err, len(r.events.Events))
	}
}

// An edit that comes after the start, and before the status tells of it, is not refused by the API server.
func TestAPromptThatIsEditedAfterTheStartIsNotUsedAndThatIsTold(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("Going on.", "TASK_COMPLETE: done"), aTask(func(s *v1alpha1.AgentTaskSpec) { s.Prompt = "First." }))
	r.look(1)
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.Prompt = "Second." })
	r.look(1)
	var told string
	select {
	case told = <-r.events.Events:
	default:
	}
	if !strings.Contains(told, "SpecIgnored") {
		t.Errorf("told: %q", told)
	}
	_, events, err := transcript.Load(t.Context(), r.Journals, refOf(r.task()))
	if err != nil || events[0].Opened.Input.Prompt != "First." {
		t.Errorf("%+v, %v", events[0].Opened, err)
	}
}

func TestProgressGivesWayToAppends(t *testing.T) {
	clock := looptest.NewClock()
	p := newPace(clock)
	allowed := func() (n int) {
		for range 10 * progressWrites {
			if p.allow() {
				n++
			}
		}
		return n
	}
	for range busyAppends {
		p.append()
	}
	if n := allowed(); n != 10*progressWrites {
		t.Errorf("up to %d appends a second, progress is held back after %d writes", busyAppends, n)
	}
	p.append()
	if n := allowed(); n != progressWrites {
		t.Errorf("%d writes at once beside more than %d appends a second, want %d", n, busyAppends, progressWrites)
	}
	clock.Add(2 * time.Second)
	if n := allowed(); n != 10*progressWrites {
		t.Errorf("after a second without appends, progress is held back after %d writes", n)
	}
}

// foreign writes a status as another operator does.
func (r *rig) foreign(message string, end bool) *v1alpha1.AgentTask {
	task := r.task()
	task.Status = running(message)
	if end {
		task.Status = v1alpha1.AgentTaskStatus{Phase: v1alpha1.PhaseSucceeded, ExitReason: v1alpha1.ExitCompleted, Message: message}
	}
	if err := r.kube.Status().Update(r.Context(), task); err != nil {
		r.Fatal(err)
	}
	return r.task()
}

// The watch may bring an edit between the look at the spec and the write of the status: then no conflict tells of it.
func TestWhatTheWatchBringsBeforeAQuestionIsToldDoesNotAnswerIt(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("NEED_INPUT: which?", "TASK_COMPLETE: done"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	s := r.sessions.of(r.task())
	out := r.turn(t.Context(), s) // Reconcile, up to report
	if s.state.Question == nil {
		t.Fatal("no question")
	}
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.ResumeInput = new("meant for something else") })
	s.live.see(r.task()) // the watch, while report is on its way or waits for live.writing
	_, err := r.report(t.Context(), s, out)
	r.sessions.rest(s, out.idle())
	task := r.look(3)
	t.Logf("report: %v; now %s, journal %v", err, task.Status.Phase, r.kinds())
	if task.Status.Phase != v1alpha1.PhaseNeedsInput {
		t.Errorf("what was written before the question was shown answered it: %s/%s", task.Status.Phase, task.Status.ExitReason)
	}
}

func TestAStatusThatWasRefusedForAnothersIsNotTriedAgain(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, aTask(func(*v1alpha1.AgentTaskSpec) {}))
	l := newLive(r.task())
	r.statuses.later(l, running("ours"))
	r.foreign("theirs", false)
	if err := r.statuses.writePending(t.Context(), taskKey); !errors.Is(err, errForeignStatus) {
		t.Fatal(err)
	}
	err := r.statuses.writePending(t.Context(), taskKey) // writeNext: AddRateLimited
	if got := r.task().Status.Message; got != "theirs" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAStatusIsNotWrittenOverAnEndThatTheWatchBrought(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, aTask(func(*v1alpha1.AgentTaskSpec) {}))
	l := newLive(r.task())
	r.statuses.later(l, running("ours"))
	l.see(r.foreign("theirs", true))
	err := r.statuses.writePending(t.Context(), taskKey)
	if got := r.task().Status; got.Message != "theirs" {
		t.Errorf("%s %q, %v", got.Phase, got.Message, err)
	}
}

func TestATaskThatIsGoneHasNoStatusThatWaits(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("Going on."), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	if _, err := r.Reconcile(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	r.gone(taskKey) // relabelled
	if r.statuses.isPending(taskKey) {
		t.Error("it is pending")
	}
}

func TestAStatusThatStandsIsWrittenAgainAfterAnOlderOneInFlight(t *testing.T) {
	var r *rig
	var l *live
	n, hooked := 0, false
	r = newRig(t, countWrites(&n, func(task *v1alpha1.AgentTask) error {
		if task.Status.Message == "parked" && !hooked {
			hooked = true
			r.statuses.later(l, running("working")) // what stands there just now
		}
		return nil
	}), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	l = newLive(r.task())
	if err := r.statuses.now(t.Context(), l, running("working"), ""); err != nil {
		t.Fatal(err)
	}
	r.statuses.later(l, running("parked"))
	for range 3 {
		if err := r.statuses.writePending(t.Context(), taskKey); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.task().Status.Message; got != "working" {
		t.Errorf("%q, though the newest that was wanted is \"working\"; pending: %d", got, len(r.statuses.pending))
	}
}

func TestAStatusWhoseAnswerWasLostIsNoForeignOne(t *testing.T) {
	lost := false
	r := newRig(t, interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
		err := c.SubResource(sub).Update(ctx, o, opts...)
		if !lost {
			lost = true
			return errors.New("the connection broke")
		}
		return err
	}}, aTask(func(*v1alpha1.AgentTaskSpec) {}))
	l := newLive(r.task())
	if err := r.statuses.now(t.Context(), l, running("first"), ""); err == nil {
		t.Fatal("the answer was not lost")
	}
	l.see(r.task()) // the watch
	if err := r.statuses.now(t.Context(), l, running("second"), ""); err != nil || r.task().Status.Message != "second" {
		t.Errorf("%q, %v", r.task().Status.Message, err)
	}
}
