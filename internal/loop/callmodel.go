package loop

import (
	"context"
	"errors"
	"time"
)

// callModel makes one model call within the task's time and tokens.
func (e *Engine) callModel(w *watch, a Action) []Event {
	s, sp := w.s, w.sp
	req := buildRequest(s, sp, a.Purpose)
	req.MaxOutputTokens = a.OutputCap
	req.Sequence = s.callsBefore(a.Purpose, e.Judge != nil)
	now := e.Clock.Now()
	var streamed int64
	reply, err := e.model(a.Purpose).Generate(w.ctx, req, func(n int) {
		streamed += int64(n)
		if now := w.specs.Spec(); now.MaxTokens > 0 && outputTokens(streamed) > now.tokensLeft(s, a.EstimatedInput) {
			w.cancel(errTokenBudget)
		}
	})
	cause := context.Cause(w.ctx)
	switch {
	case err == nil && reply == nil:
		err = &ModelError{Cause: CauseModelReplyInvalid, Retry: true, Detail: "The model client gave no reply."}
	case err != nil && errors.Is(cause, errTokenBudget):
		if reply == nil {
			reply = &Reply{}
		}
		reply.Finish, err = FinishCut, nil
	}
	if err != nil {
		return charged(sp, a, Event{ModelFailed: e.failure(s, sp, a, reply, err, cause, streamed)})
	}
	fillUsage(&reply.Usage, a.EstimatedInput, max(streamed, replyBytes(reply)), reply.Finish == FinishCut)
	return charged(sp, a, e.replied(s, sp, w.specs.Spec(), a, req, reply, now)...)
}

// charged notes in the events of a call what it cost, and under which cap.
func charged(sp *Spec, a Action, events ...Event) []Event {
	for i := range events {
		if r := events[i].ModelReplied; r != nil {
			r.OutputCap, r.Cost = a.OutputCap, sp.price(a.Purpose).cost(r.Reply.Usage)
		}
		if f := events[i].ModelFailed; f != nil {
			f.OutputCap, f.Cost = a.OutputCap, sp.price(a.Purpose).cost(f.Usage)
		}
	}
	return events
}

func (e *Engine) model(p Purpose) Model {
	if p == PurposeJudge && e.Judge != nil {
		return e.Judge
	}
	return e.Model
}

// replied turns a reply to a request of sp into events. What is asked of replies is what the newest spec asks.
func (e *Engine) replied(s *State, sp, newest *Spec, a Action, req *Request, reply *Reply, now time.Time) []Event {
	normalise(reply)
	r := &ModelReplied{Purpose: a.Purpose, Reply: *reply}
	switch a.Purpose {
	case PurposeJudge:
		r.Verdict = parseVerdict(reply)
	case PurposeCompaction:
		ev, ok := compactedEvent(s, sp, reply)
		if !ok {
			return []Event{{ModelFailed: &ModelFailed{
				Purpose: a.Purpose, Cause: CauseModelReplyInvalid, Message: "The model gave no summary of the conversation.",
				Usage: reply.Usage, Retry: true, RetryAt: now.Add(e.backoff(s.Failures + 1)).UTC(),
			}}}
		}
		return []Event{{ModelReplied: r}, ev}
	case PurposeTurn:
		r.RequestBytes = req.Bytes()
		r.Output, r.StopWhen = checkOutput(newest, reply), checkStop(s, newest, reply)
		r.NeedApproval, r.ToolDigests = needApproval(s, sp, reply)
	case PurposeWrapUp: // its text is all that counts
	}
	return []Event{{ModelReplied: r}}
}

// needApproval are the calls of a reply that wait for a human, and the digests of their tools.
func needApproval(s *State, sp *Spec, reply *Reply) (ids []string, digests map[string]string) {
	for _, c := range reply.ToolCalls {
		t, ok := sp.tool(c.Name)
		if !ok || s.RefusedTools[c.Name] || !t.RequireApproval || IsBuiltin(c.Name) || truncated(reply) || argumentsFault(c) != "" {
			continue
		}
		ids = append(ids, c.ID)
		if t.Digest == "" {
			continue
		}
		if digests == nil {
			digests = map[string]string{}
		}
		digests[c.Name] = t.Digest
	}
	return ids, digests
}

// failure turns an error into an event, with what is known or estimated of its cost.
func (e *Engine) failure(s *State, sp *Spec, a Action, partial *Reply, err, cause error, streamed int64) *ModelFailed {
	f := &ModelFailed{Purpose: a.Purpose}
	if partial != nil {
		streamed = max(streamed, replyBytes(partial))
		f.Usage = partial.Usage
		normalise(partial)
		f.Text = joinTexts(partial.Texts())
	}
	var me *ModelError
	if !errors.As(err, &me) {
		me = &ModelError{Cause: CauseModelUnavailable, Retry: true, Detail: "The model could not be called."}
	}
	if f.Usage.Reported() || streamed > 0 || me.Sent {
		fillUsage(&f.Usage, a.EstimatedInput, streamed, true)
	}
	if cause != nil { // we broke it off: cancel, a limit or shutdown
		f.Interrupted, f.Retry, f.Message = true, true, "Interrupted: "+cause.Error()+"."
		return f
	}
	f.Cause, f.Message, f.Retry = me.Cause, me.Error(), me.Retry
	if s.canDoWithout(me.RefusedTool) {
		f.RefusedTool, f.Retry = me.RefusedTool, true
		return f
	}
	if me.Retry {
		f.RetryAfter = me.RetryAfter
		f.RetryAt = s.retryAt(sp, f, e.Clock.Now(), e.backoff(s.Failures+1))
	}
	return f
}
