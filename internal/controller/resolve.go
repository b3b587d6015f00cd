package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
)

// plan is a task with every reference resolved: all that the loop needs.
type plan struct {
	spec   loop.Spec
	engine *loop.Engine
	// model is the AgentModel, for people.
	model *v1alpha1.ObjectReference
	// pricing are its prices, judgePricing those of the model that judges.
	pricing, judgePricing *v1alpha1.Pricing
	// waiting: something is not there yet, so no call can be made.
	waiting *Waiting
	// invalid: the spec can never run.
	invalid *loop.Finished
	// notice is worth telling though the task goes on, such as a toolset that is away.
	notice *Waiting
	tools  *mcp.Set
	// queues are where the task waits when a model has no slot for it.
	queues []*waitQueue
}

// waits tells that no call can be made now.
func (p *plan) waits() bool { return p.waiting != nil }

// toolDigests are recorded when the task starts: a server must not swap a tool for another later.
func (p *plan) toolDigests(s *loop.State) map[string]string {
	if s.Started() || p.tools == nil {
		return nil
	}
	return p.tools.Digests
}

// resolve turns a task's spec and references into plain values. A missing reference is not an error but makes the plan wait.
func (r *TaskReconciler) resolve(ctx context.Context, task *v1alpha1.AgentTask, s *session) (*plan, error) {
	p := &plan{
		spec:   plainSpec(task),
		engine: &loop.Engine{Clock: r.Clock, Tools: loop.ToolboxFunc(noTool), Backoff: r.Backoff},
	}
	p.spec.MaxTurnAttempts = r.MaxTurnAttempts
	p.engine.Fresh = func() *loop.Spec {
		r.refresh(ctx, task, s, p)
		return &p.spec
	}
	c := s.compile(task)
	p.spec.StopWhen, p.spec.Output = c.stopWhen, c.output
	switch {
	case c.invalid != nil && s.state.Started():
		// A slip in an edit must not end what is paid for.
		p.waiting, p.spec.Held = &Waiting{Reason: string(c.invalid.Cause), Message: c.invalid.Message + goesOn, Held: true}, true
		return p, nil
	case c.invalid != nil:
		end := *c.invalid // the session keeps its own
		end.Message += " Correct it and create the task anew."
		p.invalid = &end
		return p, nil
	}
	if err := r.resolveModels(ctx, task, p); err != nil {
		p.spec.MaxAttempts = math.MaxInt32 // the AgentModel's own number is not known now
		return p.orWait(ctx, err)
	}
	return p.orWait(ctx, r.resolveTools(ctx, task, s.state, p))
}

const goesOn = " Correct it, and the task goes on."

// maxDuration gives spec.maxDuration as it is whenever that is asked.
func (r *TaskReconciler) maxDuration(ctx context.Context, task *v1alpha1.AgentTask) func() time.Duration {
	return func() time.Duration {
		if now, err := r.read(context.WithoutCancel(ctx), keyOf(task)); err == nil && now.UID == task.UID {
			return duration(now.Spec.MaxDuration)
		}
		return duration(task.Spec.MaxDuration)
	}
}

// refresh reads the spec again, after a call that may have taken long. What was resolved for the call stays.
func (r *TaskReconciler) refresh(ctx context.Context, task *v1alpha1.AgentTask, s *session, p *plan) {
	now, err := r.read(context.WithoutCancel(ctx), keyOf(task))
	if err != nil || now.UID != task.UID {
		return
	}
	was := p.spec
	p.spec = plainSpec(now)
	p.spec.Tools, p.spec.Away = was.Tools, was.Away
	p.spec.ContextWindowTokens, p.spec.ReplyTokens, p.spec.OwnJudge = was.ContextWindowTokens, was.ReplyTokens, was.OwnJudge
	p.spec.MaxAttempts, p.spec.MaxTurnAttempts = was.MaxAttempts, was.MaxTurnAttempts
	if c := s.compile(now); c.invalid == nil {
		p.spec.StopWhen, p.spec.Output = c.stopWhen, c.output
	} else {
		p.spec.StopWhen, p.spec.Output = was.StopWhen, was.Output // the next Reconcile says what is wrong
	}
}

