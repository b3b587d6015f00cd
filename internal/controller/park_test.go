package controller

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// full takes all slots, as calls that hang do.
func (r *rig) full() []*fairshare.Slot {
	var out []*fairshare.Slot
	for i := range r.slots.Limit() {
		// Each of a namespace of its own, so that the overflow is used up too.
		key := types.NamespacedName{Namespace: string(rune('a' + i)), Name: "hangs"}
		if slot := r.slots.Take(key, fairshare.Group{Namespace: key.Namespace, Model: "m"}); slot != nil {
			out = append(out, slot)
		}
	}
	return out
}

func free(slots []*fairshare.Slot) {
	for _, s := range slots {
		s.Release()
	}
}

func TestATaskWithoutASlotIsParkedAndSaysSo(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("TASK_COMPLETE: done"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	hanging := r.full()
	task := r.look(1)
	if c := condition(task, v1alpha1.ConditionReconciling); task.Status.Phase != v1alpha1.PhasePending || c.Reason != "WaitingForSlot" {
		t.Errorf("%s %q %+v", task.Status.Phase, task.Status.Message, c)
	}
	if kinds := r.kinds(); len(kinds) > 0 || task.Status.StartTime != nil {
		t.Errorf("its clock has started: %v", kinds)
	}
	free(hanging)
	if task := r.look(1); task.Status.ExitReason != v1alpha1.ExitCompleted {
		t.Errorf("with a slot it is %s %q", task.Status.Phase, task.Status.Message)
	}
}

// Whatever was planned before a wait may be wrong after it.
func TestATaskThatWaitedForASlotPlansAnew(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("TASK_COMPLETE: done"), aTask(func(s *v1alpha1.AgentTaskSpec) { s.Prompt = "Do the old thing." }))
	hanging := r.full()
	r.look(1)
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.Prompt, s.Suspend = "Do the new thing.", new(true) })
	free(hanging)
	if task := r.look(2); task.Status.Phase != v1alpha1.PhaseSuspended || len(r.kinds()) > 0 {
		t.Fatalf("suspended while it waited, it is %s, journal %v", task.Status.Phase, r.kinds())
	}
	if s := r.slots.Stats(); s.Running+s.Held > 0 {
		t.Errorf("a suspended task holds a slot: %+v", s)
	}
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.Suspend = new(false) })
	r.look(2)
	_, events, err := transcript.Load(t.Context(), r.Journals, refOf(r.task()))
	if err != nil || len(events) == 0 || events[0].Opened.Input.Prompt != "Do the new thing." {
		t.Errorf("it ran %+v, %v", events, err)
	}
}

// What needs no call never waits behind what does.
func TestWhatNeedsNoCallNeedsNoSlot(t *testing.T) {
	for name, tc := range map[string]struct {
		events []loop.Event
		spec   func(*v1alpha1.AgentTaskSpec)
		edit   func(*v1alpha1.AgentTaskSpec)
		later  time.Duration
		phase  v1alpha1.AgentTaskPhase
		reason v1alpha1.LoopExitReason
	}{
		"a cancel": {nil, nil, func(s *v1alpha1.AgentTaskSpec) { s.Cancel = new(true) }, 0, v1alpha1.PhaseCancelled, v1alpha1.ExitCancelled},
		"a suspend": {[]loop.Event{opened(), replied("On it.")}, nil, func(s *v1alpha1.AgentTaskSpec) { s.Suspend = new(true) }, 0,
			v1alpha1.PhaseSuspended, ""},
		"an answer": {[]loop.Event{opened(), asked()}, nil, func(s *v1alpha1.AgentTaskSpec) { s.ResumeInput = new("blue") }, 0,
			v1alpha1.PhaseRunning, ""},
		"an inputTimeout": {[]loop.Event{opened(), asked()}, func(s *v1alpha1.AgentTaskSpec) { s.InputTimeout = &metav1.Duration{Duration: time.Minute} }, nil,
			time.Hour, v1alpha1.PhaseFailed, v1alpha1.ExitInputTimeout},
		"a completion": {[]loop.Event{opened(), replied("TASK_COMPLETE: done")}, nil, nil, 0, v1alpha1.PhaseSucceeded, v1alpha1.ExitCompleted},
		"a refusal": {nil, func(s *v1alpha1.AgentTaskSpec) { s.Completion = &v1alpha1.Completion{StopWhen: "iteration >"} }, nil, 0,
			v1alpha1.PhaseFailed, v1alpha1.ExitError},
	} {
		t.Run(name, func(t *testing.T) {
			task := aTask(func(s *v1alpha1.AgentTaskSpec) {
				if tc.spec != nil {
					tc.spec(s)
				}
			})
			r := newRig(t, interceptor.Funcs{}, answers("Going on."), task)
			if len(tc.events) > 0 {
				r.write(tc.events...)
			}
			r.full()
			r.look(1)
			if tc.edit != nil {
				r.edit(tc.edit)
			}
			r.clock.Add(tc.later)
			if st := r.look(1).Status; st.Phase != tc.phase || st.ExitReason != tc.reason {
				t.Errorf("%s/%s %q, want %s/%s", st.Phase, st.ExitReason, st.Message, tc.phase, tc.reason)
			}
		})
	}
}

