//go:build share

package share

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// ledger keeps what a server was asked and what it bills, whoever reads the reply.
type ledger struct {
	mu    sync.Mutex
	calls []entry
}

type entry struct {
	task       string // its prompt
	came, went time.Time
	in, out    int64
}

func newLedger() *ledger { return &ledger{} }

// of is the model with its calls kept. A call is billed also when its client has left, as a provider does that computes on.
func (l *ledger) of(next answer) answer {
	return func(r *fakechat.Request) fakechat.Reply {
		e := entry{task: r.Prompt(), came: time.Now()}
		reply := next(r)
		e.in, e.out, e.went = reply.In, reply.Out, time.Now().Add(reply.Delay)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.calls = append(l.calls, e)
		return reply
	}
}

func (l *ledger) all() []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

// prompts are those that the server saw, in order.
func (l *ledger) prompts() (out []string) {
	for _, e := range l.all() {
		out = append(out, e.task)
	}
	return out
}

// billed is what all calls cost.
func (l *ledger) billed() (tokens int64) {
	for _, e := range l.all() {
		tokens += e.in + e.out
	}
	return tokens
}

// calledFor counts the calls that were billed.
func (l *ledger) calledFor() (n int) {
	for _, e := range l.all() {
		if e.in+e.out > 0 {
			n++
		}
	}
	return n
}

// largestInput is the most that a call was billed for its input.
func (l *ledger) largestInput() (tokens int64) {
	for _, e := range l.all() {
		tokens = max(tokens, e.in)
	}
	return tokens
}

// waits are the times between the end of a reply and the next call of the same task, of tasks with a prefix.
func (l *ledger) waits(prefix string) (out []time.Duration) {
	last := map[string]time.Time{}
	for _, e := range l.all() {
		if !strings.HasPrefix(e.task, prefix) {
			continue
		}
		if went, ok := last[e.task]; ok {
			out = append(out, e.came.Sub(went))
		}
		last[e.task] = e.went
	}
	return out
}
