package limit_test

import (
	"context"
	"errors"
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

// call makes a call and returns how it is told to wait, nil for none.
func call(t *testing.T, m loop.Model) *loop.WaitError {
	t.Helper()
	_, err := m.Generate(t.Context(), &loop.Request{MaxOutputTokens: 100}, func(int) {})
	var wait *loop.WaitError
	if errors.As(err, &wait) {
		if wait.Reason != "WaitingForModel" || wait.Detail == "" || wait.After <= 0 {
			t.Errorf("incomplete: %+v", wait)
		}
		return wait
	}
	return nil
}

func TestCallsAtOnceAreBounded(t *testing.T) {
	l := limit.New(limit.Limits{MaxConcurrent: 2}, newClock().Now)
	woken := 0
	l.OnRelease = func() { woken++ }
	var inner loop.Model
	depth := 0
	m := l.Wrap(loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
		depth++
		full := depth == 2
		if refused := call(t, inner) != nil; refused != full {
			t.Errorf("a call beside %d others: refused %v", depth, refused)
		}
		return &loop.Reply{}, nil
	}))
	inner = m
	if wait := call(t, m); wait != nil {
		t.Fatal(wait)
	}
	if depth != 2 || woken != 2 {
		t.Errorf("%d calls ran, %d wake-ups", depth, woken)
	}
	depth = 0
	if wait := call(t, m); wait != nil {
		t.Errorf("the slots were not given back: %v", wait)
	}
}

func TestAPanicGivesTheSlotBack(t *testing.T) {
	l := limit.New(limit.Limits{MaxConcurrent: 1}, newClock().Now)
	func() {
		defer func() { _ = recover() }()
		call(t, l.Wrap(loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) { panic("x") })))
	}()
	if wait := call(t, l.Wrap(answers(loop.Usage{}))); wait != nil {
		t.Error(wait)
	}
}

func TestRequestsAMinuteAreBoundedAndSpread(t *testing.T) {
	c := newClock()
	m := limit.New(limit.Limits{RequestsPerMinute: 60}, c.Now).Wrap(answers(loop.Usage{}))
	first := 0
	for call(t, m) == nil {
		first++
	}
	if first != 10 {
		t.Errorf("%d at once, want a sixth of a minute's", first)
	}
	wait := call(t, m)
	if wait == nil || wait.After != time.Second || !strings.Contains(wait.Detail, "requestsPerMinute") {
		t.Fatalf("got %+v", wait)
	}
	made := 0
	for range 60 {
		c.advance(time.Second)
		if call(t, m) == nil {
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
		m := limit.New(limit.Limits{RequestsPerMinute: perMinute}, c.Now).Wrap(answers(loop.Usage{}))
		for call(t, m) == nil {
		}
		c.advance(call(t, m).After)
		if wait := call(t, m); wait != nil {
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
		"absurd":                  {answers(loop.Usage{TotalTokens: 1 << 60}), time.Hour - 10*time.Second + 1020*time.Millisecond},
		"more than fits a minute": {answers(loop.Usage{TotalTokens: 13_000}), 2*time.Minute + 10*time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			l := limit.New(limit.Limits{TokensPerMinute: 6000}, clock.Now)
			call(t, l.Wrap(c.model))
			wait := call(t, l.Wrap(answers(loop.Usage{})))
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
	m := l.Wrap(answers(loop.Usage{TotalTokens: 1}))
	// Each is guessed at a hundred tokens and takes one: 999 fit where 10 would by the guess.
	for i := range 900 {
		if wait := call(t, m); wait != nil {
			t.Fatalf("call %d: %v", i, wait.Detail)
		}
	}
}

func TestALargeCallDoesNotStarve(t *testing.T) {
	l := limit.New(limit.Limits{TokensPerMinute: 600}, newClock().Now)
	_, err := l.Wrap(answers(loop.Usage{TotalTokens: 5000})).Generate(t.Context(), &loop.Request{System: strings.Repeat("x", 20_000)}, func(int) {})
	if err != nil {
		t.Errorf("a call above the limit must go once there is room at all: %v", err)
	}
}

func TestAProvidersRetryAfterHoldsEveryTask(t *testing.T) {
	c := newClock()
	l := limit.New(limit.Limits{}, c.Now)
	call(t, l.Wrap(fails(&loop.ModelError{Cause: loop.CauseModelRateLimited, Retry: true, RetryAfter: 7 * time.Second})))
	m := l.Wrap(answers(loop.Usage{}))
	if wait := call(t, m); wait == nil || wait.After != 7*time.Second {
		t.Fatalf("got %+v", wait)
	}
	c.advance(7 * time.Second)
	if wait := call(t, m); wait != nil {
		t.Errorf("still waits: %v", wait)
	}
	call(t, l.Wrap(fails(&loop.ModelError{Cause: loop.CauseModelRateLimited, Retry: true, RetryAfter: 24 * time.Hour})))
	if wait := call(t, m); wait == nil || wait.After != time.Minute {
		t.Errorf("one answer must not hold a model for a day: %+v", wait)
	}
}

func TestChangedLimitsHoldAtOnce(t *testing.T) {
	c := newClock()
	l := limit.New(limit.Limits{}, c.Now)
	l.SetLimits(limit.Limits{RequestsPerMinute: 6})
	m := l.Wrap(answers(loop.Usage{}))
	made := 0
	for range 10 {
		if call(t, m) == nil {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d calls, want 1", made)
	}
	l.SetLimits(limit.Limits{})
	if wait := call(t, m); wait != nil {
		t.Errorf("limits that were lifted still hold: %v", wait)
	}
}

func TestAWaitMakesNoCall(t *testing.T) {
	l := limit.New(limit.Limits{RequestsPerMinute: 1}, newClock().Now)
	made := 0
	m := l.Wrap(loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
		made++
		return &loop.Reply{}, nil
	}))
	for range 5 {
		call(t, m)
	}
	if made != 1 {
		t.Errorf("%d calls were made", made)
	}
}
