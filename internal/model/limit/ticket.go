package limit

import (
	"context"
	"errors"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// Ticket is leave for one call. It is either used, by a call of what Wrap returns, or given back by Cancel.
type Ticket struct {
	limiter *Limiter
	tokens  int64
	spent   bool
}

// Wrap returns m for the one call of this ticket. When it ends, what it took beyond the ticket's tokens is booked, or the rest
// given back, and a provider's wish to be left alone is heeded. A second call is booked beside it.
func (t *Ticket) Wrap(m loop.Model) loop.Model {
	return loop.ModelFunc(func(ctx context.Context, req *loop.Request, onBytes func(int)) (*loop.Reply, error) {
		booked := t.begin()
		var (
			reply    *loop.Reply
			err      error
			received int64
			ended    bool
		)
		// Deferred, so that a panic below is booked too.
		defer func() {
			took := booked
			if ended {
				took = actual(req, reply, err, received)
			}
			t.limiter.settle(took-booked, err)
		}()
		reply, err = m.Generate(ctx, req, func(n int) {
			received += int64(n)
			onBytes(n)
		})
		ended = true
		return reply, err
	})
}

// Cancel gives everything back when the call was not made after all. Once the call began, or after another Cancel, it does
// nothing.
func (t *Ticket) Cancel() {
	t.limiter.update(func(now time.Time) {
		if !t.spent {
			t.spent = true
			t.limiter.requests.take(now, -1)
			t.limiter.tokens.take(now, -t.tokens)
		}
	})
}

// begin is the start of a call. It returns the tokens that were booked for it.
func (t *Ticket) begin() (booked int64) {
	t.limiter.update(func(now time.Time) {
		if t.spent {
			t.limiter.requests.take(now, 1)
			return
		}
		t.spent, booked = true, t.tokens
	})
	return booked
}

// settle books what a call took beyond its ticket (or less), and heeds the provider's wish.
func (l *Limiter) settle(more int64, err error) {
	l.update(func(now time.Time) {
		l.tokens.take(now, more)
		if e := (*loop.ModelError)(nil); errors.As(err, &e) && e.Cause == loop.CauseModelRateLimited && e.Retry {
			// One task was told; the others would only be told the same, and use up their attempts.
			if until := now.Add(min(e.RetryAfter, maxPause)); until.After(l.pausedUntil) {
				l.pausedUntil = until
			}
		}
	})
}

// inputOf guesses the tokens of a request: four bytes each.
func inputOf(req *loop.Request) int64 {
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
	return int64(bytes)/4 + 1
}

// actual is what a call took: what the provider says, else what can be told from the bytes. A call that failed before
// anything came back took nothing.
func actual(req *loop.Request, reply *loop.Reply, err error, received int64) int64 {
	switch {
	case reply != nil && reply.Usage.Reported():
		return reply.Usage.Total()
	case reply == nil && err != nil && received == 0:
		return 0
	}
	return inputOf(req) + received/4
}
