package loop

import (
	"cmp"
	"fmt"
	"time"
)

// Retry bounds how long a failing model call is tried again. Zero fields do not bound. Whatever it says, the task's own limits hold.
type Retry struct {
	// MaxAttempts of one call, the first included.
	MaxAttempts int
	// MaxElapsed is the running time from the first failure on.
	MaxElapsed time.Duration
	// NamedElapsed is MaxElapsed where the server has named the time at which it will answer again.
	NamedElapsed time.Duration
}

// unreadableAttempts bounds the attempts at a call whose replies cannot be read: each is paid for, and time mends few of them.
const unreadableAttempts = 5

func (sp *Spec) retry(p Purpose) Retry {
	if p == PurposeJudge && sp.OwnJudge {
		return sp.JudgeRetry
	}
	return sp.Retry
}

// retryFailed is what a failed call is followed by: nothing (false) once the next attempt is due.
func retryFailed(s *State, sp *Spec, now time.Time) (Action, bool) {
	f, end := s.LastFailure, s.timeLimit(sp, now)
	if !f.Retry {
		return giveUp(f, ""), true
	}
	r := sp.retry(f.Purpose)
	most := r.MaxAttempts
	if f.Cause == CauseModelReplyInvalid {
		most = cmp.Or(most, unreadableAttempts)
	}
	if most > 0 && s.Failures >= most {
		return giveUp(f, "It is given up after %s.", count(s.Failures, "attempt")), true
	}
	if elapsed := r.elapsed(f.RetryAfter); elapsed > 0 {
		switch left := elapsed - s.failing.elapsed; {
		case left <= 0:
			return giveUp(f, "It is given up after %s within %s, which is the AgentModel's spec.retry.maxElapsed.", count(s.Failures, "attempt"), elapsed), true
		case f.RetryAfter > left && (end.IsZero() || s.failing.at.Add(left).Before(end)): // else the task's own time ends it
			return giveUp(f, "It asks to wait for %s, which is longer than the AgentModel's spec.retry.maxElapsed (%s) allows.", f.RetryAfter.Round(time.Second), elapsed), true
		}
	}
	if now.Before(s.RetryAt) {
		return waitUntil(earlier(s.RetryAt, end)), true
	}
	return Action{}, false
}

// nextSteps are what to do about a failed call, by its cause. Then the task is created anew.
var nextSteps = map[Cause]string{
	CauseModelAuthenticationFailed: "Correct the AgentModel's credentials",
	CauseModelNotFound:             "Correct spec.model or spec.endpoint of the AgentModel",
	CauseModelRequestInvalid:       "Correct the AgentModel",
	CauseModelRefused:              "Change the prompt or the model",
	CauseContentFiltered:           "Change the prompt, or the tool results that led to it",
	CauseContextWindowExceeded:     "Use a model with a larger window, or shorter tool results",
	CauseEndpointRefused:           "Correct spec.endpoint of the AgentModel",
	CauseModelReplyInvalid:         "Look whether spec.endpoint of the AgentModel leads to its model server",
	CauseModelRateLimited:          "Raise the account's limits, or wait until they allow more calls",
	CauseModelUnavailable:          "Look whether spec.endpoint of the AgentModel is right, and its model server answers",
}

// giveUp ends the task for a failed call. Why is what to say of the attempts at it.
func giveUp(f *ModelFailed, why string, args ...any) Action {
	text := f.Message
	if why != "" {
		text += " " + fmt.Sprintf(why, args...)
	}
	if next := nextSteps[f.Cause]; next != "" {
		text += " " + next + ", then create the task anew."
	}
	return finish(ExitError, f.Cause, text)
}

// elapsed bounds the time for which a call is tried again whose server asked to wait for so long, 0 for no bound.
func (r Retry) elapsed(retryAfter time.Duration) time.Duration {
	if retryAfter > 0 {
		return r.NamedElapsed
	}
	return r.MaxElapsed
}

// retryAt is when a call that has just failed is made again: after the server's wish and the backoff, but for the last time when its
// time is up, not before.
func (s *State) retryAt(sp *Spec, f *ModelFailed, now time.Time, backoff time.Duration) time.Time {
	wait := max(f.RetryAfter, backoff)
	if elapsed := sp.retry(f.Purpose).elapsed(f.RetryAfter); elapsed > 0 && s.Failures > 0 {
		if left := elapsed - (sp.Active(s, now) - s.failing.from); left > f.RetryAfter {
			wait = min(wait, left)
		}
	}
	return now.Add(wait).UTC()
}

// failing is since when the current model call fails.
type failing struct {
	from    time.Duration // the running time at its first failure
	elapsed time.Duration // and from there to its last
	at      time.Time     // of its last
}

// failed is what was charged for calls that gave no whole reply.
type failed struct {
	calls  int
	tokens int64
}

func (s *State) chargeFailed(u Usage) {
	if n := u.Total(); n > 0 {
		s.failed.calls++
		s.failed.tokens += n
	}
}

// used tells that failed calls used the token budget up, where without them it would not be.
func (f failed) used(s *State, sp *Spec) string {
	if f.tokens == 0 || s.Usage.Total()-f.tokens >= sp.MaxTokens {
		return ""
	}
	return fmt.Sprintf(" %d tokens of it are charged for %s without a whole reply, which the model server may bill.", f.tokens, count(f.calls, "call"))
}

// count writes a number with its noun, in plural where it is not one.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
