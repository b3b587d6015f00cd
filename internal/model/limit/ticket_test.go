package limit_test

import (
	"context"
	"sync"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/limit"
)

func panics() loop.Model {
	return loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) { panic("x") })
}

// left is how many tickets of one token a limiter still gives at once.
func left(l *limit.Limiter) int {
	for n := 0; ; n++ {
		if _, wait := l.Take("probe", 1); wait != nil {
			return n
		}
	}
}

func TestATicketIsBookedByWhatBecomesOfIt(t *testing.T) {
	use := func(m loop.Model) func(*limit.Ticket) {
		return func(ticket *limit.Ticket) {
			defer func() { _ = recover() }()
			_, _ = ticket.Wrap(m).Generate(context.Background(), &loop.Request{}, func(int) {})
		}
	}
	one := answers(loop.Usage{TotalTokens: 1})
	both := func(a, b func(*limit.Ticket)) func(*limit.Ticket) {
		return func(ticket *limit.Ticket) { a(ticket); b(ticket) }
	}
	for reason, tc := range map[string]struct {
		do func(*limit.Ticket)
		// requests and tokens are what is gone in the end, of a ticket of 50 tokens.
		requests, tokens int
	}{
		"kept":                                   {func(*limit.Ticket) {}, 1, 50},
		"used":                                   {use(one), 1, 1},
		"used by a call that panics":             {use(panics()), 1, 50},
		"cancelled":                              {(*limit.Ticket).Cancel, 0, 0},
		"cancelled twice":                        {both((*limit.Ticket).Cancel, (*limit.Ticket).Cancel), 0, 0},
		"cancelled after use":                    {both(use(one), (*limit.Ticket).Cancel), 1, 1},
		"cancelled after a panic":                {both(use(panics()), (*limit.Ticket).Cancel), 1, 50},
		"used twice, which is two calls":         {both(use(one), use(one)), 2, 2},
		"used after all, though it was given up": {both((*limit.Ticket).Cancel, use(one)), 1, 1},
	} {
		t.Run(reason, func(t *testing.T) {
			for what, c := range map[string]struct {
				limits limit.Limits
				gone   int
			}{
				"requests": {limit.Limits{RequestsPerMinute: 600}, tc.requests},
				"tokens":   {limit.Limits{TokensPerMinute: 600}, tc.tokens},
			} {
				l := limit.New(c.limits, newClock().Now)
				ticket, wait := l.Take("task", 50)
				if wait != nil {
					t.Fatal(wait)
				}
				tc.do(ticket)
				if gone := 100 - left(l); gone != c.gone {
					t.Errorf("%d %s are gone, want %d", gone, what, c.gone)
				}
			}
		})
	}
}

// An absurd guess books an hour's worth at most, and gives no more than that back.
func TestARefundIsNoMoreThanWasBooked(t *testing.T) {
	l := limit.New(limit.Limits{TokensPerMinute: 600}, newClock().Now)
	debt, _ := l.Take("debt", 90)
	absurd, _ := l.Take("absurd", 1<<60)
	absurd.Cancel()
	if got := left(l); got != 10 {
		t.Errorf("%d tokens are left, want the 10 that %v left", got, debt)
	}
}

func TestATicketMayBeCancelledWhileItsCallBegins(t *testing.T) {
	l := limit.New(limit.Limits{RequestsPerMinute: 6000}, newClock().Now)
	l.OnTurn = func(string) {}
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			ticket, wait := l.Take(name(n), 1)
			if wait != nil {
				t.Errorf("%+v", wait)
				return
			}
			wg.Go(ticket.Cancel)
			_, _ = ticket.Wrap(answers(loop.Usage{})).Generate(context.Background(), &loop.Request{}, func(int) {})
			l.Leave(name(n))
			l.SetLimits(limit.Limits{RequestsPerMinute: 6000})
		})
	}
	wg.Wait()
	if got := left(l); got != 900 {
		t.Errorf("%d requests are left, want 900", got)
	}
}
