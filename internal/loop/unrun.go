package loop

import (
	"cmp"
)

// callIDs are the ids of calls, in order.
func callIDs(calls []ToolCall) []string {
	ids := make([]string, 0, len(calls))
	for _, c := range calls {
		ids = append(ids, c.ID)
	}
	return ids
}

func anyFailed(results []ToolResult) bool {
	for _, r := range results {
		if r.IsError {
			return true
		}
	}
	return false
}

// notRun answers all calls of a reply with the reason why none was run.
func notRun(calls []ToolCall, why string) []ToolResult {
	out := make([]ToolResult, 0, len(calls))
	for _, c := range calls {
		out = append(out, failedResult(c, why))
	}
	return out
}

// repeatable tells whether a call whose outcome was lost may run again.
func repeatable(c ToolCall, sp *Spec) bool {
	if IsBuiltin(c.Name) {
		return true
	}
	t, ok := sp.tool(c.Name)
	return ok && t.Repeatable
}

// lostResults answers the calls of a reply of which none may be repeated.
func lostResults(t *turn, sp *Spec) []ToolResult {
	out := make([]ToolResult, 0, len(t.reply.ToolCalls))
	for _, c := range t.reply.ToolCalls {
		out = append(out, failedResult(c, cannotRun(t, sp, c)))
	}
	return out
}

// tooLate are the results of calls that find the task's time used up. The built-in ones take none.
func tooLate(t *turn, sp *Spec) *ToolsReturned {
	calls := t.reply.ToolCalls
	results := make([]ToolResult, len(calls))
	for i, c := range calls {
		why := cmp.Or(cannotRun(t, sp, c), "Not run: maxDuration is used up.")
		if t.lost {
			why = lostOutcome
		}
		results[i] = failedResult(c, why)
	}
	return &ToolsReturned{Results: results, Todo: builtinResults(calls, results)}
}

func anyRepeatable(calls []ToolCall, sp *Spec) bool {
	for _, c := range calls {
		if repeatable(c, sp) {
			return true
		}
	}
	return false
}

const lostOutcome = "The operator was interrupted while this call ran, so its outcome is unknown: it may have taken effect or not. Check before you call it again."
