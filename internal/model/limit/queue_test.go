package limit_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/limit"
)

func TestACrowdIsServedInOrderAndNobodyWakesInVain(t *testing.T) {
	for name, limits := range map[string]limit.Limits{
		"requests": {RequestsPerMinute: 60},
		"tokens":   {TokensPerMinute: 60_000},
		"both":     {RequestsPerMinute: 60, TokensPerMinute: 40_000},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(limits)
			began := c.clock.now
			c.come(500, 1000)
			if c.l.Waiting() != len(c.wake) {
				t.Errorf("%d wait, want %d", c.l.Waiting(), len(c.wake))
			}
			c.serve(1000)
			if !slices.IsSorted(c.served) || len(c.served) != 500 {
				t.Errorf("served in the order %v", c.served)
			}
			for key, n := range c.asks {
				if n > 2 {
					t.Errorf("%s asked %d times", key, n)
				}
			}
			rate := 60.0
			if limits.TokensPerMinute == 40_000 {
				rate = 40
			}
			if took, least := c.clock.now.Sub(began).Minutes(), 490/rate; took < least-0.2 || took > least+0.2 {
				t.Errorf("all were served in %.2f minutes, want about %.2f", took, least)
			}
			if c.l.Waiting() != 0 {
				t.Errorf("%d still wait", c.l.Waiting())
			}
		})
	}
}

func TestAPlaceIsKeptHoweverEarlySomebodyAsksAgain(t *testing.T) {
	c := newCrowd(limit.Limits{RequestsPerMinute: 6})
	c.come(4, 1) // the first goes at once
	for range 5 {
		for i := 3; i > 0; i-- {
			c.ask(name(i), 1)
		}
	}
	for i := 1; i < 4; i++ {
		if got := c.wake[name(i)].Sub(c.clock.now); got != time.Duration(i)*10*time.Second {
			t.Errorf("%s is told to come in %v", name(i), got)
		}
	}
}

func TestALatecomerDoesNotOvertake(t *testing.T) {
	c := newCrowd(limit.Limits{RequestsPerMinute: 60})
	c.come(11, 1)
	c.clock.advance(time.Second) // the eleventh's turn, who comes a moment later
	if c.ask("new", 1) != nil {
		t.Error("somebody new was served first")
	}
	if c.clock.advance(time.Second); c.ask(name(10), 1) == nil {
		t.Error("the turn was lost within the grace of two seconds")
	}
}

func TestSomebodyLateHoldsNobodyUpAndKeepsItsPlace(t *testing.T) {
	c := newCrowd(limit.Limits{RequestsPerMinute: 6})
	c.come(4, 1)
	c.clock.advance(13 * time.Second) // the second should have come three seconds ago
	if c.ask(name(2), 1) == nil {
		t.Error("the third waits for the second, who is late")
	}
	c.clock.advance(10 * time.Second)
	if c.ask(name(1), 1) == nil {
		t.Error("the late one lost its place to the fourth")
	}
}

func TestAPlaceIsForgottenTenMinutesAfterItsTurn(t *testing.T) {
	c := newCrowd(limit.Limits{RequestsPerMinute: 6})
	c.come(2, 1)
	for _, step := range []struct {
		after time.Duration
		waits int
	}{{10 * time.Second, 1}, {10 * time.Minute, 1}, {time.Nanosecond, 0}} {
		if c.clock.advance(step.after); c.l.Waiting() != step.waits {
			t.Errorf("%v on, %d wait, want %d", step.after, c.l.Waiting(), step.waits)
		}
	}
}

func TestWhoLeavesHoldsNothing(t *testing.T) {
	c := newCrowd(limit.Limits{RequestsPerMinute: 6})
	c.come(101, 1)
	for i := 1; i < 100; i++ {
		c.l.Leave(name(i))
		delete(c.wake, name(i))
	}
	c.l.Leave("nobody")
	if got := c.wake[name(100)].Sub(c.clock.now); c.l.Waiting() != 1 || got > 10*time.Second {
		t.Errorf("%d wait, the last for %v", c.l.Waiting(), got)
	}
	c.clock.advance(10 * time.Second)
	if c.ask(name(100), 1) == nil {
		t.Error("it waits for those that left")
	}
}

// What was set aside and not used is there for the next at once, though each was told a later time.
func TestNoTurnIsLostWhenOthersUseLessThanTheySaid(t *testing.T) {
	c := newCrowd(limit.Limits{TokensPerMinute: 60_000})
	began := c.clock.now
	m := answers(loop.Usage{TotalTokens: 1000})
	use := func(key string) {
		if ticket := c.ask(key, 10_000); ticket != nil {
			_, _ = ticket.Wrap(m).Generate(t.Context(), &loop.Request{}, func(int) {})
		}
	}
	for i := range 200 {
		use(name(i))
	}
	for {
		key, ok := c.next()
		if !ok {
			break
		}
		use(key)
	}
	// 190 calls of 1,000 tokens at 60,000 a minute, after a burst of 10.
	if took := c.clock.now.Sub(began).Minutes(); took < 3 || took > 3.4 {
		t.Errorf("it took %.2f minutes", took)
	}
	if !slices.IsSorted(c.served) || len(c.served) != 200 {
		t.Errorf("served in the order %v", c.served)
	}
}

