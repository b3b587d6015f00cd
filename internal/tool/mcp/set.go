package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/glob"
)

// Source is one toolset as a task names it.
type Source struct {
	// Key identifies the toolset in the pool.
	Key    string
	Config Config
	// TaskAllow are the task's own globs on the server's tool names, on top of the toolset's. None means all.
	TaskAllow []string
	// Required: without this toolset the task has to wait.
	Required bool
}

// Set is the tools of a task, and its loop.Toolbox.
type Set struct {
	// Definitions are in the order of the sources and, within one, of the server's tool names.
	Definitions []loop.ToolDefinition
	// Digests are the tools' digests by model-visible name.
	Digests map[string]string
	// Unavailable are the toolsets whose tools are missing, in the order of the sources.
	Unavailable []UnavailableError

	pool   *Pool
	routes map[string]route
}

type route struct {
	source Source
	tool   string
}

var _ loop.Toolbox = (*Set)(nil)

// Resolve joins the tools of several toolsets for one task. All are asked at once, so the slowest decides how long it takes.
//
// pinned maps model-visible names to the digests agreed at the task's start. A tool whose digest differs needs approval,
// whatever the policy says; one that is not in pinned follows the policy.
//
// When required toolsets are not available the error is their *UnavailableError, joined. Any other error is ctx's end, or
// a TaskAllow that is no glob or takes too much work.
func (p *Pool) Resolve(ctx context.Context, sources []Source, pinned map[string]string) (*Set, error) {
	type answer struct {
		tools []Tool
		err   error
	}
	answers := make([]answer, len(sources))
	var wg sync.WaitGroup
	for i, src := range sources {
		wg.Go(func() {
			answers[i].tools, answers[i].err = p.Tools(ctx, src.Key, src.Config)
		})
	}
	wg.Wait()

	set := &Set{Digests: map[string]string{}, pool: p, routes: map[string]route{}}
	var missing []error
	var globs glob.Matcher
	for i, src := range sources {
		var unavailable *UnavailableError
		switch err := answers[i].err; {
		case errors.As(err, &unavailable):
			set.Unavailable = append(set.Unavailable, *unavailable)
			if src.Required {
				missing = append(missing, unavailable)
			}
		case err != nil:
			return nil, err
		default:
			if err := glob.Check(src.TaskAllow...); err != nil {
				return nil, fmt.Errorf("toolset %q: allow: %w", src.Config.Name, err)
			}
			set.add(&globs, src, answers[i].tools, pinned)
			if err := globs.Err(); err != nil {
				return nil, fmt.Errorf("toolset %q: allow: %w", src.Config.Name, err)
			}
		}
	}
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	return set, nil
}

func (s *Set) add(globs *glob.Matcher, src Source, tools []Tool, pinned map[string]string) {
	for _, t := range tools {
		if len(src.TaskAllow) > 0 && !globs.Any(src.TaskAllow, t.ServerName) {
			continue
		}
		def := t.Definition
		if _, taken := s.routes[def.Name]; taken {
			// Names can only meet when two sources have the same toolset name.
			def.Name = hashed(plain(src.Config.Name), plain(t.ServerName), src.Key+"\x00"+t.ServerName)
			if _, taken := s.routes[def.Name]; taken {
				continue // the same toolset twice
			}
		}
		if agreed, ok := pinned[def.Name]; ok && agreed != t.Digest {
			def.RequireApproval = true
		}
		s.Definitions = append(s.Definitions, def)
		s.Digests[def.Name] = t.Digest
		s.routes[def.Name] = route{source: src, tool: t.ServerName}
	}
}

// CallTimeout is the longest that a call of one of the tools may take, zero without tools.
func (s *Set) CallTimeout() (longest time.Duration) {
	for _, r := range s.routes {
		longest = max(longest, r.source.Config.withDefaults().CallTimeout)
	}
	return longest
}

// Call implements loop.Toolbox.
func (s *Set) Call(ctx context.Context, call loop.ToolCall) (result loop.ToolResult) {
	defer func() {
		if r := recover(); r != nil {
			result = loop.ToolResult{Content: "The call failed within the client. " + unknown, IsError: true}
		}
		result.CallID, result.Name = call.ID, call.Name
	}()
	r, ok := s.routes[call.Name]
	if !ok {
		return loop.ToolResult{Content: s.noSuchTool(call.Name), IsError: true}
	}
	return s.pool.Call(ctx, r.source.Key, r.source.Config, r.tool, call.Arguments)
}

// maxNamed is how many tool names an answer to an unknown name lists.
const maxNamed = 50

func (s *Set) noSuchTool(name string) string {
	names := make([]string, 0, len(s.Definitions))
	for _, d := range s.Definitions {
		names = append(names, d.Name)
	}
	out := fmt.Sprintf("%s: there is no tool named %q.", notRun, atRune(name, maxName))
	for _, u := range s.Unavailable {
		if strings.HasPrefix(name, plain(u.Toolset)+separator) {
			out += fmt.Sprintf(" Toolset %q is not available now: %s.", u.Toolset, u.Reason)
		}
	}
	if len(names) == 0 {
		return out + " There are no tools."
	}
	more := ""
	if len(names) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(names)-maxNamed)
	}
	slices.Sort(names)
	return out + " The tools are: " + strings.Join(names[:min(len(names), maxNamed)], ", ") + more + "."
}
