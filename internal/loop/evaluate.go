package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agentloop-dev/agenttask-operator/internal/loop/eval"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/signal"
)

// Schema is a compiled output schema.
type Schema = eval.Schema

// Predicate is a compiled stopWhen expression.
type Predicate = eval.Predicate

// CompileSchema compiles a JSON Schema (draft 2020-12 unless it says otherwise). The error is one sentence for the user, without
// its end.
func CompileSchema(raw json.RawMessage) (*Schema, error) { return eval.CompileSchema(raw) }

// CompilePredicate compiles a CEL expression over response, iteration, usage and toolCalls that gives a bool. The error is one
// sentence for the user, without its end.
func CompilePredicate(expr string) (*Predicate, error) {
	return eval.CompilePredicate(expr, eval.Limits{
		Response: maxTextBytes + 2*maxReplyBlocks, Calls: maxReplyCalls, CallBytes: maxCallsBytes + maxNamesBytes,
	})
}

// What a reply means to the task's own schema and expression is found once, when it comes in, and is in the journal from then
// on: to evaluate takes time, which deciding and opening a journal must not take. It counts for the schema and the expression
// that it was found with. After an edit in between the agent gives its result again, so that what a task completes with
// satisfies the schema that it has; a new stopWhen is evaluated over the next reply.

// checkOutput holds a turn's reply against the output schema, nil without one. A reply that the schema takes too much work for
// is not the agent's fault, which could only give it again: the sizes that it answers for have bounds of their own.
func checkOutput(sp *Spec, r *Reply) *OutputCheck {
	if sp.Output == nil {
		return nil
	}
	c := &OutputCheck{Schema: sp.Output.Digest}
	result, err := sp.Output.FirstValid(results(r))
	switch {
	case errors.Is(err, eval.ErrTooMuchWork):
		c.TooMuchWork = true
	case err != nil:
		c.Fault = clean(err.Error())
	case result == "":
		c.Fault = fmt.Sprintf("the reply has no JSON: give it as the argument output of %s, or as the only text of the reply", ToolTaskComplete)
	case len(Visible(result)) > MaxOutputBytes:
		c.Fault = fmt.Sprintf("the JSON takes more than %d bytes once its control and format characters are escaped: make it shorter, or leave them out", MaxOutputBytes)
	default:
		c.JSON = result
	}
	return c
}

// results are the texts of a reply that may be the JSON of its result: the output argument of the last task_complete, else the
// text of the completion signal, else the reply's texts, the last first.
func results(r *Reply) []string {
	var out []string
	for _, c := range slices.Backward(r.ToolCalls) {
		var a completeArgs
		if c.Name == ToolTaskComplete && decodeArgs(c.Arguments, &a) == nil && len(a.Output) > 0 {
			out = append(out, string(a.Output))
			var text string // models like to put JSON into a JSON string
			if json.Unmarshal(a.Output, &text) == nil {
				out = append(out, text)
			}
			break
		}
	}
	texts := r.Texts()
	done := textSignal(r, texts)
	if native, ok := nativeSignal(r.ToolCalls, nil); ok { // if the calls fail, nothing is claimed and nothing of this counts
		done = strongerSignal(done, native)
	}
	out = append(out, done.Payload)
	for _, t := range slices.Backward(texts) {
		out = append(out, signal.Strip(t))
	}
	for i, t := range out {
		out[i] = unfence(t)
	}
	return out
}

// checkStop evaluates stopWhen over a turn that ends with a reply, nil without one or without evidence.
func checkStop(s *State, sp *Spec, r *Reply) *StopCheck {
	if sp.StopWhen == nil || !evidence(r) {
		return nil
	}
	usage := s.Usage.Add(r.Usage)
	turn := eval.Turn{
		Response: joinTexts(r.Texts()), Iteration: s.Iterations + 1,
		Usage: eval.Usage{Input: usage.InputTokens, Output: usage.OutputTokens, Total: usage.Total()},
	}
	for _, c := range r.ToolCalls {
		turn.ToolCalls = append(turn.ToolCalls, eval.Call{Name: c.Name, Arguments: c.Arguments})
	}
	c := &StopCheck{Expression: sp.StopWhen.Digest}
	hit, err := sp.StopWhen.Eval(turn)
	c.True = hit
	if err != nil {
		c.Fault = clean(err.Error())
	}
	return c
}

// result is the JSON that the turn's reply gives as the task's result, empty where no schema asks for one. The error is for the
// agent, but for eval.ErrTooMuchWork.
func (t *turn) result(sp *Spec) (string, error) {
	switch c := t.output; {
	case sp.Output == nil:
		return "", nil
	case c == nil || c.Schema != sp.Output.Digest:
		return "", errors.New("the output schema was changed after your reply: give the result as it asks for now")
	case c.TooMuchWork:
		return "", eval.ErrTooMuchWork
	case c.Fault != "":
		return "", errors.New(c.Fault)
	default:
		return c.JSON, nil
	}
}

// stops tells whether stopWhen was true of the turn.
func (t *turn) stops(sp *Spec) bool {
	return sp.StopWhen != nil && t.stopWhen != nil && t.stopWhen.True && t.stopWhen.Expression == sp.StopWhen.Digest
}