func TestOnlyWhoIsNextIsToldThatItsTurnMoved(t *testing.T) {
	c := newCrowd(limit.Limits{RequestsPerMinute: 6})
	c.come(100, 1)
	var told []string
	c.l.OnTurn = func(key string) { told = append(told, key) }
	for _, step := range []struct {
		leaves int
		told   []string
	}{{50, nil}, {1, []string{name(2)}}, {3, nil}, {2, []string{name(4)}}} {
		told = nil
		if c.l.Leave(name(step.leaves)); !slices.Equal(told, step.told) {
			t.Errorf("%s left: %v were told, want %v", name(step.leaves), told, step.told)
		}
	}
}

func TestWhoIsNextAfterSomebodyLateIsTold(t *testing.T) {
	c := newCrowd(limit.Limits{RequestsPerMinute: 6})
	c.come(4, 1)
	c.clock.advance(13 * time.Second)
	if c.ask(name(2), 1) == nil {
		t.Fatal("the third waits for the second, who is late")
	}
	if at := c.wake[name(3)]; !at.Equal(c.clock.now) {
		t.Errorf("the fourth, whose turn is in ten seconds, sleeps for %v", at.Sub(c.clock.now))
	}
}

func TestNewLimitsMoveTheTurns(t *testing.T) {
	c := newCrowd(limit.Limits{RequestsPerMinute: 6})
	c.come(100, 1)
	c.l.SetLimits(limit.Limits{RequestsPerMinute: 600})
	began := c.clock.now
	c.serve(1)
	if took := c.clock.now.Sub(began); took > 11*time.Second || !slices.IsSorted(c.served) {
		t.Errorf("it took %v, in the order %v", took, c.served)
	}
}

func TestAfterAPauseTheRatesHold(t *testing.T) {
	c := newCrowd(limit.Limits{RequestsPerMinute: 60})
	call(t, c.l, fails(&loop.ModelError{Cause: loop.CauseModelRateLimited, Retry: true, RetryAfter: 30 * time.Second}))
	began := c.clock.now
	c.come(30, 1)
	c.serve(1)
	for key, n := range c.asks {
		if n != 2 {
			t.Errorf("%s asked %d times", key, n)
		}
	}
	// Ten at once after the pause, the others one a second.
	if took := c.clock.now.Sub(began); took != 50*time.Second {
		t.Errorf("the last was served after %v", took)
	}
}

func TestWithoutOnTurnEverybodyComesWhenItWasTold(t *testing.T) {
	c := newCrowd(limit.Limits{RequestsPerMinute: 6})
	c.l.OnTurn = nil
	c.come(4, 1)
	c.l.Leave(name(1))
	c.clock.advance(20 * time.Second)
	if c.ask(name(2), 1) == nil {
		t.Error("it came when it was told and has to wait")
	}
}

func TestAWaitSaysTheSameWhileTimePasses(t *testing.T) {
	c := newClock()
	l := limit.New(limit.Limits{TokensPerMinute: 600}, c.Now)
	if _, wait := l.Take("first", 5000); wait != nil {
		t.Fatal(wait)
	}
	_, before := l.Take("second", 100)
	c.advance(time.Minute)
	_, after := l.Take("second", 100)
	if before.Detail != after.Detail || before.After-after.After != time.Minute {
		t.Errorf("%+v, then %+v", before, after)
	}
}

func TestAWaitIsAnHourAtMost(t *testing.T) {
	l := limit.New(limit.Limits{RequestsPerMinute: 1}, newClock().Now)
	for i := range 1000 {
		if _, wait := l.Take(name(i), 1); wait != nil && wait.After > time.Hour {
			t.Fatalf("the %dth waits %v", i, wait.After)
		}
	}
}

// Whatever they do, no minute sees more than the rate and a burst, and whoever came first and is in time is served first.
func TestRatesHoldForAnUnrulyCrowd(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		c := newCrowd(limit.Limits{RequestsPerMinute: 60})
		var at []time.Time
		for n := 0; n < 2000; n++ {
			switch r.IntN(10) {
			case 0:
				c.l.Leave(name(r.IntN(50)))
			case 1, 2, 3:
				c.clock.advance(time.Duration(r.IntN(3000)) * time.Millisecond)
			case 4:
				if ticket := c.ask(name(r.IntN(50)), 1); ticket != nil {
					ticket.Cancel()
				}
			default:
				if c.ask(name(r.IntN(50)), 1) != nil {
					at = append(at, c.clock.now)
				}
			}
		}
		for i := range at {
			within := 0
			for within = i; within < len(at) && at[within].Sub(at[i]) < time.Minute; within++ {
			}
			if within-i > 70 {
				t.Fatalf("%d calls within a minute", within-i)
			}
		}
		if len(at) == 0 {
			t.Fatal("nobody was served")
		}
		if c.l.Waiting() > 50 {
			t.Errorf("%d places for 50 keys", c.l.Waiting())
		}
	}
}
