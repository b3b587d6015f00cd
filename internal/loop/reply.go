package loop

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop/eval"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/signal"
)

// truncated tells whether a reply ended before the model was through with it. Nothing in it is evidence of anything: no
// signal in it counts and no call in it is run.
func truncated(r *Reply) bool { return r.Finish == FinishLength || r.Finish == FinishCut }

// textSignal is the signal in the text of a whole reply.
func textSignal(r *Reply, texts []string) signal.Signal {
	if truncated(r) || declined(r) {
		return signal.Signal{}
	}
	return signal.Scan(texts)
}

// findSignal is what the reply signals: in its text, or by calls of the built-in tools that succeeded. It holds only if all
// calls of the reply succeeded.
func (t *turn) findSignal() signal.Signal {
	if t.wrapUp || anyFailed(t.results) {
		return signal.Signal{}
	}
	sig := textSignal(&t.reply, t.reply.Texts())
	if native, ok := nativeSignal(t.reply.ToolCalls, t.results); ok && t.returned {
		sig = strongerSignal(sig, native)
	}
	return sig
}

// declined tells whether the provider or the model stopped the reply for what it says.
func declined(r *Reply) bool { return r.Finish == FinishRefusal || r.Finish == FinishContentFilter }

// evidence tells whether a reply can show that the task is done: a broken-off or an empty one cannot.
func evidence(r *Reply) bool {
	return !truncated(r) && !declined(r) && (len(r.ToolCalls) > 0 || strings.TrimSpace(joinTexts(r.Texts())) != "")
}

// refused ends the task when the provider or the model declined: the same request would be declined again.
func refused(r *Reply) (Action, bool) {
	switch r.Finish {
	case FinishRefusal:
		return finish(ExitError, CauseModelRefused, "The model refused the request. What it said is in the transcript; change the prompt or the model, and create the task anew."), true
	case FinishContentFilter:
		return finish(ExitError, CauseContentFiltered, "The provider's content filter stopped the reply. Change the prompt or the tool results that led to it, and create the task anew."), true
	case FinishStop, FinishToolCalls, FinishLength, FinishCut:
	}
	return Action{}, false
}

// completed ends the task as a success. The output is the result that satisfies the output schema, empty without one.
func (t *turn) completed(output, message string) Action {
	return emit(Event{Finished: &Finished{Reason: ExitCompleted, Message: message, Summary: Cut(t.signal.Payload, MaxSummaryBytes), Output: output}})
}

// Sizes of what the status shows, in bytes.
const (
	MaxSummaryBytes  = 4096
	MaxOutputBytes   = eval.MaxJSONBytes
	MaxQuestionBytes = 4096
	// MaxShownArguments is of one call that waits for approval, MaxShownCalls of all of them with their ids and names. What is
	// longer as Visible writes it cannot be shown whole, and so not be approved.
	MaxShownArguments = 8192
	MaxShownCalls     = 32 << 10
	// MaxShownName is of an id or a name of a call. Those that come in are shorter.
	MaxShownName = 256
)

// unfence takes the JSON out of a fenced code block, if the text is nothing else.
func unfence(text string) string {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "```") || !strings.HasSuffix(text, "```") {
		return text
	}
	_, body, ok := strings.Cut(text, "\n")
	if !ok {
		return text
	}
	return strings.TrimSpace(strings.TrimSuffix(body, "```"))
}

// nudgeText is the user message that sends the agent into its next turn.
func nudgeText(s *State, sp *Spec, claimed bool, outputErr error) string {
	t := s.turn
	var b strings.Builder
	switch {
	case outputErr != nil && (claimed || sp.Strategy == StrategyJudge):
		fmt.Fprintf(&b, "The result does not satisfy the output schema: %s\nCorrect it and give it again.", quote(cutJSON(outputErr.Error(), 4000)))
	case t.verdict != nil:
		b.WriteString("The request is not answered yet. ")
		if why := t.verdict.Reasoning; why != "" {
			b.WriteString("The judge says: " + quote(cutJSON(why, maxReasoning)))
		} else {
			b.WriteString("Look again at what it asks for.")
		}
	case truncated(&t.reply):
		b.WriteString("Your last reply was cut off at its size limit. Go on from there, in shorter steps.")
	case len(t.reply.Texts()) == 0:
		b.WriteString("Your last reply was empty. Go on with the task.")
	case sp.Nudge != "":
		b.WriteString(sp.Nudge)
	default:
		b.WriteString("Go on with the task. When everything is done, end with a line that starts with TASK_COMPLETE: and a summary. If you cannot go on without a human, end with a line that starts with NEED_INPUT: and your question.")
	}
	if open := openItems(s.Todo); len(open) > 0 {
		b.WriteString("\n\nOpen items of your list:" + list(open))
	}
	return b.String()
}

// list puts each item on a line of its own.
func list(items []string) string {
	var b strings.Builder
	for _, item := range items {
		b.WriteString("\n- " + quote(item))
	}
	return b.String()
}

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
