package loop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// What a task waits for our own slots, limits and budgets is no running time: before its turns, between them, however often,
// and while it is looked at meanwhile.
func TestWaitingForASlotIsNoRunningTime(t *testing.T) {
	a := newTask(t, loop.Spec{MaxDuration: 10 * time.Minute, MaxIterations: 100})
	a.takes = time.Minute
	for n := range 5 {
		a.wait(time.Hour)
		a.settle() // a worker looks whether there is anything to do
		a.wait(time.Hour)
		a.active(time.Duration(n) * time.Minute)
		step := a.advance()
		if step.Events[0].Waited != 2*time.Hour {
			t.Errorf("the journal says that it waited %s", step.Events[0].Waited)
		}
		for _, e := range step.Events[1:] {
			if e.Waited != 0 {
				t.Errorf("%s says that it waited %s once more", e.Kind, e.Waited)
			}
		}
	}
	a.active(5 * time.Minute)
	a.takes = 5 * time.Minute
	a.wait(time.Hour)
	a.advance()
	if a.state.ExitReason() != loop.ExitTimeBudgetExceeded || !strings.Contains(a.state.End.Message, "after 6 turns") {
		t.Errorf("it is %q: %+v", a.state.ExitReason(), a.state.End)
	}
	a.active(10 * time.Minute)
}

// A wait that somebody claims beyond the time that has passed takes nothing of what ran before.
func TestAWaitIsNeverLongerThanTheTimeSinceTheLastEvent(t *testing.T) {
	a := newTask(t, loop.Spec{})
	a.takes = time.Minute
	a.advance()
	a.spec.Waited = 100 * time.Hour
	a.clock.Add(time.Second)
	a.active(time.Minute)
	a.spec.Cancel = true
	a.settle()
	a.active(time.Minute)
}

// A task that waits has the whole of its time left when its turn comes, and a call then has no more than that.
func TestTheDeadlineOfACallKnowsWhatWasWaited(t *testing.T) {
	a := newTask(t, loop.Spec{MaxDuration: 10 * time.Minute})
	a.takes = 4 * time.Minute
	a.advance()
	a.wait(time.Hour)
	a.takes = 6*time.Minute - 1
	a.reply = says("TASK_COMPLETE: done")
	a.advance()
	if a.state.ExitReason() != loop.ExitCompleted {
		t.Errorf("it is %q: %+v", a.state.ExitReason(), a.state.End)
	}
	a.active(10*time.Minute - 1)
}

// A wait while the clock stands still anyway is not taken off twice.
func TestAWaitWhileAHumanIsAskedTakesNothingOff(t *testing.T) {
	a := newTask(t, loop.Spec{})
	a.takes, a.reply = time.Minute, says("NEED_INPUT: which?")
	a.advance()
	a.wait(time.Hour)
	a.spec.ResumeInput, a.spec.ResumeInputID = "that", a.state.Question.ID
	a.settle()
	a.active(time.Minute)
	a.clock.Add(time.Second)
	a.active(time.Minute + time.Second)
}

// An outage, a provider's 429 and the wait that it asks for do count.
func TestAnOutageIsRunningTime(t *testing.T) {
	a := newTask(t, loop.Spec{MaxDuration: 10 * time.Minute})
	a.fails = &loop.ModelError{Cause: loop.CauseModelRateLimited, Retry: true, RetryAfter: 30 * time.Minute, Detail: "Busy."}
	a.advance()
	a.clock.Add(a.next.Until.Sub(a.clock.Now()))
	a.settle()
	if a.state.ExitReason() != loop.ExitTimeBudgetExceeded || !strings.Contains(a.state.End.Message, "after 0 turns, while a model call failed again and again. Busy.") {
		t.Errorf("it is %q: %+v", a.state.ExitReason(), a.state.End)
	}
	a.active(10 * time.Minute)
}

