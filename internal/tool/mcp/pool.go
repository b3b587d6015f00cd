package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

const (
	defaultIdle   = 5 * time.Minute
	defaultMaxAge = 5 * time.Minute
)

// Pool keeps one session a toolset and reuses it over turns and tasks. A toolset is known by its key: whatever changes what
// its Config says must change the key. A Pool is safe for concurrent use.
type Pool struct {
	impl   *sdk.Implementation
	now    func() time.Time
	idle   time.Duration
	maxAge time.Duration
	// listenDelay is the first pause before a broken listening stream is opened again.
	listenDelay time.Duration
	// secondChance is how long a caller waits for a server that failed before.
	secondChance time.Duration
	// large are the places for large answers, and tellTime is how long a server may take to accept what it need not answer.
	large    *places
	tellTime time.Duration
	// lists is the memory for lists of tools, nil for no bound.
	lists *fairshare.Bytes
	// onChange is told the key of a toolset whose server says that its tools changed.
	onChange func(key string)

	// life ends with Shutdown, and discoveries with it.
	life context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	entries map[string]*entry
	// gone are the keys that are not to be used any more, and since when.
	gone   map[string]time.Time
	closed bool
	// closing are the sessions that may not have closed yet.
	closing map[*session]struct{}
}

// Option changes a Pool.
type Option func(*Pool)

// WithClientInfo sets the name and version that the pool gives to servers.
func WithClientInfo(name, version string) Option {
	return func(p *Pool) { p.impl = &sdk.Implementation{Name: name, Version: version} }
}

// WithClock replaces the clock, by which pauses after failures and the age of lists are measured.
func WithClock(clock loop.Clock) Option { return func(p *Pool) { p.now = clock.Now } }

// WithIdleTimeout sets how long a toolset that nobody uses keeps its session. The default is 5 minutes.
func WithIdleTimeout(d time.Duration) Option { return func(p *Pool) { p.idle = d } }

// WithListMaxAge sets after how long a list of tools is read again although the server notified of no change: not every
// server does. The default is 5 minutes.
func WithListMaxAge(d time.Duration) Option { return func(p *Pool) { p.maxAge = d } }

// WithListRoom sets the memory for lists of tools, which all toolsets share. Without it there is no bound but that of each.
func WithListRoom(b *fairshare.Bytes) Option { return func(p *Pool) { p.lists = b } }

// WithOnToolsChanged sets what is called, with the toolset's key, when a server says that its tools changed or may have
// changed unnoticed. It must return soon.
func WithOnToolsChanged(f func(key string)) Option { return func(p *Pool) { p.onChange = f } }

// NewPool makes an empty pool.
func NewPool(opts ...Option) *Pool {
	p := &Pool{
		impl: &sdk.Implementation{Name: "agenttask-operator", Version: "v1alpha1"}, now: time.Now,
		idle: defaultIdle, maxAge: defaultMaxAge, listenDelay: time.Second,
		secondChance: defaultSecondChance, large: newPlaces(largePlaces), tellTime: defaultTellTime, onChange: func(string) {},
		entries: map[string]*entry{}, gone: map[string]time.Time{}, closing: map[*session]struct{}{},
	}
	p.life, p.stop = context.WithCancel(context.Background())
	for _, o := range opts {
		o(p)
	}
	return p
}

// Tools returns the toolset's tools, from memory where they are known. Otherwise it connects and lists, within
// cfg.ConnectTimeout. A server that failed before is left alone for a while, and is then given a second at most. The error
// is an *UnavailableError, or ctx's own when that ended first.
func (p *Pool) Tools(ctx context.Context, key string, cfg Config) ([]Tool, error) {
	e, err := p.enter(key, cfg)
	if err != nil {
		return nil, err
	}
	defer p.leave(e)
	return e.tools(ctx)
}

// Call runs a tool by its server's name, with the arguments as the model wrote them. The call is run at most once: it is sent again
// only where the server has said that it did not look at it, for it had forgotten the session. The result has no call id and no name. Call returns when ctx ends.
func (p *Pool) Call(ctx context.Context, key string, cfg Config, tool, args string) loop.ToolResult {
	cfg = cfg.withDefaults()
	raw, problem := arguments(args)
	if problem != "" {
		return errorResult(cfg.MaxResultBytes, nil, notRun+": "+problem)
	}
	e, err := p.enter(key, cfg)
	if err != nil {
		return errorResult(cfg.MaxResultBytes, nil, notRun+": "+err.Error()+".")
	}
	defer p.leave(e)
	for resent := false; ; resent = true {
		s, err := e.session(ctx)
		if err != nil {
			reason := err.Error()
			if ctx.Err() != nil {
				reason = causeOf(ctx)
			}
			return errorResult(cfg.MaxResultBytes, nil, notRun+": "+reason+".")
		}
		result, forgotten := s.call(ctx, tool, raw)
		s.release()
		if !forgotten || resent || ctx.Err() != nil {
			return result
		}
	}
}

