package controller

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// An operator that stops says of each task whether a call may have been under way.
func TestATaskThatWaitedAtAStopIsChargedNothing(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("Going on."), aTask(func(s *v1alpha1.AgentTaskSpec) { s.MaxTokens = new(int64(100_000)) }))
	r.ShutdownGrace = time.Minute
	r.look(2)
	stopped, stop := contextOf(t)
	stop()
	if err := r.letGoAll(stopped); err != nil {
		t.Fatal(err)
	}
	if kinds := r.kinds(); kinds[len(kinds)-1] != loop.KindReleased {
		t.Fatalf("it was not let go: %v", kinds)
	}
	r.restart()
	r.look(1)
	_, events, err := transcript.Load(t.Context(), r.Journals, refOf(r.task()))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Opened != nil && e.Opened.Lost != nil {
			t.Errorf("a call is charged as lost: %+v", e.Opened.Lost)
		}
	}
}

func TestASessionWhoseStateWasForgottenIsLetGoAtAStop(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, answers("Going on."), aTask(func(s *v1alpha1.AgentTaskSpec) { s.MaxTokens = new(int64(100_000)); s.NoProgressTurns = new(int32(0)) }))
	for restarts := range 3 {
		r.look(1)
		if restarts == 0 {
			r.look(1)
		}
		hanging := r.full()
		r.look(1) // parked
		s := r.sessions.byName[taskKey]
		r.sessions.mu.Lock()
		s.held, r.sessions.held = maxHeldBytes+1, maxHeldBytes+1 // a crowd of others
		r.sessions.mu.Unlock()
		other := aTask(func(*v1alpha1.AgentTaskSpec) {})
		other.Name, other.UID = "other", "other"
		o := r.sessions.of(other)
		o.state = &loop.State{}
		r.sessions.rest(o, false)
		if s.state != nil {
			t.Fatal("it was not evicted")
		}
		free(hanging)
		stopped, stop := contextOf(t)
		stop()
		if err := r.letGoAll(stopped); err != nil {
			t.Fatal(err)
		}
		if kinds := r.kinds(); kinds[len(kinds)-1] != loop.KindReleased {
			t.Errorf("it was not let go: %v", kinds)
		}
		r.restart()
	}
	r.look(1)
	_, events, _ := transcript.Load(t.Context(), r.Journals, refOf(r.task()))
	for _, e := range events {
		if e.Opened != nil && e.Opened.Lost != nil {
			t.Errorf("charged as lost: %+v", e.Opened.Lost.Usage)
		}
	}
}

func TestAStopWhileAStatusIsWrittenLetsTheTaskGo(t *testing.T) {
	var r *rig
	stopped, stop := contextOf(t)
	n, armed := 0, false
	r = newRig(t, countWrites(&n, func(task *v1alpha1.AgentTask) error {
		if armed {
			armed = false
			stop()
			if err := r.letGoAll(stopped); err != nil {
				t.Error(err)
			}
		}
		return nil
	}), answers("NEED_INPUT: which?", "Going on.", "Going on."), aTask(func(s *v1alpha1.AgentTaskSpec) { s.MaxTokens = new(int64(100_000)) }))
	r.look(2)
	r.edit(func(s *v1alpha1.AgentTaskSpec) { s.ResumeInput = new("blue") })
	armed = true
	if _, err := r.Reconcile(stopped, request()); err != nil {
		t.Fatal(err)
	}
	if armed {
		t.Fatal("no write")
	}
	if kinds := r.kinds(); kinds[len(kinds)-1] != loop.KindReleased {
		t.Errorf("it was not let go: %v", kinds)
	}
}
