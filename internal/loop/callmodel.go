package loop

import (
	"context"
	"errors"
	"time"
)

// callModel makes one model call within the task's time and tokens.
func (e *Engine) callModel(ctx context.Context, s *State, sp *Spec, a Action) ([]Event, error) {
	req := buildRequest(s, sp, a.Purpose)
	req.MaxOutputTokens = a.OutputCap
	req.Sequence = s.callsBefore(a.Purpose, e.Judge != nil)
	now := e.Clock.Now()
	limited, stop := withTimeLimit(ctx, s, sp, now)
	defer stop()
	limited, cut := context.WithCancelCause(limited)
	defer cut(nil)

	var streamed int64
	left := sp.MaxTokens - s.Usage.Total() - a.EstimatedInput
	reply, err := e.model(a.Purpose).Generate(limited, req, func(n int) {
		streamed += int64(n)
		if sp.MaxTokens > 0 && outputTokens(streamed) > left {
			cut(errTokenBudget)
		}
	})
	cause := context.Cause(limited)
	switch {
	case err == nil && reply == nil:
		err = &ModelError{Cause: CauseModelReplyInvalid, Retry: true, Detail: "The model client gave no reply."}
	case errors.Is(cause, ErrLostLease):
		return nil, ErrLostLease
	case err != nil && errors.Is(cause, errTokenBudget):
		if reply == nil {
			reply = &Reply{}
		}
		reply.Finish, err = FinishCut, nil
	}
	if err == nil {
		fillUsage(&reply.Usage, a.EstimatedInput, max(streamed, replyBytes(reply)), reply.Finish == FinishCut)
		return e.replied(s, sp, a, req, reply, now)
	}
	if wait := (*WaitError)(nil); errors.As(err, &wait) {
		return nil, wait
	}
	return []Event{{ModelFailed: e.failure(s, a, reply, err, cause, streamed)}}, nil
}

func (e *Engine) model(p Purpose) Model {
	if p == PurposeJudge && e.Judge != nil {
		return e.Judge
	}
	return e.Model
}

// replied turns a reply into events.
func (e *Engine) replied(s *State, sp *Spec, a Action, req *Request, reply *Reply, now time.Time) ([]Event, error) {
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
			}}}, nil
		}
		return []Event{{ModelReplied: r}, ev}, nil
	case PurposeTurn:
		r.RequestBytes = sizeOf(req)
		r.Output, r.StopWhen = checkOutput(sp, reply), checkStop(s, sp, reply)
		for _, c := range reply.ToolCalls {
			if t, ok := sp.tool(c.Name); ok && t.RequireApproval && !IsBuiltin(c.Name) && !truncated(reply) && argumentsFault(c) == "" {
				r.NeedApproval = append(r.NeedApproval, c.ID)
			}
		}
	}
	return []Event{{ModelReplied: r}}, nil
}

// failure turns an error into an event, with what is known or estimated of its cost.
func (e *Engine) failure(s *State, a Action, partial *Reply, err, cause error, streamed int64) *ModelFailed {
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
	if cause != nil { // we broke it off: cancel, the time limit, a changed spec or shutdown
		f.Interrupted, f.Retry, f.Message = true, true, "Interrupted: "+cause.Error()+"."
		return f
	}
	f.Cause, f.Message, f.Retry = me.Cause, me.Error(), me.Retry
	if me.Retry {
		f.RetryAt = e.Clock.Now().Add(max(me.RetryAfter, e.backoff(s.Failures+1))).UTC()
	}
	return f
}
