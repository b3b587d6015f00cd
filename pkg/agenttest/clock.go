package agenttest

import (
	"sync"
	"time"
)

// Clock is a clock that stands until it is moved. Operators that go by it look at all their tasks again when it is. What it does not
// move are the timeouts of calls that are under way, the time of Kubernetes itself, and how often the operator looks at AgentModels
// and AgentToolsets.
type Clock struct {
	mu    sync.Mutex
	now   time.Time
	moved []func()
}

// NewClock makes a clock that shows a time.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now is the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock on.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	moved := c.moved
	c.mu.Unlock()
	for _, f := range moved {
		f()
	}
}

// onMove has f called after each move.
func (c *Clock) onMove(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = append(c.moved, f)
}
