package controller

import (
	"fmt"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// plainSpec copies what needs no looking up, all of it of one version of the task.
func plainSpec(task *v1alpha1.AgentTask, deleted bool) loop.Spec {
	in := &task.Spec
	sp := loop.Spec{
		Prompt: in.Prompt, Instructions: in.Instructions,
		MaxIterations: int64(derefOr(in.MaxIterations, 50)), MaxTokens: deref(in.MaxTokens),
		MaxDuration: duration(in.MaxDuration), InputTimeout: duration(in.InputTimeout),
		Strategy: loop.StrategySignal, Nudge: in.Nudge, NoProgressTurns: int(derefOr(in.NoProgressTurns, 10)),
		LimitWarningPercent: int(derefOr(in.LimitWarningPercent, 80)),
		WrapUp:              in.OnLimit == v1alpha1.LimitWrapUp, ProgressLog: true,
		Cancel: deref(in.Cancel), Suspend: deref(in.Suspend),
		ResumeInput: deref(in.ResumeInput), ResumeInputID: in.ResumeInputID,
	}
	if q := task.Status.InputRequest; q != nil {
		sp.Told = q.ID
	}
	if deleted || !task.DeletionTimestamp.IsZero() {
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