// Odd names the first entries of a toolset's list that are not as the protocol has them, in words for people; empty for none.
func (p *Pool) Odd(key string) string {
	p.mu.Lock()
	e := p.entries[key]
	p.mu.Unlock()
	if e == nil {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.odd
}

// arguments checks that a call's arguments are a JSON object. Models leave them out where a tool takes none.
func arguments(args string) (raw json.RawMessage, problem string) {
	args = strings.TrimSpace(args)
	if args == "" {
		return json.RawMessage("{}"), ""
	}
	var syntax *json.SyntaxError
	var object map[string]json.RawMessage
	switch err := json.Unmarshal([]byte(args), &object); {
	case errors.As(err, &syntax):
		return nil, "the arguments are not valid JSON (" + syntax.Error() + "). Send one JSON object."
	case err != nil || object == nil:
		return nil, "the arguments must be a JSON object, such as {}."
	}
	return json.RawMessage(args), ""
}

// goneTime is how long a closed key is refused: longer than anybody acts by what was resolved before.
const goneTime = time.Hour

// Open lets a key be used again that was closed, such as that of credentials that were put back.
func (p *Pool) Open(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.gone, key)
}

// Close forgets a toolset, whose credentials may have been revoked: nothing new is sent by this key, and its listening stream is not
// opened again. Calls in flight are let finish, then its session closes.
func (p *Pool) Close(key string) {
	p.mu.Lock()
	e := p.entries[key]
	delete(p.entries, key)
	now := p.now()
	maps.DeleteFunc(p.gone, func(_ string, since time.Time) bool { return now.Sub(since) > goneTime })
	p.gone[key] = now
	p.mu.Unlock()
	if e != nil {
		e.drop()
	}
}

// Shutdown takes no more work and lets calls in flight finish until ctx ends; then it breaks them off. It returns ctx's
// error when it had to.
func (p *Pool) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	entries := p.entries
	p.entries = map[string]*entry{}
	p.mu.Unlock()
	p.stop()
	for _, e := range entries {
		e.drop()
	}
	var err error
	for {
		s := p.anyClosing()
		if s == nil {
			return err
		}
		select {
		case <-s.closed:
		case <-ctx.Done():
			err = ctx.Err()
			s.kill()
			// Its calls return now that nothing answers them any more, and closing is bounded.
			<-s.closed
		}
	}
}

func (p *Pool) anyClosing() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.closing {
		return s
	}
	return nil
}

// track keeps a session in sight until it has closed.
func (p *Pool) track(s *session) {
	p.mu.Lock()
	p.closing[s] = struct{}{}
	p.mu.Unlock()
	go func() {
		<-s.closed
		p.mu.Lock()
		delete(p.closing, s)
		p.mu.Unlock()
	}()
}

// enter finds or makes the toolset's entry and counts a user in, so that it does not go idle.
func (p *Pool) enter(key string, cfg Config) (*entry, error) {
	if err := cfg.Validate(); err != nil {
		return nil, &UnavailableError{Toolset: cfg.Name, Reason: err.Error()}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, &UnavailableError{Toolset: cfg.Name, Reason: "the operator is shutting down"}
	}
	if _, gone := p.gone[key]; gone {
		return nil, &UnavailableError{Toolset: cfg.Name, Reason: "it was changed or removed meanwhile"}
	}
	e := p.entries[key]
	if e == nil {
		e = newEntry(p, key, cfg.withDefaults())
		p.entries[key] = e
	}
	e.users++
	return e, nil
}

func (p *Pool) leave(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	if e.users > 0 {
		return
	}
	if e.timer != nil {
		e.timer.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(p.idle, func() { p.expire(e, &timer) })
	e.timer = timer
}

// expire forgets an entry that has been idle. The timer tells a late firing from that of the last leave.
func (p *Pool) expire(e *entry, timer **time.Timer) {
	p.mu.Lock()
	idle := e.users == 0 && e.timer == *timer
	if idle && p.entries[e.key] == e {
		delete(p.entries, e.key)
	}
	p.mu.Unlock()
	if idle {
		e.drop()
	}
}