// orWait makes a reference that is missing, or cannot be read, something to wait for: answers, limits and a cancel need none.
func (p *plan) orWait(ctx context.Context, err error) (*plan, error) {
	if err == nil || ctx.Err() != nil {
		return p, err
	}
	p.spec.Unresolved = true
	if !errors.As(err, &p.waiting) {
		log.FromContext(ctx).Error(err, "What a task refers to cannot be read")
		p.waiting = &Waiting{
			Reason: "ReferenceUnreadable", After: 5 * time.Second,
			Message: "The API server does not let an AgentModel, AgentToolset, Secret or ConfigMap of the task be read just now. The operator tries again, and its log says why.",
		}
	}
	return p, nil
}

// plainSpec copies what needs no looking up.
func plainSpec(task *v1alpha1.AgentTask) loop.Spec {
	in := &task.Spec
	sp := loop.Spec{
		Prompt: in.Prompt, Instructions: in.Instructions,
		MaxIterations: int64(derefOr(in.MaxIterations, 50)), MaxTokens: deref(in.MaxTokens),
		MaxDuration: duration(in.MaxDuration), InputTimeout: duration(in.InputTimeout),
		Strategy: loop.StrategySignal, Nudge: in.Nudge, NoProgressTurns: int(derefOr(in.NoProgressTurns, 10)),
		WrapUp: in.OnLimit == v1alpha1.LimitWrapUp, ProgressLog: true,
		Cancel: deref(in.Cancel), Suspend: deref(in.Suspend),
		ResumeInput: deref(in.ResumeInput), ResumeInputID: in.ResumeInputID,
	}
	if !task.DeletionTimestamp.IsZero() {
		sp.Cancel, sp.CancelWhy = true, "Cancelled, since the task is being deleted."
	}
	if c := in.Context; c != nil {
		sp.Fresh, sp.ProgressLog = c.Mode == v1alpha1.ContextFresh, derefOr(c.ProgressLog, true)
	}
	if c := in.Completion; c != nil {
		if c.Strategy != "" {
			sp.Strategy = loop.Strategy(c.Strategy)
		}
		if c.Judge != nil {
			sp.Criteria, sp.JudgeInstructions = c.Judge.Criteria, c.Judge.Instructions
		}
	}
	return sp
}

// compiled are the parts of a spec that take work to read.
type compiled struct {
	generation int64
	stopWhen   *loop.Predicate
	output     *loop.Schema
	invalid    *loop.Finished
}

// compile gives the compiled spec, which is made once a generation.
func (s *session) compile(task *v1alpha1.AgentTask) *compiled {
	if s.compiled == nil || s.compiled.generation != task.Generation {
		s.compiled = compile(&task.Spec)
		s.compiled.generation = task.Generation
	}
	return s.compiled
}

// compile checks what the API server cannot: a wrong expression or schema ends the task before its first call, not at turn 37.
func compile(in *v1alpha1.AgentTaskSpec) *compiled {
	var out compiled
	var err error
	if in.Completion != nil && in.Completion.StopWhen != "" {
		if out.stopWhen, err = loop.CompilePredicate(in.Completion.StopWhen); err != nil {
			out.invalid = invalidSpec(loop.CauseInvalidStopWhen, "spec.completion.stopWhen is no valid CEL expression: %s.", err)
			return &out
		}
	}
	if in.OutputSchema != nil {
		if out.output, err = loop.CompileSchema(in.OutputSchema.Raw); err != nil {
			out.invalid = invalidSpec(loop.CauseInvalidOutputSchema, "spec.outputSchema is no valid JSON Schema: %s.", err)
		}
	}
	return &out
}

func invalidSpec(cause loop.Cause, format string, err error) *loop.Finished {
	return &loop.Finished{Reason: loop.ExitError, Cause: cause, Message: loop.Cut(fmt.Sprintf(format, err), 1500)}
}