// The clock of maxDuration stands still while a task waits for us, and runs while it waits for what is out of our hands.
func TestWhatIsRunningTime(t *testing.T) {
	for name, tc := range map[string]struct {
		wait func(r *rig) (over func())
		runs bool
	}{
		"waiting for a slot": {func(r *rig) func() {
			hanging := r.full()
			return func() { free(hanging) }
		}, false},
		"nobody held it": {func(r *rig) func() {
			r.restart()
			return func() {}
		}, false},
		"its model is missing": {func(r *rig) func() {
			m := answers("Going on.")
			if err := r.kube.Delete(r.Context(), m); err != nil {
				r.Fatal(err)
			}
			return func() {}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, interceptor.Funcs{}, answers("Going on."), aTask(func(s *v1alpha1.AgentTaskSpec) { s.MaxDuration = &metav1.Duration{Duration: 30 * time.Minute} }))
			r.look(2)
			over := tc.wait(r)
			if name != "nobody held it" {
				r.look(2)
			}
			r.clock.Add(time.Hour)
			over()
			task := r.look(2)
			if ended := task.Status.ExitReason == v1alpha1.ExitTimeBudgetExceeded; ended != tc.runs {
				t.Errorf("after an hour it is %s/%s, %d s, %q", task.Status.Phase, task.Status.ExitReason, deref(task.Status.ActiveSeconds), task.Status.Message)
			}
		})
	}
}

// A place that nobody needs any more must not hold up others.
func TestATaskThatIsGoneHoldsNoPlace(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("TASK_COMPLETE: done"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	hanging := r.full()
	task := r.look(1)
	if !r.slots.Waiting(taskKey) {
		t.Fatal("it does not wait")
	}
	if err := r.kube.Delete(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	if r.slots.Waiting(taskKey) || len(r.sessions.byName) > 0 {
		t.Errorf("it waits: %v, sessions: %d", r.slots.Waiting(taskKey), len(r.sessions.byName))
	}
	free(hanging)
	if s := r.slots.Stats(); s.Running+s.Held > 0 {
		t.Errorf("%+v", s)
	}
}

// Messages that name what moves would be written again and again.
func TestTheMessageOfAParkedTaskNamesNoNumberThatMoves(t *testing.T) {
	for _, w := range []*Waiting{parked, parkedForModel, parkedForMemory, parkedAsSuspect} {
		if strings.ContainsAny(w.Message, "0123456789") {
			t.Errorf("%q", w.Message)
		}
	}
}

func TestATicketThatIsNotUsedIsGivenBack(t *testing.T) {
	var r *rig
	model := answers("Going on.", "Going on.")
	model.Spec.Limits = &v1alpha1.ModelLimits{RequestsPerMinute: new(int64(1))}
	r = newRig(t, interceptor.Funcs{}, model, aTask(func(s *v1alpha1.AgentTaskSpec) {}))
	s := r.sessions.of(r.task())
	if out, ok := r.load(t.Context(), s); !ok {
		t.Fatal(out)
	}
	run := r.newRun(t.Context(), t.Context(), s)
	next, err := run.settle()
	if err != nil || run.prepare(next) || !run.prepare(next) {
		t.Fatal("not prepared")
	}
	if _, err := run.open(); err != nil {
		t.Fatal(err)
	}
	next, _ = run.settle()
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.Suspend = new(true) })
	s.live.see(r.task()) // the watch, between settle and Advance
	if err := run.act(next); err != nil {
		t.Fatal(err)
	}
	run.end()
	kinds := r.kinds()
	if kinds[len(kinds)-1] != loop.KindSuspended {
		t.Fatal(kinds)
	}
	if _, wait := run.p.model.Limiter.Take("another", 1); wait != nil {
		t.Errorf("no call was made, but another waits %v: %s", wait.After, wait.Detail)
	}
}

// A conversation takes memory while it is in a call, so the long ones go one after the other where there is room for no more. What
// needs no call goes on.
func TestALongConversationWaitsForMemory(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("Going on.", "TASK_COMPLETE: done"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	long := replied(strings.Repeat("long ", 20<<10))
	r.write(opened(), long, loop.Event{Kind: loop.KindNudged, Nudged: &loop.Nudged{Text: "Go on."}})
	other := types.NamespacedName{Namespace: "ns", Name: "other"}
	r.room.Take(other, "ns", r.memory())
	task := r.look(1)
	if c := condition(task, v1alpha1.ConditionReconciling); c.Reason != "WaitingForMemory" || r.slots.Stats().Running+r.slots.Stats().Held > 0 {
		t.Fatalf("%+v, slots %+v", c, r.slots.Stats())
	}
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.Suspend = new(true) })
	if task := r.look(1); task.Status.Phase != v1alpha1.PhaseSuspended {
		t.Errorf("suspended, it is %s", task.Status.Phase)
	}
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.Suspend = nil })
	r.look(1)
	r.room.Leave(other)
	if task := r.look(2); task.Status.ExitReason != v1alpha1.ExitCompleted || r.room.Used() != 0 {
		t.Errorf("%s/%s %q, %d bytes are taken", task.Status.Phase, task.Status.ExitReason, task.Status.Message, r.room.Used())
	}
}
