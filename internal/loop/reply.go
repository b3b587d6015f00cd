package loop

import (
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
