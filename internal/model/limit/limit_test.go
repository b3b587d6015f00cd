package limit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/limit"
)

type clock struct{ now time.Time }

func (c *clock) Now() time.Time          { return c.now }
func (c *clock) advance(d time.Duration) { c.now = c.now.Add(d) }
func newClock() *clock                   { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

// answers is a model that replies with some usage.
func answers(u loop.Usage) loop.Model {
	return loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
		return &loop.Reply{Usage: u}, nil
	})
}

func fails(err error) loop.Model {
	return loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) { return nil, err })
}

// call takes a ticket of a hundred tokens and makes its call, or returns how it is told to wait.
func call(t *testing.T, l *limit.Limiter, m loop.Model) *limit.Wait {
	t.Helper()
	ticket, wait := l.Take("task", 100)
	if (ticket == nil) == (wait == nil) {
		t.Fatalf("%+v and %+v", ticket, wait)
	}
	if wait != nil {
		if wait.Detail == "" || wait.After <= 0 {
			t.Errorf("incomplete: %+v", wait)
		}
		return wait
	}
	_, _ = ticket.Wrap(m).Generate(t.Context(), &loop.Request{}, func(int) {})
	return nil
}

func TestRequestsAMinuteAreBoundedAndSpread(t *testing.T) {
	c := newClock()
	l, m := limit.New(limit.Limits{RequestsPerMinute: 60}, c.Now), answers(loop.Usage{})
	first := 0
	for call(t, l, m) == nil {
		first++
	}
	if first != 10 {
		t.Errorf("%d at once, want a sixth of a minute's", first)
	}
	wait := call(t, l, m)
	if wait == nil || wait.After != time.Second || !strings.Contains(wait.Detail, "requestsPerMinute") {
		t.Fatalf("got %+v", wait)
	}
	made := 0
	for range 60 {
		c.advance(time.Second)
		if call(t, l, m) == nil {
			made++
		}
	}
	if made != 60 {
		t.Errorf("%d in a minute, want 60", made)
	}
}

func TestTheNamedWaitIsLongEnough(t *testing.T) {
	for _, perMinute := range []int64{1, 7, 59, 100_000} {
		c := newClock()
		l, m := limit.New(limit.Limits{RequestsPerMinute: perMinute}, c.Now), answers(loop.Usage{})
		for call(t, l, m) == nil {
		}
		c.advance(call(t, l, m).After)
		if wait := call(t, l, m); wait != nil {
			t.Errorf("%d a minute: told to wait again, %v", perMinute, wait.After)
		}
	}
}

func TestTokensAMinuteFollowTheRealUsage(t *testing.T) {
	cases := map[string]struct {
		model loop.Model
		// wait is how long the call after it waits at 6000 tokens a minute, of which 1000 go at once.
		wait time.Duration
	}{
		"more than guessed":       {answers(loop.Usage{InputTokens: 2000, OutputTokens: 1000}), 20*time.Second + 10*time.Millisecond},
		"less than guessed":       {answers(loop.Usage{InputTokens: 1, OutputTokens: 1}), 0},
		"the total wins":          {answers(loop.Usage{InputTokens: 1, OutputTokens: 1, TotalTokens: 1100}), time.Second + 10*time.Millisecond},
		"nothing came back":       {fails(&loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true}), 0},
		"no usage, many bytes":    {streams(8000), 10*time.Second + 20*time.Millisecond},
		"absurd":                  {answers(loop.Usage{TotalTokens: 1 << 60}), time.Hour - 10*time.Second + 1010*time.Millisecond},
		"more than fits a minute": {answers(loop.Usage{TotalTokens: 13_000}), 2*time.Minute + 10*time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			l := limit.New(limit.Limits{TokensPerMinute: 6000}, clock.Now)
			call(t, l, c.model)
			wait := call(t, l, answers(loop.Usage{}))
			switch {
			case c.wait == 0 && wait != nil:
				t.Errorf("waits %v", wait.After)
			case c.wait > 0 && wait == nil:
				t.Error("does not wait")
			case c.wait > 0 && (wait.After-c.wait).Abs() > time.Millisecond:
				t.Errorf("waits %v, want %v", wait.After, c.wait)
			}
		})
	}
}

// streams is a model without usage that sends n bytes.
func streams(n int) loop.Model {
	return loop.ModelFunc(func(_ context.Context, _ *loop.Request, onBytes func(int)) (*loop.Reply, error) {
		onBytes(n)
		return &loop.Reply{}, nil
	})
}

func TestTokensThatWereNotUsedAreThereAgain(t *testing.T) {
	l := limit.New(limit.Limits{TokensPerMinute: 6000}, newClock().Now)
	m := answers(loop.Usage{TotalTokens: 1})
	// Each is guessed at a hundred tokens and takes one: 999 fit where 10 would by the guess.
	for i := range 900 {
		if wait := call(t, l, m); wait != nil {
			t.Fatalf("call %d: %v", i, wait.Detail)
		}
	}
}

func TestALargeCallDoesNotStarve(t *testing.T) {
	l := limit.New(limit.Limits{TokensPerMinute: 600}, newClock().Now)
	if _, wait := l.Take("large", 5000); wait != nil {
		t.Errorf("a call above the limit must go once there is room at all: %+v", wait)
	}
}

func TestAProvidersRetryAfterHoldsEveryTask(t *testing.T) {
	c := newClock()
	l := limit.New(limit.Limits{}, c.Now)
	call(t, l, fails(&loop.ModelError{Cause: loop.CauseModelRateLimited, Retry: true, RetryAfter: 7 * time.Second}))
	m := answers(loop.Usage{})
	if wait := call(t, l, m); wait == nil || wait.After != 7*time.Second {
		t.Fatalf("got %+v", wait)
	}
	c.advance(7 * time.Second)
	if wait := call(t, l, m); wait != nil {
		t.Errorf("still waits: %v", wait)
	}
	call(t, l, fails(&loop.ModelError{Cause: loop.CauseModelRateLimited, Retry: true, RetryAfter: 24 * time.Hour}))
	if wait := call(t, l, m); wait == nil || wait.After != time.Minute {
		t.Errorf("one answer must not hold a model for a day: %+v", wait)
	}
}

func TestChangedLimitsHoldAtOnce(t *testing.T) {
	c := newClock()
	l := limit.New(limit.Limits{}, c.Now)
	l.SetLimits(limit.Limits{RequestsPerMinute: 6})
	m := answers(loop.Usage{})
	made := 0
	for range 10 {
		if call(t, l, m) == nil {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d calls, want 1", made)
	}
	l.SetLimits(limit.Limits{})
	if wait := call(t, l, m); wait != nil {
		t.Errorf("limits that were lifted still hold: %v", wait)
	}
}
