package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// parked and parkedForModel are tasks that are woken when their turn comes. They hold nothing.
var parked = &Waiting{Reason: "WaitingForSlot", Own: true, Message: "The task waits for a free slot: as many calls run as --max-concurrent-turns allows. It goes on by itself."}

var parkedForModel = &Waiting{Reason: "WaitingForModel", Own: true, Message: "The task waits for its AgentModel: as many calls run as spec.limits.maxConcurrent allows. It goes on by itself."}

var parkedForMemory = &Waiting{Reason: "WaitingForMemory", Own: true, Message: "The task waits for memory of the operator: its conversation is long, and so are others that are in calls. It goes on by itself."}

var parkedAsSuspect = &Waiting{Reason: "WaitingForRetry", Own: true, Message: "The operator stopped several times while this task's turn ran. Such turns are tried again a few at a time. It goes on by itself."}

// prepare gets what the next call needs, one thing after the other, and never waits for what others hold. False: something new is
// known, so what is due is to be decided anew, or the task has to wait.
func (t *run) prepare(next loop.Action) (ready bool) {
	p := t.p
	task, _ := t.s.live.now()
	switch {
	case p.model == nil:
		t.resolve(t.resolveModels)
		return false
	case !t.mayTry(), !t.takeRoom(), !t.takeSlot(next):
		return false
	case (p.tools == nil || p.stale && next.Kind == loop.ActionRunTools) && len(task.Spec.Toolsets) > 0:
		t.resolve(t.resolveTools) // then the room that is needed is known
		return false
	}
	return next.Kind != loop.ActionCallModel || t.takeTicket(next)
}

// resolve looks up references, until the task is cancelled or the operator stops: a server that hangs must not hold up a cancel.
func (t *run) resolve(by func(context.Context, *plan) error) {
	ctx, cancel := context.WithCancel(t.call)
	var watch sync.WaitGroup
	watch.Go(func() {
		for changed := t.p.Changed(); ; changed = t.p.Changed() {
			if t.p.Spec().Cancel {
				cancel()
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
	err := by(ctx, t.p)
	ended := ctx.Err() != nil
	cancel()
	watch.Wait() // it reads what the rest of the turn changes
	if err != nil && !ended {
		t.waiting = t.p.waitFor(t.ctx, err)
	}
}

// mayTry tells whether a turn that was under way at the operator's last crashes may be tried now.
func (t *run) mayTry() bool {
	crashes := t.s.state.Attempts
	if s := t.s.state; !t.s.opened && s.Started() && !s.Released {
		crashes++ // opening it counts
	}
	if crashes < firstSuspects {
		return true
	}
	admitted, alone := t.suspects.take(t.s.key, crashes)
	if t.alone = alone; !admitted {
		t.waiting = parkedAsSuspect
		t.slots.Leave(t.s.key) // what is held for it would be idle meanwhile
		t.room.Leave(t.s.key)
	}
	return admitted
}

// A call holds a conversation some callCopies times: folded, as the provider's structures, and as the body of the request. The schemas of
// its tools are decoded on that way, which takes more. Less than smallCall bytes are not counted: for that much of each call that
// --max-concurrent-turns allows there is memory anyway.
const callCopies, toolCopies, smallCall = 4, 24, 256 << 10

// takeRoom takes the memory that the next call needs. Without it the task is parked: the room wakes it.
func (t *run) takeRoom() bool {
	need := callCopies*t.s.state.HeldBytes() + toolCopies*t.s.toolBytes
	if need <= smallCall || t.room.Take(t.s.key, t.s.key.Namespace, need) {
		return true
	}
	t.waiting = parkedForMemory
	t.slots.Leave(t.s.key)
	return false
}

// takeSlot takes a slot of the model that is to be called, unless the run has it. Without one the task is parked: the slots wake it.
func (t *run) takeSlot(next loop.Action) bool {
	g := fairshare.Group{Namespace: t.s.key.Namespace}
	if next.Kind == loop.ActionCallModel {
		model := t.p.modelOf(next.Purpose)
		g.Model = model.Key.String()
		t.slots.SetModelLimit(g.Model, model.MaxConcurrent())
	}
	if t.slot != nil && (g.Model == "" || t.group == g) {
		return true
	}
	if t.slot != nil {
		t.slot.Release() // of another model
	}
	t.group = g
	take := t.slots.Take
	if t.s.answered {
		take = t.slots.TakeFirst
	}
	if t.slot = take(t.s.key, g); t.slot == nil {
		t.waiting = parked
		if t.slots.ModelFull(g.Model) {
			t.waiting = parkedForModel
		}
		return false
	}
	t.waitIsOver()
	return true
}

// outputGuess is the most that is set aside of a model's tokensPerMinute for a reply before it is known.
const outputGuess = 4096

// takeTicket takes what the call needs of the model's requests and tokens a minute.
func (t *run) takeTicket(next loop.Action) bool {
	if t.ticket != nil {
		return true
	}
	output := int64(outputGuess)
	if next.OutputCap > 0 {
		output = min(output, next.OutputCap)
	}
	model := t.p.modelOf(next.Purpose)
	ticket, wait := model.Limiter.Take(t.s.key.String(), next.EstimatedInput+output)
	if wait != nil {
		t.s.rate, t.rated = model.Limiter, true
		t.waiting = &Waiting{Reason: "WaitingForModel", Own: true, After: wait.After, Message: fmt.Sprintf(
			"The task waits for AgentModel %q: %s. It goes on by itself.", model.Key.Name, wait.Detail)}
		return false
	}
	t.ticket, t.s.rate = ticket, nil
	return true
}

// waitIsOver stops the time that the task waits for our own slots and limits, which is no running time.
func (t *run) waitIsOver() {
	s := t.s
	s.waited, s.waitingSince = s.waitedUntil(t.Clock.Now()), time.Time{}
	t.p.change(func() { t.p.waited = s.waited })
}

// waits notes that from now on the task waits for our own slots and limits, or that it does not.
func (s *session) waits(own bool, now time.Time) {
	switch {
	case !own:
		s.waited, s.waitingSince = s.waitedUntil(now), time.Time{}
	case s.waitingSince.IsZero():
		s.waitingSince = now
	}
}

// leave gives up every place at which a task waits.
func (r *TaskReconciler) leave(key types.NamespacedName) {
	r.slots.Leave(key)
	r.loads.Leave(key)
	r.room.Leave(key)
	r.suspects.leave(key)
}
