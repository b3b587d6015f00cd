package loop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// How long a failing call is tried again is a matter of what failed, and of what is known of the model.
func TestHowLongAFailingCallIsTriedAgain(t *testing.T) {
	unavailable := loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true, Detail: "Down."}
	unreadable := loop.ModelError{Cause: loop.CauseModelReplyInvalid, Retry: true, Detail: "No reply."}
	named := func(after time.Duration) loop.ModelError {
		return loop.ModelError{Cause: loop.CauseModelRateLimited, Retry: true, RetryAfter: after, Detail: "Busy."}
	}
	nexts := map[loop.Cause]string{
		loop.CauseModelUnavailable:  "Look whether spec.endpoint of the AgentModel is right, and its model server answers, then create the task anew.",
		loop.CauseModelReplyInvalid: "Look whether spec.endpoint of the AgentModel leads to its model server, then create the task anew.",
		loop.CauseModelRateLimited:  "Raise the account's limits, or wait until they allow more calls, then create the task anew.",
	}
	patience := loop.Retry{MaxElapsed: 2 * time.Minute, NamedElapsed: 30 * time.Minute}
	for name, tc := range map[string]struct {
		why      string
		retry    loop.Retry
		fails    loop.ModelError
		attempts int
		after    time.Duration
		message  string
	}{
		"down": {
			"a mistyped endpoint is told soon", patience, unavailable, 3, 2 * time.Minute,
			"Down. It is given up after 3 attempts within 2m0s, which is the AgentModel's spec.retry.maxElapsed.",
		},
		"down, by number": {"who sets a number means it", loop.Retry{MaxAttempts: 2, MaxElapsed: time.Hour}, unavailable, 2, time.Minute, "Down. It is given up after 2 attempts."},
		"once":            {"one attempt is one", loop.Retry{MaxAttempts: 1}, unavailable, 1, 0, "Down. It is given up after 1 attempt."},
		"unreadable": {"each is paid for, and time mends few of them", loop.Retry{MaxElapsed: time.Hour}, unreadable, 5, 4 * time.Minute,
			"No reply. It is given up after 5 attempts."},
		"unreadable, by number": {"who sets a number means it", loop.Retry{MaxAttempts: 7}, unreadable, 7, 6 * time.Minute, "No reply. It is given up after 7 attempts."},
		"a named time": {
			"a server that says when it is back is no mistyped one", patience, named(10 * time.Minute), 4, 30 * time.Minute,
			"Busy. It is given up after 4 attempts within 30m0s, which is the AgentModel's spec.retry.maxElapsed.",
		},
		"a time too far": {
			"waiting would be in vain", patience, named(31 * time.Minute), 1, 0,
			"Busy. It asks to wait for 31m0s, which is longer than the AgentModel's spec.retry.maxElapsed (30m0s) allows.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTask(t, loop.Spec{Retry: tc.retry})
			a.fails = &tc.fails
			attempts := a.run(20)
			if e := a.state.End; e == nil || e.Cause != tc.fails.Cause || e.Message != tc.message+" "+nexts[tc.fails.Cause] {
				t.Fatalf("it ended as %+v, want %q: %s", e, tc.message, tc.why)
			}
			if attempts != tc.attempts {
				t.Errorf("%d attempts, want %d: %s", attempts, tc.attempts, tc.why)
			}
			a.active(tc.after)
		})
	}
}

// run advances for as long as calls are made, waiting for each that is not due, and counts them.
func (a *aTask) run(most int) (calls int) {
	a.t.Helper()
	for range most {
		if a.next.Kind == loop.ActionWait {
			a.clock.Add(a.next.Until.Sub(a.clock.Now()))
		}
		if a.next.Kind == loop.ActionDone {
			break
		}
		if a.advance().Called {
			calls++
		}
	}
	return calls
}

// A judge of its own has a patience of its own.
func TestAJudgeHasAPatienceOfItsOwn(t *testing.T) {
	a := newTask(t, loop.Spec{Strategy: loop.StrategyJudge, OwnJudge: true, Retry: loop.Retry{MaxAttempts: 9}, JudgeRetry: loop.Retry{MaxAttempts: 2}})
	a.advance()
	a.fails = &loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true, Detail: "Down."}
	if n := a.run(20); n != 2 {
		t.Errorf("the judge was called %d times", n)
	}
}

// A call that broke off after it was sent may be billed. One that was refused is not.
func TestAnEndByBrokenOffCallsSaysSo(t *testing.T) {
	prompt := strings.Repeat("abc", 10_000)
	for name, tc := range map[string]struct {
		why    string
		sent   bool
		exit   loop.ExitReason
		tokens int64
		told   string
	}{
		"refused": {"nothing was read, so nothing is billed", false, loop.ExitCompleted, 7000, ""},
		"broken off": {"what may be billed counts", true, loop.ExitTokenBudgetExceeded, 0,
			"are charged for 3 calls without a whole reply, which the model server may bill."},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTask(t, loop.Spec{Prompt: prompt, MaxTokens: 35_000})
			a.fails = &loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true, Sent: tc.sent, Detail: "Gone."}
			a.run(4)
			a.fails, a.reply = nil, says("TASK_COMPLETE: ok")
			a.reply.Usage = loop.Usage{InputTokens: 6900, OutputTokens: 100}
			a.run(4)
			if a.state.ExitReason() != tc.exit || !strings.Contains(a.state.End.Message, tc.told) {
				t.Fatalf("%s: it ended as %+v", tc.why, a.state.End)
			}
			if a.state.Usage.Estimated != tc.sent || tc.tokens > 0 && a.state.Usage.Total() != tc.tokens {
				t.Errorf("%s: %+v is charged", tc.why, a.state.Usage)
			}
		})
	}
}
