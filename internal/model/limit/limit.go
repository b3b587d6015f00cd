// Package limit holds the limits of an AgentModel that all of its tasks share: calls at once, requests and tokens a minute.
//
// It never blocks: a call that finds no room returns a loop.WaitError at once, and the task gives its worker back.
package limit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// Reason is the condition reason of a task that waits here.
const Reason = "WaitingForModel"

const (
	// burstShare is the part of a minute's worth that may go at once; the rest is spread evenly. So no minute sees more
	// than a sixth above the limit.
	burstShare = 6
	// slotWait is when to look again for a slot, should nobody have called OnRelease's listener.
	slotWait = 5 * time.Second
	// maxPause bounds how long one provider's Retry-After holds all tasks of a model.
	maxPause = time.Minute
	// maxDebt bounds what one call can book, in bursts: an hour's worth. A server that reports absurd usage must not lock
	// its model for ever.
	maxDebt = 60 * burstShare
	// outputGuess is the most that is set aside for a reply before it is known.
	outputGuess = 4096
)

// Limits of one AgentModel. Zero is no limit.
type Limits struct {
	MaxConcurrent     int
	RequestsPerMinute int64
	// TokensPerMinute counts input and output.
	TokensPerMinute int64
}

// Limiter is shared by everything that calls one AgentModel. Make it with New.
type Limiter struct {
	// OnRelease is called after a call gave its slot back, so that waiting tasks can be woken. It may be nil, is set before
	// the first call, and must not block.
	OnRelease func()

	clock func() time.Time

	mu          sync.Mutex
	limits      Limits
	running     int
	requests    *rate.Limiter
	tokens      *rate.Limiter
	pausedUntil time.Time
}

// New makes a Limiter. A nil clock is time.Now.
func New(limits Limits, clock func() time.Time) *Limiter {
	if clock == nil {
		clock = time.Now
	}
	return &Limiter{
		clock:    clock,
		limits:   limits,
		requests: rate.NewLimiter(perMinute(limits.RequestsPerMinute)),
		tokens:   rate.NewLimiter(perMinute(limits.TokensPerMinute)),
	}
}

// SetLimits changes the limits. Calls that run keep their slots, and what was spent stays spent.
func (l *Limiter) SetLimits(limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if limits == l.limits {
		return
	}
	now := l.clock()
	change(&l.requests, now, limits.RequestsPerMinute)
	change(&l.tokens, now, limits.TokensPerMinute)
	l.limits = limits
}

func change(b **rate.Limiter, now time.Time, n int64) {
	r, burst := perMinute(n)
	if (*b).Limit() == rate.Inf {
		// Without a limit nothing was counted, so the new one begins whole.
		*b = rate.NewLimiter(r, burst)
		return
	}
	(*b).SetLimitAt(now, r)
	(*b).SetBurstAt(now, burst)
}

func perMinute(n int64) (rate.Limit, int) {
	if n <= 0 {
		return rate.Inf, 0
	}
	return rate.Limit(float64(n) / 60), int(min(max(n/burstShare, 1), math.MaxInt32))
}

// Wrap returns a model that calls m within the limits.
func (l *Limiter) Wrap(m loop.Model) loop.Model {
	return loop.ModelFunc(func(ctx context.Context, req *loop.Request, onBytes func(int)) (*loop.Reply, error) {
		input, output := Estimate(req)
		if wait := l.acquire(input + output); wait != nil {
			return nil, wait
		}
		var (
			reply    *loop.Reply
			err      error
			received int64
			ended    bool
		)
		// Deferred, so that a panic below gives the slot back too.
		defer func() {
			spent := input + output
			if ended {
				spent = actual(reply, err, input, received)
			}
			l.release(spent-input-output, err)
		}()
		reply, err = m.Generate(ctx, req, func(n int) {
			received += int64(n)
			onBytes(n)
		})
		ended = true
		return reply, err
	})
}

