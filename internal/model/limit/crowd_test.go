package limit_test

import (
	"fmt"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/model/limit"
)

// crowd are tasks that ask a limiter, sleep as they are told, and ask again.
type crowd struct {
	clock *clock
	l     *limit.Limiter
	// wake is when each of them looks again, asks how often each asked, served the order in which they got tickets.
	wake   map[string]time.Time
	asks   map[string]int
	served []string
}

func newCrowd(limits limit.Limits) *crowd {
	c := &crowd{clock: newClock(), wake: map[string]time.Time{}, asks: map[string]int{}}
	c.l = limit.New(limits, c.clock.Now)
	c.l.OnTurn = func(key string) { c.wake[key] = c.clock.now }
	return c
}

// ask asks for one, and returns the ticket if there is one.
func (c *crowd) ask(key string, tokens int64) *limit.Ticket {
	delete(c.wake, key)
	c.asks[key]++
	ticket, wait := c.l.Take(key, tokens)
	if wait != nil {
		c.wake[key] = c.clock.now.Add(wait.After)
		return nil
	}
	c.served = append(c.served, key)
	return ticket
}

// come lets n of them ask, one after the other.
func (c *crowd) come(n int, tokens int64) {
	for i := range n {
		c.ask(name(i), tokens)
	}
}

func name(i int) string { return fmt.Sprintf("task-%04d", i) }

// next moves on to the next one that wakes. It is false when all are served.
func (c *crowd) next() (key string, ok bool) {
	for k, at := range c.wake {
		if key == "" || at.Before(c.wake[key]) || at.Equal(c.wake[key]) && k < key {
			key = k
		}
	}
	if key == "" {
		return "", false
	}
	if at := c.wake[key]; at.After(c.clock.now) {
		c.clock.now = at
	}
	return key, true
}

// serve lets them come when they wake, until all are served.
func (c *crowd) serve(tokens int64) {
	for key, ok := c.next(); ok; key, ok = c.next() {
		c.ask(key, tokens)
	}
}
