package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/resolve"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
)

// resolveTools lists the tools of the task's toolsets. It asks their servers, so it is done within a slot.
func (r *TaskReconciler) resolveTools(ctx context.Context, p *plan) error {
	task, _ := p.s.live.now()
	sources, away, err := r.toolSources(ctx, task)
	if err != nil {
		return err
	}
	tools, err := r.Tools.Resolve(ctx, sources, p.s.state.Pins)
	var unavailable *mcp.UnavailableError
	switch {
	case errors.As(err, &unavailable):
		return toolsetUnavailable(unavailable, "The task waits for it, since spec.toolsets says required.", 5*time.Second)
	case err != nil && ctx.Err() == nil:
		return &Waiting{Reason: "ToolsetInvalid", Message: loop.Cut(err.Error(), 500) + ". Correct spec.toolsets."}
	case err != nil:
		return err
	}
	for i := range tools.Unavailable {
		u := &tools.Unavailable[i]
		away = append(away, awayToolset{u.Toolset, toolsetUnavailable(u, "The task goes on without its tools.", 0)})
	}
	if p.s.toolBytes = definitionBytes(tools.Definitions); p.s.toolBytes > maxToolBytes {
		return &Waiting{Reason: "ToolsTooLarge", Message: fmt.Sprintf(
			"The definitions of the task's tools take %d KiB, and at most %d KiB are sent with a request: allow fewer tools in spec.toolsets or in the AgentToolsets.",
			p.s.toolBytes>>10, maxToolBytes>>10)}
	}
	p.change(func() {
		p.tools, p.stale, p.away = tools, false, nil
		for _, a := range away {
			p.away = append(p.away, a.name)
		}
		p.notice = p.s.withhold(sources, tools.Withheld)
		if len(away) > 0 {
			why := away[0].why
			p.notice = both(p.notice, &Waiting{Reason: why.Reason, Message: why.Message})
		}
	})
	if w := p.awaitApproved(); w != nil {
		return w
	}
	return nil
}

// maxToolBytes bounds the definitions of one task's tools, in bytes: more than any model takes, and every request carries all of them.
const maxToolBytes = 2 << 20

func definitionBytes(tools []loop.ToolDefinition) (n int64) {
	for i := range tools {
		n += int64(len(tools[i].Name) + len(tools[i].Description) + len(tools[i].InputSchema))
	}
	return n
}

// firstTools names the first of some tools.
func firstTools(names []string) string {
	if len(names) > maxNamedTools {
		names = append(slices.Clone(names[:maxNamedTools]), "others")
	}
	return strings.Join(names, ", ")
}

// both is two notices in one, of which each may be nil.
func both(a, b *Waiting) *Waiting {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &Waiting{Reason: a.Reason, Message: a.Message + " " + b.Message}
}

// maxNamedTools is how many withheld tools a status names.
const maxNamedTools = 5

// withhold tells of tools that are not offered. What was told once stays, for as long as the toolset is the same: a server that goes on
// to change its list changes no status.
func (s *session) withhold(sources []mcp.Source, withheld []mcp.Withheld) *Waiting {
	s.withheld = slices.DeleteFunc(s.withheld, func(w mcp.Withheld) bool {
		return !slices.ContainsFunc(sources, func(src mcp.Source) bool { return src.Key == w.Key })
	})
	for _, w := range withheld {
		if len(s.withheld) <= maxNamedTools && !slices.Contains(s.withheld, w) {
			s.withheld = append(s.withheld, w)
		}
	}
	if len(s.withheld) == 0 {
		return nil
	}
	var names []string
	for _, w := range s.withheld {
		names = append(names, w.Name)
	}
	return &Waiting{Reason: "ToolsChanged", Message: fmt.Sprintf("Not offered, since their server has added or changed them after the task saw it first, "+
		"and requireApproval is Never: %s. The task goes on without them. To use them, create the task anew, or set spec.requireApproval of their AgentToolset to Always.",
		firstTools(names))}
}

// awayToolset is one that the task goes on without.
type awayToolset struct {
	name string
	why  *Waiting
}

// toolSources resolves the task's toolsets to plain values. One broken toolset does not hold up the others, unless it is required.
func (r *TaskReconciler) toolSources(ctx context.Context, task *v1alpha1.AgentTask) (sources []mcp.Source, away []awayToolset, err error) {
	for _, ref := range task.Spec.Toolsets {
		set := &v1alpha1.AgentToolset{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: ref.Name}, set)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil, &Waiting{
				Reason:  "ToolsetNotFound",
				Message: fmt.Sprintf("AgentToolset %q is not in namespace %q: create it, or correct spec.toolsets.", ref.Name, task.Namespace),
			}
		case err != nil:
			return nil, nil, err
		}
		id, cfg, err := r.Models.Toolset(ctx, set)
		if w := (*Waiting)(nil); errors.As(err, &w) && w.Reason != resolve.ReasonToolsetInvalid && !deref(ref.Required) {
			w.Message = fmt.Sprintf("The task goes on without the tools of AgentToolset %q. %s", set.Name, w.Message) // which may end with a command
			away = append(away, awayToolset{set.Name, w})
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, mcp.Source{Key: id, Config: cfg, TaskAllow: ref.Allow, Required: deref(ref.Required)})
	}
	return sources, away, nil
}

// awaitApproved waits for the tool of a call that a human has approved: an approval is not used up by a tool that is away.
func (p *plan) awaitApproved() *Waiting {
	if len(p.away) == 0 {
		return nil
	}
	known := map[string]bool{}
	for _, t := range p.tools.Definitions {
		known[t.Name] = true
	}
	for _, w := range p.tools.Withheld {
		known[w.Name] = true // it is there, and will not be offered
	}
	for _, name := range p.s.state.Approved() {
		if !known[name] {
			return &Waiting{Reason: "ToolsetUnavailable", After: 5 * time.Second, Message: fmt.Sprintf(
				"An approved call needs tool %q, and the tools of %s are away. The task waits for them.", name, strings.Join(p.away, ", "))}
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
