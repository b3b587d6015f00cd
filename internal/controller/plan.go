package controller

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/resolve"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
)

// plan is what one Reconcile goes by: the task's spec as it is at any moment, and what of its references is resolved so far.
// It is the loop.Specs of the calls.
type plan struct {
	s      *session
	limits specLimits

	// model and judge are nil while they are not resolved; judge stays nil for the task's own model.
	model, judge *resolve.Model
	// tools are nil while they are not resolved, and for a task without toolsets.
	tools *mcp.Set
	// stale: a model call was made since tools were resolved, so their credentials may have been replaced.
	stale bool
	// away are the toolsets that the task goes on without, and notice tells of the first, and of tools that are withheld.
	away   []string
	notice *Waiting
	// unresolved: a reference is missing or cannot be read, so nothing may be concluded from what is not there.
	unresolved bool
	// waited is how long the task has waited for our own slots and limits since its last event.
	waited time.Duration
	// answered: the task's model has answered it before.
	answered bool

	mu      sync.Mutex
	of      *v1alpha1.AgentTask
	deleted bool
	made    *loop.Spec
	// settled is the version by which the journal was settled last, nil for none.
	settled *v1alpha1.AgentTask
}

// specLimits are the operator's own bounds.
type specLimits struct {
	turnAttempts int
	journalBytes int64
}

var _ loop.Specs = (*plan)(nil)

// Changed implements loop.Specs.
func (p *plan) Changed() <-chan struct{} { return p.s.live.watch() }

// Spec implements loop.Specs.
func (p *plan) Spec() *loop.Spec {
	p.mu.Lock()
	defer p.mu.Unlock()
	task, deleted := p.s.live.now()
	if p.made == nil || p.of != task || p.deleted != deleted {
		sp := p.make(task, deleted)
		p.made, p.of, p.deleted = &sp, task, deleted
	}
	return p.made
}

// change changes what Spec is made of.
func (p *plan) change(by func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	by()
	p.made = nil
}

func (p *plan) make(task *v1alpha1.AgentTask, deleted bool) loop.Spec {
	sp := plainSpec(task, deleted)
	c := p.s.compile(task)
	sp.StopWhen, sp.Output, sp.Held = c.stopWhen, c.output, c.invalid != nil
	sp.MaxTurnAttempts, sp.Waited, sp.Unresolved = p.limits.turnAttempts, p.waited, p.unresolved
	if !p.s.opened {
		sp.HeldSince = p.s.heldSince
	}
	sp.MaxJournalBytes = p.limits.journalBytes
	if own := deref(task.Spec.MaxJournalBytes); own > 0 && (own < sp.MaxJournalBytes || sp.MaxJournalBytes == 0) {
		sp.MaxJournalBytes = own
	}
	sp.Away = p.away
	if p.tools != nil {
		sp.Tools, sp.CallTimeout = p.tools.Definitions, p.tools.CallTimeout()
	}
	if p.model == nil {
		sp.Retry.MaxAttempts = math.MaxInt32 // the AgentModel's own bounds are not known
		return sp
	}
	m := &p.model.Object.Spec
	sp.ContextWindowTokens, sp.Price, sp.RequestTimeout = deref(m.ContextWindowTokens), p.model.Price(), p.model.RequestTimeout
	if m.Parameters != nil {
		sp.ReplyTokens = deref(m.Parameters.MaxOutputTokens)
	}
	sp.Retry = p.model.Retry(p.answered)
	sp.JudgePrice = sp.Price
	if p.judge != nil {
		sp.OwnJudge, sp.JudgePrice, sp.JudgeRetry = true, p.judge.Price(), p.judge.Retry(false)
	}
	return sp
}

// invalid says why the spec can never run, nil when it can. Once the task has started it is held instead.
func (p *plan) invalid() *loop.Finished {
	task, _ := p.s.live.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s.compile(task).invalid
}

// held is why nothing goes on but what cannot wait, nil for nothing: a slip in an edit must not end what is paid for.
func (p *plan) held() *Waiting {
	if bad := p.invalid(); bad != nil && p.s.state.Started() {
		return &Waiting{Reason: string(bad.Cause), Message: bad.Message + resolve.GoesOn, Held: true}
	}
	return nil
}

// modelOf is the model that a call of this purpose goes to.
func (p *plan) modelOf(purpose loop.Purpose) *resolve.Model {
	if purpose == loop.PurposeJudge && p.judge != nil {
		return p.judge
	}
	return p.model
}

// resolveModels finds the task's model, and the judge's.
func (r *TaskReconciler) resolveModels(ctx context.Context, p *plan) error {
	task, _ := p.s.live.now()
	model, err := r.Models.ForTask(ctx, task, p.s.state.Input)
	if err != nil {
		return err
	}
	var judge *resolve.Model
	if c := task.Spec.Completion; c != nil && c.Judge != nil && c.Judge.ModelRef != nil {
		if judge, err = r.Models.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: c.Judge.ModelRef.Name}); err != nil {
			return err
		}
	}
	p.change(func() { p.model, p.judge = model, judge })
	return nil
}

// waitFor makes a reference that is missing, or cannot be read, something to wait for: answers, limits and a cancel need none.
func (p *plan) waitFor(ctx context.Context, err error) *Waiting {
	p.change(func() { p.unresolved = true })
	var w *Waiting
	if errors.As(err, &w) {
		return w
	}
	log.FromContext(ctx).Error(err, "What a task refers to cannot be read")
	return &Waiting{
		Reason: "ReferenceUnreadable", After: 5 * time.Second,
		Message: "The API server does not let an AgentModel, AgentToolset or Secret of the task be read just now. The operator tries again, and its log says why.",
	}
}
