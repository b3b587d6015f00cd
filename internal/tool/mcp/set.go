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
	// Seen are the toolsets that the task sees for the first time, and Digests those of their tools, by model-visible name. Both are
	// to be in its journal before the tools are offered.
	Seen    []string
	Digests map[string]string
	// Withheld are the tools that are not offered since they came, or became others, after the task saw their toolset first.
	Withheld []Withheld
	// Unavailable are the toolsets whose tools are missing, in the order of the sources.
	Unavailable []UnavailableError

	pool   *Pool
	routes map[string]route
}

// Withheld is a tool that is not offered.
type Withheld struct {
	// Key is its Source's, Name the name under which the model would know it.
	Key, Name string
}

type route struct {
	source Source
	tool   string
}

var _ loop.Toolbox = (*Set)(nil)

// Resolve joins the tools of several toolsets for one task. All are asked at once, so the slowest decides how long it takes.
//
// pins are what the task has agreed to. The tools of a toolset that it has not seen follow the policy, and are to be added (Set.Seen).
// In one that it has seen, a tool that is not in pins, or with another digest, is withheld where it would run unasked by the policy
// Never, and needs approval by any other.
//
// When required toolsets are not available the error is their *UnavailableError, joined. Any other error is ctx's end, or
// a TaskAllow that is no glob or takes too much work.
func (p *Pool) Resolve(ctx context.Context, sources []Source, pins loop.Pins) (*Set, error) {
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
		tools, err := answers[i].tools, answers[i].err
		if err == nil {
			tools, err = set.choose(&globs, src, tools)
		}
		var unavailable *UnavailableError
		switch {
		case errors.As(err, &unavailable):
			set.Unavailable = append(set.Unavailable, *unavailable)
			if src.Required {
				missing = append(missing, unavailable)
			}
		case err != nil:
			return nil, err
		default:
			set.add(src, tools, pins)
		}
	}
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	return set, nil
}

// choose gives those of a toolset's tools that the task's own globs allow, if there is room for them.
func (s *Set) choose(globs *glob.Matcher, src Source, tools []Tool) ([]Tool, error) {
	if len(src.TaskAllow) > 0 {
		err := glob.Check(src.TaskAllow...)
		if err == nil {
			tools = slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return !globs.Any(src.TaskAllow, t.ServerName) })
			err = globs.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("toolset %q: allow: %w", src.Config.Name, err)
		}
	}
	if len(s.Definitions)+len(tools) > loop.MaxTools {
		return nil, &UnavailableError{Toolset: src.Config.Name, Reason: fmt.Sprintf(
			"a task can have %d tools in all, and this one has more with it: narrow them down by allow in spec.toolsets", loop.MaxTools)}
	}
	return tools, nil
}

func (s *Set) add(src Source, tools []Tool, pins loop.Pins) {
	name := src.Config.Name
	first := !seen(pins, name)
	if first {
		s.Seen = append(s.Seen, name)
	}
	for _, t := range tools {
		def := t.Definition
		if _, taken := s.routes[def.Name]; taken {
			// The hash of a long name is short, so a server can find two names that are cut to the same.
			def.Name = hashed(plain(name), plain(t.ServerName), "\x00"+name+"\x00"+t.ServerName)
			if _, taken := s.routes[def.Name]; taken {
				continue // the same toolset twice
			}
		}
		switch {
		case first:
			s.Digests[def.Name] = def.Digest
		case pins.Digests[def.Name] == def.Digest:
		case src.Config.RequireApproval == ApproveNever && !def.RequireApproval: // nobody may be there to be asked
			s.Withheld = append(s.Withheld, Withheld{Key: src.Key, Name: def.Name})
			continue
		default:
			def.RequireApproval, def.Repeatable = true, false
		}
		s.Definitions = append(s.Definitions, def)
		s.routes[def.Name] = route{source: src, tool: t.ServerName}
	}
}

// seen tells whether a task has seen a toolset. Where a journal does not say, in doubt it has.
func seen(pins loop.Pins, toolset string) bool {
	if pins.Toolsets[toolset] || !pins.Unnamed {
		return pins.Toolsets[toolset]
	}
	for name := range pins.Digests {
		if mayBeOf(name, toolset) {
			return true
		}
	}
	return false
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
		if mayBeOf(name, u.Toolset) {
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
