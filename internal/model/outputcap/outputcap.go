// Package outputcap finds the cap on a reply's tokens that a server takes. Every call of a task with maxTokens carries one,
// which may be far above what the model can give, and most servers refuse that.
package outputcap

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

const (
	// maxTries bounds how often one call is sent. It is enough to halve firstGuess down to model.MinOutputCap.
	maxTries = 12
	// firstGuess is where guessing begins, in tokens: what most models give at least half of.
	firstGuess = 64 << 10
	// guessLife is how many calls a guess serves before the server is asked anew. It may have been of a call whose input
	// left no more.
	guessLife = 64
)

// Wrap returns a model that lowers the cap of each request to what the server was seen to take, and asks again at once with a
// smaller one where it is refused: with the maximum that the server names, or half. One call is sent at most 12 times, and
// takes no longer than timeout (0 for none) in all. A request is not changed, and its cap never raised.
//
// The last refusal is returned where no cap of at least model.MinOutputCap is taken.
func Wrap(inner loop.Model, timeout time.Duration) loop.Model {
	var m memory
	return loop.ModelFunc(func(ctx context.Context, req *loop.Request, onBytes func(int)) (*loop.Reply, error) {
		if timeout > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeoutCause(ctx, timeout, model.ErrRequestTimeout)
			defer stop()
		}
		c := call{bare: req.MaxOutputTokens <= 0}
		asked := *req
		asked.MaxOutputTokens = m.lower(req.MaxOutputTokens)
		for try := 1; ; try++ {
			begun := false
			reply, err := inner.Generate(ctx, &asked, func(n int) {
				begun = begun || n > 0
				onBytes(n)
			})
			refused := refusal(err)
			if refused == nil && (begun || err == nil) {
				m.learn(&c, asked.MaxOutputTokens)
			}
			if refused == nil || begun {
				return reply, err
			}
			if asked.MaxOutputTokens = c.next(refused); asked.MaxOutputTokens == 0 || try == maxTries {
				return reply, err
			}
		}
	})
}

func refusal(err error) *loop.RefusedCap {
	if e := (*loop.ModelError)(nil); errors.As(err, &e) {
		return e.OutputCap
	}
	return nil
}

// memory is what a server was seen to take.
type memory struct {
	mu sync.Mutex
	// ceiling is the least maximum that the server named as its model's, 0 for none.
	ceiling int64
	// guess is a cap that was taken after larger ones were refused without naming any, 0 for none; served counts the calls
	// it was used for.
	guess  int64
	served int
	// bare: what the client sends for a request without cap was refused too.
	bare bool
}

// lower is the cap to begin with, in place of the one that is asked for.
func (m *memory) lower(asked int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if asked <= 0 && !m.bare {
		return 0
	}
	out := model.OutputCap(asked, m.ceiling)
	if m.guess == 0 || out > 0 && out <= m.guess {
		return out
	}
	if m.served++; m.served > guessLife {
		m.guess, m.served = 0, 0
		return out
	}
	return m.guess
}

// learn keeps what a call showed whose cap was taken in the end.
func (m *memory) learn(c *call, taken int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.ceiling > 0 {
		m.ceiling = model.OutputCap(c.ceiling, m.ceiling)
	}
	if c.guessed {
		m.guess, m.served = taken, 0
	}
	m.bare = m.bare || c.bare && (c.ceiling > 0 || c.guessed)
}

// call is one call while its cap is looked for.
type call struct {
	bare bool
	// ceiling and room are the least maxima that were named: the model's, and of this call alone. 0 is none.
	ceiling, room int64
	// guessed: a cap was refused, not for this call alone, without naming a maximum.
	guessed bool
}

// next is the cap to ask with after a refusal, 0 for none.
func (c *call) next(r *loop.RefusedCap) int64 {
	out := min(r.Sent/2, firstGuess)
	switch named := r.Max > 0 && r.Max < r.Sent; {
	case named && r.ThisCall:
		out = believe(&c.room, r.Max, out)
	case named:
		out = believe(&c.ceiling, r.Max, out)
	case !r.ThisCall:
		c.guessed = true
	}
	if out = max(out, model.MinOutputCap); out >= r.Sent {
		return 0
	}
	return out
}

// believe notes a maximum that was named, and is the cap to ask with: the first is believed. When that was refused too, it is
// half at most: a server may name a little less each time.
func believe(least *int64, named, half int64) int64 {
	first := *least == 0
	*least = model.OutputCap(named, *least)
	if first {
		return named
	}
	return min(named, half)
}
