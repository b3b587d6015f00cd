package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
)

// callTools runs the calls of the last reply, in parallel up to a limit, and gives the results in the order of the calls.
func (e *Engine) callTools(ctx context.Context, s *State, sp *Spec) []Event {
	t := s.turn
	calls := t.reply.ToolCalls
	results := make([]ToolResult, len(calls))
	var wg sync.WaitGroup
	slots := make(chan struct{}, e.parallel())
	for i, c := range calls {
		if IsBuiltin(c.Name) {
			continue
		}
		if why := cmp.Or(s.cannotOffer(c), cannotRun(t, sp, c)); why != "" {
			results[i] = failedResult(c, why)
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = e.callTool(ctx, c)
		})
	}
	wg.Wait()
	todo := builtinResults(calls, results)
	capResults(results)
	return []Event{{ToolsReturned: &ToolsReturned{Results: results, Todo: todo}}}
}

func (e *Engine) parallel() int {
	if e.MaxParallelCalls > 0 {
		return e.MaxParallelCalls
	}
	return 8
}

// cannotRun tells why a call is not run, empty when it is. What may have run already is never said not to have.
func cannotRun(t *turn, sp *Spec, c ToolCall) string {
	tool, known := sp.tool(c.Name)
	fault := argumentsFault(c)
	switch {
	case fault != "":
		return fault
	case t.denied[c.ID] && t.denyReason != "":
		return "Denied by the human: " + t.denyReason
	case t.denied[c.ID]:
		return "Denied by the human. Do not call it again with these arguments."
	case t.lost && (!repeatable(c, sp) || !t.allows(c, &tool)):
		return lostOutcome
	case t.needApproval[c.ID] && !t.shown[c.ID]:
		return tooLongToApprove
	case !known:
		return unknownTool(c.Name, sp)
	case t.needApproval[c.ID] && !t.allows(c, &tool):
		return "Not run: its tool is not the one any more that a human was asked about. Call it again to ask anew."
	case !t.allows(c, &tool):
		return "Not run: since you asked for this call, its tool has come to need a human's approval. Call it again to ask for that."
	}
	return ""
}

var tooLongToApprove = fmt.Sprintf("Denied: this call needs a human's approval, and cannot be shown whole to one, so that nobody can approve it. "+
	"Of one call %d bytes of arguments can be shown, of all calls of a reply %d. Call it again with shorter arguments, or with fewer calls at once.",
	MaxShownArguments, MaxShownCalls)

// allows tells whether a call that was not denied may run with this tool: a human has approved this very one, or none need to.
func (t *turn) allows(c ToolCall, tool *ToolDefinition) bool {
	if t.needApproval[c.ID] {
		return tool.Digest == t.digests[c.Name]
	}
	return !tool.RequireApproval
}

func argumentsFault(c ToolCall) string {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(orEmptyObject(c.Arguments)), &object); err != nil {
		return fmt.Sprintf("The arguments are not a JSON object (%s). Correct them and call again.", jsonFault(err))
	}
	return ""
}

func unknownTool(name string, sp *Spec) string {
	names := []string{ToolTaskComplete, ToolNeedInput, ToolTodo}
	for _, t := range sp.Tools {
		names = append(names, t.Name)
	}
	sort.Strings(names)
	away := ""
	if len(sp.Away) > 0 {
		away = fmt.Sprintf(" The tools of %s are away for now; try again later.", strings.Join(sp.Away, ", "))
	}
	return cutAt(fmt.Sprintf("There is no tool %q.%s There are: %s.", cutAt(name, 100), away, strings.Join(names, ", ")), 4000)
}

// callTool runs one call. A panic below it is that call's failure alone.
func (e *Engine) callTool(ctx context.Context, c ToolCall) (result ToolResult) {
	defer func() {
		if recover() != nil {
			result = failedResult(c, "The operator failed inside this call. Its outcome is unknown.")
		}
	}()
	if ctx.Err() != nil {
		return failedResult(c, "Not run: "+context.Cause(ctx).Error()+".")
	}
	c.Arguments = orEmptyObject(c.Arguments)
	result = e.Tools.Call(ctx, c)
	result.CallID, result.Name = c.ID, c.Name
	result.Content = clean(result.Content)
	return result
}

// builtinResults fills in the results of the built-in calls. They come last: a signal is not taken when another call of its
// reply failed, and the model is told so.
func builtinResults(calls []ToolCall, results []ToolResult) []TodoItem {
	failed := false
	for i, c := range calls {
		failed = failed || !IsBuiltin(c.Name) && results[i].IsError
	}
	var todo []TodoItem
	for i, c := range calls {
		if !IsBuiltin(c.Name) {
			continue
		}
		if failed && c.Name != ToolTodo {
			results[i] = failedResult(c, "Not taken: another call of the same reply failed. Look at its result first.")
			continue
		}
		var items []TodoItem
		if results[i], items = runBuiltin(c); items != nil {
			todo = items
		}
	}
	return todo
}