// The time in which no operator holds a task is no running time. Of a gap in which a call may have run, as much counts as
// such a call can take, so that crashes hide no running time; and so does the backoff that was due in any case.
func TestWhatOfAGapIsRunningTime(t *testing.T) {
	const away = 5 * time.Hour
	released := func(a *aTask) { a.release() }
	failed := func(a *aTask) {
		a.fails = &loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true, RetryAfter: time.Hour}
		a.advance()
	}
	asks := func(tool string, n int) func(*aTask) {
		return func(a *aTask) {
			a.reply = &loop.Reply{Finish: loop.FinishToolCalls}
			for range n {
				a.reply.ToolCalls = append(a.reply.ToolCalls, loop.ToolCall{ID: "c", Name: tool})
			}
			a.advance()
		}
	}
	for name, tc := range map[string]struct {
		why    string
		spec   loop.Spec
		before []func(*aTask)
		gap    time.Duration
		counts time.Duration
	}{
		"a model call was lost":    {why: "it may have run for its timeout", spec: loop.Spec{RequestTimeout: 20 * time.Minute}, counts: 20 * time.Minute},
		"with the default timeout": {why: "ten minutes", counts: 10 * time.Minute},
		"shortly":                  {why: "it may have run all the time", gap: 30 * time.Second, counts: 30 * time.Second},
		"it was let go":            {why: "nothing ran", before: []func(*aTask){released}, counts: 0},
		"tool calls were lost":     {why: "each may have run for its timeout", spec: loop.Spec{CallTimeout: 3 * time.Minute}, before: []func(*aTask){asks("look", 8)}, counts: 3 * time.Minute},
		"with the default, too":    {why: "a minute", before: []func(*aTask){asks("look", 1)}, counts: time.Minute},
		"more than run at once":    {why: "some wait for the others", before: []func(*aTask){asks("look", 9)}, counts: 2 * time.Minute},
		"calls that need approval": {why: "they have not begun, and a human is asked", before: []func(*aTask){asks("deploy", 2)}, counts: 0},
		"in a backoff":             {why: "it was due in any case", before: []func(*aTask){failed}, gap: 30 * time.Minute, counts: 30 * time.Minute},
		"after a backoff":          {why: "then the next call may have run", before: []func(*aTask){failed}, counts: time.Hour + 10*time.Minute},
		"let go in a backoff":      {why: "it was due in any case, and then nothing ran", before: []func(*aTask){failed, released}, counts: time.Hour},
		"suspended": {why: "the clock stands still", before: []func(*aTask){func(a *aTask) {
			a.spec.Suspend = true
			a.settle()
			a.spec.Suspend = false
		}}, counts: 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTask(t, tc.spec)
			a.spec.Tools = []loop.ToolDefinition{{Name: "look"}, {Name: "deploy", RequireApproval: true}}
			a.takes = 2 * time.Minute
			a.advance()
			a.takes = 0
			for _, do := range tc.before {
				do(a)
			}
			gap := tc.gap
			if gap == 0 {
				gap = away
			}
			a.clock.Add(gap)
			a.open(loop.Opened{Holder: "two"})
			a.active(2*time.Minute + tc.counts)
			if t.Failed() {
				t.Log(tc.why)
			}
		})
	}
}

// The next holder may itself wait for a slot before it opens the task. That is no running time either.
func TestAWaitBeforeATakeoverIsTakenOffOnce(t *testing.T) {
	for name, tc := range map[string]struct{ timeout, counts time.Duration }{
		"the lost call can have run all the time":        {20 * time.Minute, 2 * time.Minute},
		"it can have run for less than the task waits":   {5 * time.Minute, 2 * time.Minute},
		"it can have run for less than nobody was there": {time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTask(t, loop.Spec{RequestTimeout: tc.timeout})
			a.advance()
			a.clock.Add(2 * time.Minute)
			a.wait(10 * time.Minute)
			a.open(loop.Opened{Holder: "two"})
			a.active(tc.counts)
			a.takes = time.Minute
			a.advance()
			a.active(tc.counts + time.Minute)
		})
	}
}

// While a human is asked, or the task is suspended, a gap between two events does not mean that nobody was there.
func TestNobodyIsSaidToHaveBeenAwayWhileAHumanIsAsked(t *testing.T) {
	a := newTask(t, loop.Spec{})
	a.reply = says("NEED_INPUT: which?")
	a.advance()
	a.clock.Add(time.Hour)
	if o := a.open(loop.Opened{Holder: "two"}); o.Away != 0 {
		t.Errorf("away for %s", o.Away)
	}
}

// An operator that was down for a night ends no task at its start.
func TestATaskGoesOnAfterANightWithoutOperator(t *testing.T) {
	a := newTask(t, loop.Spec{MaxDuration: 30 * time.Minute})
	a.takes = time.Minute
	a.advance()
	for range 2 { // it may even crash in a call
		a.clock.Add(12 * time.Hour)
		a.open(loop.Opened{Holder: "next"})
	}
	a.reply = says("TASK_COMPLETE: done")
	a.advance()
	if a.state.ExitReason() != loop.ExitCompleted {
		t.Errorf("it is %q: %+v", a.state.ExitReason(), a.state.End)
	}
	a.active(22 * time.Minute) // two turns, and two calls that were lost
}

// A message promises only what there is, and says what the task waited for.
func TestTheEndByTimeSaysWhatThereIs(t *testing.T) {
	for name, tc := range map[string]struct {
		turns   int
		waits   string
		want    string
		promise bool
	}{
		"no turn":               {0, "", "maxDuration (1h0m0s) is used up after 0 turns. Create the task anew with a larger limit to go further.", false},
		"no turn, and it waits": {0, `model "x" to be created`, `is used up after 0 turns, while the task waited for model "x" to be created. Create`, false},
		"one turn":              {1, "", "is used up after 1 turn.", true},
		"two turns, and waits":  {2, `toolset "y"`, `is used up after 2 turns, while the task waited for toolset "y".`, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTask(t, loop.Spec{MaxDuration: time.Hour})
			for range tc.turns {
				a.advance()
			}
			a.spec.WaitingFor = tc.waits
			a.clock.Add(time.Hour)
			a.settle()
			if m := a.state.End.Message; !strings.Contains(m, tc.want) || strings.Contains(m, "status.output") != tc.promise {
				t.Errorf("it says %q", m)
			}
		})
	}
}
