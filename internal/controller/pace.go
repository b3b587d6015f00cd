package controller

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

const (
	// busyAppends is from how many appends a second the API server counts as busy. One on two cores takes some 500 writes.
	busyAppends = 40
	// progressWrites bounds, over all tasks, the status writes a second that only tell of progress while it is busy: then its
	// time is for the journals.
	progressWrites = 10
	// progressPause is when a write that had to give way is tried again.
	progressPause = 100 * time.Millisecond
	// progressLag is how many status intervals the progress of a task that goes on may lag behind. Two leave room for the
	// next call to be slow enough that no turn waits for the write.
	progressLag = 2
)

// pace makes the writes that only tell of progress give way to those that keep what was paid for.
type pace struct {
	clock   loop.Clock
	limiter *rate.Limiter

	mu sync.Mutex
	// second is the one that is counted now.
	second        time.Time
	before, since int
}

func newPace(c loop.Clock) *pace {
	return &pace{clock: c, limiter: rate.NewLimiter(progressWrites, progressWrites)}
}

// append counts an append.
func (p *pace) append() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turnOver()
	p.since++
}

// turnOver begins the next second once it is due. The caller holds the lock.
func (p *pace) turnOver() {
	now := p.clock.Now()
	switch passed := now.Sub(p.second); {
	case passed < time.Second:
		return
	case passed < 2*time.Second:
		p.before = p.since
	default:
		p.before = 0
	}
	p.second, p.since = now, 0
}

// allow tells whether progress may be written now.
func (p *pace) allow() bool {
	p.mu.Lock()
	p.turnOver()
	appends := max(p.before, p.since)
	p.mu.Unlock()
	return appends < busyAppends || p.limiter.AllowN(p.clock.Now(), 1)
}

// slots bound the turns whose model or tool calls run at once.
type slots chan struct{}

// workers is how many Reconciles may run at once: some more than there are slots, so that a slot is not idle while the turn
// that had it is written to its journal. No more than those wait for a slot, past the queue and its priorities.
func (s slots) workers() int { return cap(s) + cap(s)/4 + 1 }

// try takes a slot if one is free and the operator is not to stop, and returns how to give it back; else nil.
func (s slots) try(ctx context.Context) (free func()) {
	if ctx.Err() != nil {
		return nil
	}
	select {
	case s <- struct{}{}:
		return func() { <-s }
	default:
		return nil
	}
}

// take waits for a slot, and returns how to give it back; nil when the operator stops or the task is interrupted first.
func (s slots) take(ctx, call context.Context) (free func()) {
	select {
	case s <- struct{}{}:
		return func() { <-s }
	case <-ctx.Done():
	case <-call.Done():
	}
	return nil
}