// acquire takes a slot, a request and the tokens, or tells what is to be waited for and takes nothing.
func (l *Limiter) acquire(tokens int64) *loop.WaitError {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	wait := func(after time.Duration, format string, args ...any) *loop.WaitError {
		return &loop.WaitError{Reason: Reason, Detail: fmt.Sprintf(format, args...), After: after}
	}
	switch {
	case l.limits.MaxConcurrent > 0 && l.running >= l.limits.MaxConcurrent:
		return wait(slotWait, "the model already serves %d calls, which is its maxConcurrent", l.running)
	case now.Before(l.pausedUntil):
		return wait(l.pausedUntil.Sub(now), "the provider asked to be left alone for a while")
	}
	if after := until(l.requests, now); after > 0 {
		return wait(after, "the model's requestsPerMinute (%d) are used up", l.limits.RequestsPerMinute)
	}
	if after := until(l.tokens, now); after > 0 {
		return wait(after, "the model's tokensPerMinute (%d) are used up", l.limits.TokensPerMinute)
	}
	l.running++
	take(l.requests, now, 1)
	take(l.tokens, now, tokens)
	return nil
}

// release gives the slot back, books what the call took beyond its estimate (or less), and heeds the provider's wish.
func (l *Limiter) release(more int64, err error) {
	l.mu.Lock()
	now := l.clock()
	l.running--
	take(l.tokens, now, more)
	if e := (*loop.ModelError)(nil); errors.As(err, &e) && e.Cause == loop.CauseModelRateLimited && e.Retry {
		// One task was told; the others would only be told the same, and use up their attempts.
		if until := now.Add(min(e.RetryAfter, maxPause)); until.After(l.pausedUntil) {
			l.pausedUntil = until
		}
	}
	l.mu.Unlock()
	if l.OnRelease != nil {
		l.OnRelease()
	}
}

// until is how long it takes until one unit is there, 0 for now. A large call goes once anything is left and puts the
// bucket into debt: waiting for room for all of it, it would starve beside small ones.
func until(b *rate.Limiter, now time.Time) time.Duration {
	if b.Limit() == rate.Inf {
		return 0
	}
	missing := 1 - b.TokensAt(now)
	if missing < 1e-6 {
		return 0 // what is left of rounding, after exactly the wait that was named
	}
	return time.Duration(math.Ceil(missing / float64(b.Limit()) * float64(time.Second)))
}

// take books n units, which may be negative to give some back, and may leave a debt.
func take(b *rate.Limiter, now time.Time, n int64) {
	if b.Limit() == rate.Inf {
		return
	}
	if n < 0 {
		b.ReserveN(now, int(max(n, math.MinInt32)))
		return
	}
	burst := int64(b.Burst())
	n = min(n, maxDebt*burst)
	// A reservation above the burst is refused whole, so a large one goes in parts.
	for ; n > 0; n -= burst {
		b.ReserveN(now, int(min(n, burst)))
	}
}

// Estimate guesses the tokens of a request and its reply before they are known: four bytes a token.
func Estimate(req *loop.Request) (input, output int64) {
	bytes := len(req.System) + len(req.OutputSchema)
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			bytes += len(b.Text)
		}
		for _, c := range m.ToolCalls {
			bytes += len(c.Name) + len(c.Arguments)
		}
		for _, r := range m.ToolResults {
			bytes += len(r.Content)
		}
	}
	for _, t := range req.Tools {
		bytes += len(t.Name) + len(t.Description) + len(t.InputSchema)
	}
	output = outputGuess
	if req.MaxOutputTokens > 0 {
		output = min(output, req.MaxOutputTokens)
	}
	return int64(bytes)/4 + 1, output
}

// actual is what a call took: what the provider says, else what can be told from the bytes. A call that failed before
// anything came back took nothing.
func actual(reply *loop.Reply, err error, input, received int64) int64 {
	switch {
	case reply != nil && reply.Usage.Reported():
		return reply.Usage.Total()
	case reply == nil && err != nil && received == 0:
		return 0
	}
	return input + received/4
}