// resolveModels finds the task's model, and the judge's.
func (r *TaskReconciler) resolveModels(ctx context.Context, task *v1alpha1.AgentTask, p *plan) error {
	m, err := r.Models.forTask(ctx, task)
	if err != nil {
		return err
	}
	p.model, p.pricing, p.engine.Model = m.reference(), m.object.Spec.Pricing, m.model
	p.judgePricing = p.pricing
	p.queues = append(p.queues, m.queue)
	p.spec.ContextWindowTokens = deref(m.object.Spec.ContextWindowTokens)
	if params := m.object.Spec.Parameters; params != nil {
		p.spec.ReplyTokens = deref(params.MaxOutputTokens)
	}
	if retry := m.object.Spec.Retry; retry != nil {
		p.spec.MaxAttempts = int(deref(retry.MaxAttempts))
	}
	c := task.Spec.Completion
	if c == nil || c.Judge == nil || c.Judge.ModelRef == nil {
		return nil
	}
	judge, err := r.Models.get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: c.Judge.ModelRef.Name})
	if err != nil {
		return err
	}
	p.engine.Judge, p.spec.OwnJudge = judge.model, true
	p.judgePricing = judge.object.Spec.Pricing
	p.queues = append(p.queues, judge.queue)
	return nil
}

// resolveTools finds the tools of the task's toolsets.
func (r *TaskReconciler) resolveTools(ctx context.Context, task *v1alpha1.AgentTask, s *loop.State, p *plan) error {
	if len(task.Spec.Toolsets) == 0 {
		return nil
	}
	var sources []mcp.Source
	for _, ref := range task.Spec.Toolsets {
		key := client.ObjectKey{Namespace: task.Namespace, Name: ref.Name}
		set := &v1alpha1.AgentToolset{}
		if err := r.Client.Get(ctx, key, set); err != nil {
			if apierrors.IsNotFound(err) {
				return &Waiting{
					Reason:  "ToolsetNotFound",
					Message: fmt.Sprintf("AgentToolset %q is not in namespace %q: create it, or correct spec.toolsets.", ref.Name, task.Namespace),
				}
			}
			return err
		}
		id, cfg, err := r.Models.toolset(ctx, set)
		if w := (*Waiting)(nil); errors.As(err, &w) && w.Reason != reasonToolsetInvalid && !deref(ref.Required) {
			w.Message += " The task goes on without the tools of this toolset."
			p.away(set.Name, w) // one broken toolset does not hold up the others
			continue
		}
		if err != nil {
			return err
		}
		sources = append(sources, mcp.Source{Key: id, Config: cfg, TaskAllow: ref.Allow, Required: deref(ref.Required)})
	}
	tools, err := r.Tools.Resolve(ctx, sources, s.ToolDigests)
	var unavailable *mcp.UnavailableError
	switch {
	case errors.As(err, &unavailable):
		return toolsetUnavailable(unavailable, "The task waits for it, since spec.toolsets says required.", 5*time.Second)
	case err != nil && ctx.Err() == nil:
		return &Waiting{Reason: "ToolsetInvalid", Message: loop.Cut(err.Error(), 500) + ". Correct spec.toolsets."}
	case err != nil:
		return err
	}
	p.tools, p.spec.Tools, p.engine.Tools = tools, tools.Definitions, r.Tracer.Toolbox(tools)
	for i := range tools.Unavailable {
		u := &tools.Unavailable[i]
		p.away(u.Toolset, toolsetUnavailable(u, "The task goes on without its tools.", 0))
	}
	return nil
}

// away notes a toolset that the task goes on without.
func (p *plan) away(toolset string, why *Waiting) {
	p.spec.Away = append(p.spec.Away, toolset)
	if p.notice == nil {
		p.notice = &Waiting{Reason: why.Reason, Message: why.Message}
	}
}

// awaitApproved waits for the tool of a call that a human has approved: an approval is not used up by a tool that is away.
func (p *plan) awaitApproved(s *loop.State) *Waiting {
	if len(p.spec.Away) == 0 {
		return nil
	}
	known := map[string]bool{}
	for _, t := range p.spec.Tools {
		known[t.Name] = true
	}
	for _, name := range s.Approved() {
		if !known[name] {
			return &Waiting{Reason: "ToolsetUnavailable", After: 5 * time.Second, Message: fmt.Sprintf(
				"An approved call needs tool %q, and the tools of %s are away. The task waits for them.", name, strings.Join(p.spec.Away, ", "))}
		}
	}
	return nil
}

func toolsetUnavailable(e *mcp.UnavailableError, consequence string, after time.Duration) *Waiting {
	return &Waiting{Reason: "ToolsetUnavailable", Message: loop.Cut(e.Error(), 500) + ". " + consequence, After: after}
}

func noTool(context.Context, loop.ToolCall) loop.ToolResult {
	return loop.ToolResult{Content: "This task has no toolsets.", IsError: true}
}
