package mcp

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// Pauses after a failed discovery: doubled with each failure, up to the maximum, and spread by up to a fifth.
	firstPause = time.Second
	maxPause   = time.Minute
	// longestPause is the number of failures from which on the pause is maxPause.
	longestPause = 6
	// defaultSecondChance is how long a caller waits for a server that failed before: enough for one that is well again.
	defaultSecondChance = time.Second
)

// entry is one toolset of a pool.
type entry struct {
	pool *Pool
	key  string
	cfg  Config

	// Guarded by pool.mu.
	users int
	timer *time.Timer

	mu      sync.Mutex
	dropped bool
	sess    *session
	// list is what the toolset offers, as of listedAt and the change counter's value then.
	list []Tool
	// odd names the first entries of it that are not as they should be.
	odd      string
	room     *listRoom
	listedAt time.Time
	listedOf uint64
	changes  uint64
	flight   *flight
	failures int
	retryAt  time.Time
	lastErr  *UnavailableError
}

// flight is a discovery that is under way. All callers that need one share it.
type flight struct {
	done chan struct{}
	err  *UnavailableError
}

func newEntry(p *Pool, key string, cfg Config) *entry {
	return &entry{pool: p, key: key, cfg: cfg, room: &listRoom{room: p.lists, namespace: cfg.Namespace}}
}

