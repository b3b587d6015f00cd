// Package limit holds the rates of an AgentModel that all of its tasks share: requests and tokens a minute, and the pause that
// its provider asked for.
//
// It never blocks. Who wants to call takes a ticket, or is told when its turn comes. Turns go to those who came first.
package limit

import (
	"math"
	"sync"
	"time"
)

const (
	// burstShare is the part of a minute's worth that may go at once; the rest is spread evenly. So no minute sees more
	// than a sixth above the limit.
	burstShare = 6
	// maxDebt bounds what one call can book, in bursts: an hour's worth. A server that reports absurd usage must not lock
	// its model for ever.
	maxDebt = 60 * burstShare
	// maxPause bounds how long one provider's Retry-After holds all tasks of a model.
	maxPause = time.Minute
)

// Limits of one AgentModel. Zero is no limit.
type Limits struct {
	RequestsPerMinute int64
	// TokensPerMinute counts input and output.
	TokensPerMinute int64
}

// Limiter is shared by everything that calls one AgentModel. Make it with New.
type Limiter struct {
	// OnTurn is called with a key that waits and whose turn comes earlier than it was told, because others left, or used less
	// than they said. Its owner should call Take again. OnTurn may be nil, is set before the first call of Take, and must not
	// block.
	OnTurn func(key string)

	clock func() time.Time

	mu          sync.Mutex
	limits      Limits
	requests    bucket
	tokens      bucket
	pausedUntil time.Time
	queue       []*place
}

// New makes a Limiter. A nil clock is time.Now.
func New(limits Limits, clock func() time.Time) *Limiter {
	if clock == nil {
		clock = time.Now
	}
	l := &Limiter{clock: clock}
	l.SetLimits(limits)
	return l
}

// SetLimits changes the limits. What was spent stays spent, and who waits keeps its place.
func (l *Limiter) SetLimits(limits Limits) {
	l.update(func(now time.Time) {
		if limits != l.limits {
			l.requests.change(now, limits.RequestsPerMinute)
			l.tokens.change(now, limits.TokensPerMinute)
			l.limits = limits
		}
	})
}

// update makes a change, and tells those whose turn it brings forward.
func (l *Limiter) update(change func(now time.Time)) {
	l.mu.Lock()
	now := l.clock()
	change(now)
	sooner := l.sooner(now)
	l.mu.Unlock()
	for _, key := range sooner {
		l.OnTurn(key)
	}
}

// bucket fills at a rate, and may be emptied beyond its bottom: that is a debt. The zero value has no limit.
type bucket struct {
	rate  float64 // units a second, 0 for no limit
	burst float64
	level float64
	at    time.Time
}

// change sets another limit. Without one nothing was counted, so the first begins whole.
func (b *bucket) change(now time.Time, perMinute int64) {
	level, counted := b.levelAt(now), b.rate > 0
	b.rate, b.burst = max(float64(perMinute), 0)/60, float64(max(perMinute/burstShare, 1))
	if !counted {
		level = b.burst
	}
	b.level, b.at = level, now
}

func (b *bucket) levelAt(t time.Time) float64 {
	return min(b.level+b.rate*max(t.Sub(b.at), 0).Seconds(), b.burst)
}

// take books n units; less than 0 gives some back.
func (b *bucket) take(now time.Time, n int64) {
	b.level, b.at = b.levelAt(now)-b.booked(n), now
}

// booked is how much of n units is booked.
func (b *bucket) booked(n int64) float64 { return min(float64(n), maxDebt*b.burst) }

// until is how long it takes from t on until one unit is there when others were taken before, 0 for no time. A large call goes
// once anything is left, and leaves a debt: waiting for room for all of it, it would starve beside small ones.
func (b *bucket) until(t time.Time, before float64) time.Duration {
	missing := 1 + before - b.levelAt(t)
	if b.rate == 0 || missing < 1e-6 { // what is left of rounding, after exactly the wait that was named
		return 0
	}
	return time.Duration(min(math.Ceil(missing/b.rate*float64(time.Second)), float64(maxWait)))
}
