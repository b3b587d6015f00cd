package controller

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// progressWrites bounds, over all tasks, the status writes a second that only tell of progress while journals are being
	// written. An API server on two cores takes some 500 writes a second, and under load they are for the journals.
	progressWrites = 25
	// quietAppends is up to how many appends at once the API server counts as idle, so that progress may be told freely.
	quietAppends = 2
	// progressPause is when a write that had to give way is tried again.
	progressPause = 100 * time.Millisecond
)

// pace makes the writes that only tell of progress give way to those that keep what was paid for.
type pace struct {
	appends atomic.Int64
	always  *rate.Limiter
}

func newPace() *pace { return &pace{always: rate.NewLimiter(progressWrites, progressWrites)} }

// append counts an append in until done is called.
func (p *pace) append() (done func()) {
	p.appends.Add(1)
	return func() { p.appends.Add(-1) }
}

// allow tells whether progress may be written now.
func (p *pace) allow() bool { return p.appends.Load() <= quietAppends || p.always.Allow() }

// slots bound the turns whose model or tool calls run at once.
type slots chan struct{}

// workers is how many Reconciles may run at once: some more than there are slots, so that a slot is not idle while the turn
// that had it is written to its journal. No more than those wait for a slot, past the queue and its priorities.
func (s slots) workers() int { return cap(s) + cap(s)/4 + 1 }

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
