package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

const (
	// lastWithSessions is the last protocol version that begins with initialize.
	lastWithSessions = "2025-11-25"
	// closeGrace is how long a closing session may take to say goodbye.
	closeGrace = 5 * time.Second
)

// session is one MCP session. Several calls may use it at once; it closes when it is retired and the last of them is done.
type session struct {
	cfg  Config
	cs   *sdk.ClientSession
	wall *wall
	kill context.CancelFunc

	mu      sync.Mutex
	calls   int
	retired bool
	// closed is closed when nothing of the session is left.
	closed chan struct{}
}

// connect makes a session. It returns when ctx ends, whatever the server does.
func (p *Pool) connect(ctx context.Context, cfg Config, onChange func()) (*session, *exchange, error) {
	// The session outlives ctx, which is only the time for connecting.
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	ex := &exchange{}
	w, err := newWall(life, cfg)
	if err != nil {
		kill()
		return nil, ex, err
	}
	s := &session{cfg: cfg, wall: w, kill: kill, closed: make(chan struct{})}
	w.onGone, w.onGap, w.listenDelay = s.retire, onChange, p.listenDelay
	w.large, w.tellTime = p.large, p.tellTime
	defer ex.end()

	client := sdk.NewClient(p.impl, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{},
		// The SDK would send the same tools/call again, up to ten times, when a server asks for input.
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { onChange() },
	})
	client.AddSendingMiddleware(uncached)
	select {
	case out := <-s.handshake(life, client, ex):
		if out.err != nil {
			kill()
			return nil, ex, out.err
		}
		if !s.begin(out.cs) {
			return nil, ex, errClosed
		}
		w.established.Store(true)
		go s.watch()
		return s, ex, nil
	case <-ctx.Done():
		// That breaks every request of the handshake off, and the SDK then cleans up by itself.
		kill()
		return nil, ex, ctx.Err()
	}
}

// outcome of a handshake.
type outcome struct {
	cs  *sdk.ClientSession
	err error
}

// handshake connects in the background: the SDK does not return at the end of a context in every case.
func (s *session) handshake(life context.Context, client *sdk.Client, ex *exchange) <-chan outcome {
	done := make(chan outcome)
	go func() {
		var out outcome
		defer func() {
			if r := recover(); r != nil {
				out = outcome{err: errPanic}
			}
			select {
			case done <- out:
			case <-life.Done(): // nobody waits any more
				if out.cs != nil {
					_ = out.cs.Close()
				}
			}
		}()
		out.cs, out.err = client.Connect(withExchange(life, ex), s.transport(), s.options())
	}()
	return done
}

// begin takes the SDK's session, unless the server has ended it already.
func (s *session) begin(cs *sdk.ClientSession) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		s.kill()
		go func() { _ = cs.Close() }()
		return false
	}
	s.cs = cs
	return true
}

func (s *session) transport() sdk.Transport {
	const eventLimit = maxBodyBytes + 4096 // the wall's limit is the one that counts
	if s.cfg.Transport == SSE {
		return &sdk.SSEClientTransport{Endpoint: s.cfg.URL, HTTPClient: s.wall.client(), MaxEventSize: eventLimit}
	}
	return &sdk.StreamableClientTransport{
		Endpoint: s.cfg.URL, HTTPClient: s.wall.client(), MaxRetries: sdkRetries, MaxEventSize: eventLimit,
	}
}

// options spares servers of the old transport the question whether they speak the stateless protocol: they do not, and the
// SDK gives the connection up when they refuse it with an HTTP error.
func (s *session) options() *sdk.ClientSessionOptions {
	if s.cfg.Transport == SSE {
		return &sdk.ClientSessionOptions{ProtocolVersion: lastWithSessions}
	}
	return nil
}

// watch retires the session when its connection ends.
func (s *session) watch() {
	_ = s.cs.Wait()
	s.retire()
}

// acquire counts a call in. It fails when the session takes no more calls.
func (s *session) acquire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return false
	}
	s.calls++
	return true
}

func (s *session) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	if s.retired && s.calls == 0 {
		go s.close()
	}
}

// retire takes no more calls, and closes once those in flight are done.
func (s *session) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return
	}
	s.retired = true
	s.wall.deaf.Store(true)
	if s.calls == 0 {
		go s.close()
	}
}

func (s *session) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.retired
}

func (s *session) close() {
	defer close(s.closed)
	defer s.kill()
	// The SDK waits for what it answers.
	s.wall.hush()
	s.mu.Lock()
	cs := s.cs
	s.mu.Unlock()
	if cs == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cs.Close()
	}()
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-done:
	case <-s.wall.ctx.Done(): // killed
	case <-timer.C:
	}
}

// call sends one tools/call, once, and returns when ctx ends. The caller holds the session. Forgotten: the server did not know the
// session any more, and so did not look at the call.
func (s *session) call(ctx context.Context, tool string, args json.RawMessage) (result loop.ToolResult, forgotten bool) {
	redact := redactor(s.cfg.Headers)
	fail := func(text string) loop.ToolResult { return errorResult(s.cfg.MaxResultBytes, redact, text) }
	if ctx.Err() != nil {
		return fail(notRun + ": " + causeOf(ctx) + "."), false
	}
	callCtx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	ex := &exchange{}
	done := make(chan loop.ToolResult, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- fail("The call failed within the client. " + unknown)
			}
		}()
		defer ex.end()
		res, err := s.cs.CallTool(withExchange(callCtx, ex), &sdk.CallToolParams{Name: tool, Arguments: args})
		if errors.Is(err, sdk.ErrConnectionClosed) {
			s.retire() // watch may not have seen it yet
		}
		f := ex.facts()
		if err != nil && f.answered && len(f.result) > 0 && !ended(err) {
			res, err = mendResult(f.result), nil
		}
		if err != nil {
			done <- fail(failedCall(ctx, s.cfg, err, f))
			return
		}
		done <- mapResult(res, f.structured, s.cfg.MaxResultBytes, redact)
	}()
	select {
	case result := <-done:
		return result, ex.facts().sessionGone
	case <-callCtx.Done():
		// An answer that is already there counts.
		select {
		case result := <-done:
			return result, false
		default:
			return fail(failedCall(ctx, s.cfg, callCtx.Err(), ex.facts())), false
		}
	}
}