// tools returns the list, reading it anew where it is missing or old.
func (e *entry) tools(ctx context.Context) ([]Tool, error) {
	e.mu.Lock()
	if e.fresh() {
		defer e.mu.Unlock()
		return e.list, nil
	}
	if err := e.discovered(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.list, nil
}

// session returns a session that is held for one call, connecting first where there is none.
func (e *entry) session(ctx context.Context) (*session, error) {
	// Twice: the session that a discovery made may be gone again before it is held.
	for range 2 {
		e.mu.Lock()
		if e.sess != nil && e.sess.acquire() {
			defer e.mu.Unlock()
			return e.sess, nil
		}
		if err := e.discovered(ctx); err != nil {
			return nil, err
		}
	}
	return nil, e.unavailable("the server ends its sessions at once")
}

func (e *entry) fresh() bool {
	return e.sess != nil && e.sess.alive() && e.listedOf == e.changes && !e.listedAt.IsZero() &&
		e.pool.now().Sub(e.listedAt) < e.pool.maxAge
}

// discovered waits for a discovery, its own or one under way. It is called with the lock and gives it up.
func (e *entry) discovered(ctx context.Context) error {
	f, failedBefore, err := e.join()
	e.mu.Unlock()
	if err != nil {
		return err
	}
	var impatient <-chan time.Time
	if failedBefore != nil {
		timer := time.NewTimer(e.pool.secondChance)
		defer timer.Stop()
		impatient = timer.C
	}
	select {
	case <-f.done:
		if f.err != nil {
			return f.err
		}
		return nil
	case <-impatient:
		return failedBefore
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join finds the discovery under way or starts one, unless the server is to be left alone.
func (e *entry) join() (f *flight, failedBefore *UnavailableError, err error) {
	if wait := e.retryAt.Sub(e.pool.now()); e.flight == nil && e.lastErr != nil && wait > 0 {
		return nil, nil, &UnavailableError{Toolset: e.lastErr.Toolset, Reason: e.lastErr.Reason, RetryAfter: wait}
	}
	if e.dropped {
		return nil, nil, e.unavailable("it was changed or removed")
	}
	if e.flight == nil {
		e.flight = &flight{done: make(chan struct{})}
		// Not in a caller's context: others may wait for the same discovery.
		go e.discover(e.flight)
	}
	return e.flight, e.lastErr, nil
}

// discover connects, where needed, and lists. It is bounded by the toolset's ConnectTimeout.
func (e *entry) discover(f *flight) {
	ctx, cancel := context.WithTimeout(e.pool.life, e.cfg.ConnectTimeout)
	defer cancel()
	e.mu.Lock()
	sess, changes := e.sess, e.changes
	e.mu.Unlock()

	var tools []listed
	var odd []string
	var err error
	var ex *exchange
	e.room.begin()
	if sess != nil && sess.acquire() {
		tools, odd, ex, err = sess.list(ctx, e.room)
		sess.release()
	} else {
		sess = nil
	}
	if sess == nil || err != nil {
		old := sess
		e.room.begin()
		if sess, ex, err = e.connect(ctx); err == nil {
			tools, odd, ex, err = sess.list(ctx, e.room)
		}
		// Calls on the old session go on; it closes after them.
		if old != nil {
			old.retire()
		}
	}
	var offered []Tool
	if err == nil {
		offered, err = describe(e.cfg, tools)
	}
	if err != nil && sess != nil {
		sess.retire()
	}
	e.room.shrink(definitionBytes(offered))
	e.finish(f, sess, changes, offered, oddNames(odd), err, ex)
}

// definitionBytes is what definitions of tools take.
func definitionBytes(tools []Tool) (n int64) {
	for i := range tools {
		d := &tools[i].Definition
		n += int64(len(tools[i].ServerName) + len(d.Description) + len(d.InputSchema))
	}
	return n
}

func (e *entry) connect(ctx context.Context) (*session, *exchange, error) {
	s, ex, err := e.pool.connect(ctx, e.cfg, e.changed)
	if err == nil {
		e.pool.track(s)
	}
	return s, ex, err
}

// finish keeps what a discovery found, and lets its callers go on.
func (e *entry) finish(f *flight, s *session, changes uint64, tools []Tool, odd string, err error, ex *exchange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer close(f.done)
	e.flight = nil
	if err == nil && e.dropped {
		s.retire()
		err = errClosed
	}
	if err != nil {
		e.forget()
		e.failures++
		pause := pauseAfter(e.failures)
		if errors.Is(err, errNoRoom) || errors.Is(err, errLongList) || errors.Is(err, errEndlessList) {
			pause = pauseAfter(longestPause + 1) // to read such a list takes much, and a moment later it is the same
		}
		e.retryAt = e.pool.now().Add(pause)
		f.err = e.unavailable(e.why(err, ex))
		f.err.RetryAfter = pause
		e.lastErr = f.err
		return
	}
	e.sess, e.list, e.odd, e.listedAt, e.listedOf = s, tools, odd, e.pool.now(), changes
	e.failures, e.retryAt, e.lastErr = 0, time.Time{}, nil
}

func (e *entry) why(err error, ex *exchange) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded) && !hidden(e.cfg, err, ex.facts()):
		return "no answer within " + e.cfg.ConnectTimeout.String()
	case errors.Is(err, errEndlessList), errors.Is(err, errLongList), errors.Is(err, errNoRoom), errors.Is(err, errGlobs):
		return err.Error()
	}
	return reasonOf(e.cfg, err, ex.facts())
}

func (e *entry) unavailable(reason string) *UnavailableError {
	return &UnavailableError{Toolset: e.cfg.Name, Reason: reason}
}

// changed notes that the list is out of date.
func (e *entry) changed() {
	e.mu.Lock()
	e.changes++
	e.mu.Unlock()
	e.pool.onChange(e.key)
}

// drop ends the entry: calls in flight finish, then the session closes.
func (e *entry) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropped = true
	if e.sess != nil {
		e.sess.retire()
	}
	e.forget()
}

// forget lets the session and the list go. The caller holds the lock.
func (e *entry) forget() {
	e.sess, e.list, e.odd = nil, nil, ""
	e.room.shrink(0)
}

// pauseAfter is how long a server is left alone after that many failures in a row.
func pauseAfter(failures int) time.Duration {
	pause := maxPause
	if n := failures - 1; n < longestPause {
		pause = firstPause << n
	}
	return pause + rand.N(pause/5)
}
