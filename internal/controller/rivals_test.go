package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// Two installations that watch the same task: one works, the other keeps off, and nothing is taken for a crash.
func TestTwoOperatorsOfOneTask(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("Going on."), aTask(func(s *v1alpha1.AgentTaskSpec) { s.NoProgressTurns = new(int32(0)) }))
	other := &rig{T: t, TaskReconciler: NewTaskReconciler(r.Options, r.Client, r.Live, r.Recorder), clock: r.clock, events: r.events, kube: r.kube}
	other.Holder = "other"
	r.look(1)
	other.look(1) // takes it over, as after a failover
	told := 0
	for range 10 {
		r.look(1)
		other.look(1)
		r.clock.Add(rivalPause)
		for len(r.events.Events) > 0 {
			if strings.Contains(<-r.events.Events, "AnotherOperator") {
				told++
			}
		}
	}
	_, events, err := transcript.Load(t.Context(), r.Journals, refOf(r.task()))
	if err != nil {
		t.Fatal(err)
	}
	opened := 0
	for _, e := range events {
		if e.Opened != nil {
			opened++
		}
	}
	if task := r.task(); task.Finished() || opened != 2 || told != 1 {
		t.Errorf("%s/%s %q; opened %d times, told %d times", task.Status.Phase, task.Status.ExitReason, task.Status.Message, opened, told)
	}
	r.look(1)
	r.clock.Add(rivalPatience) // the other is gone
	r.look(1)
	_, events, _ = transcript.Load(t.Context(), r.Journals, refOf(r.task()))
	state, err := loop.Fold(events)
	if err != nil || state.Holder != r.Holder || state.Attempts > 0 {
		t.Errorf("holder %q after %d attempts, %v", state.Holder, state.Attempts, err)
	}
}

// The last append of a leader that goes may come just before the next one opens the journal. That is no second installation.
func TestAConflictAtTheOpeningIsNoRival(t *testing.T) {
	former := newRig(t, interceptor.Funcs{}, answers("Going on."), aTask(func(s *v1alpha1.AgentTaskSpec) { s.NoProgressTurns = new(int32(0)) }))
	former.look(1)
	late := false
	faults := interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if _, ok := o.(*v1alpha1.AgentTranscript); ok && !late {
			late = true
			former.look(1)
		}
		return c.Update(ctx, o, opts...)
	}}
	kube := interceptor.NewClient(former.kube, faults)
	o := former.Options
	o.Holder = "next"
	next := &rig{T: t, TaskReconciler: NewTaskReconciler(o, kube, kube, former.Recorder), clock: former.clock, events: former.events, kube: former.kube}
	next.look(1)
	if !late || next.rivals.met(next.session()) {
		t.Fatalf("late %v, taken for a rival %v", late, next.rivals.met(next.session()))
	}
	former.clock.Add(rivalPause)
	next.look(1)
	_, events, err := transcript.Load(t.Context(), next.Journals, refOf(next.task()))
	if err != nil || events[len(events)-1].Kind == loop.KindOpened {
		t.Fatal(err)
	}
	if state, err := loop.Fold(events); err != nil || state.Holder != "next" {
		t.Errorf("the next leader does not go on: holder %q, %v", state.Holder, err)
	}
}

func TestATaskCreatedAnewHasNoRival(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("TASK_COMPLETE: done"), aTask(func(*v1alpha1.AgentTaskSpec) {}))
	r.rivals.lost(&session{key: taskKey, uid: "task-1"}, r.clock.Now())
	if err := r.kube.Delete(t.Context(), r.task()); err != nil {
		t.Fatal(err)
	}
	anew := aTask(func(*v1alpha1.AgentTaskSpec) {})
	anew.UID = "task-2"
	if err := r.kube.Create(t.Context(), anew); err != nil {
		t.Fatal(err)
	}
	r.clock.Add(time.Second)
	if task := r.look(1); !task.Finished() {
		t.Errorf("%s %q", task.Status.Phase, task.Status.Message)
	}
}

// Whoever finds a status that another wrote looks at the journal before anything else, and leaves the task to its new holder.
func TestAForeignStatusIsNoReasonToTakeATaskBack(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("Going on."), aTask(func(s *v1alpha1.AgentTaskSpec) { s.NoProgressTurns = new(int32(0)) }))
	other := &rig{T: t, TaskReconciler: NewTaskReconciler(r.Options, r.Client, r.Live, r.Recorder), clock: r.clock, events: r.events, kube: r.kube}
	other.Holder = "other"
	r.look(1)
	r.clock.Add(time.Second)
	other.look(1)
	if err := r.statuses.now(t.Context(), r.session().live, running("ours"), ""); !errors.Is(err, errForeignStatus) {
		t.Fatal(err)
	}
	s := r.session()
	r.lost(s, 0)
	r.look(1)
	if kinds := r.kinds(); kinds[len(kinds)-1] == loop.KindOpened {
		t.Errorf("it was taken back: %v", kinds)
	}
}
