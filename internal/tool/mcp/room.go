package mcp

import (
	"sync"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
)

// listRoom is what one toolset's list takes of the memory for lists, nil for no bound. A list that is read again goes into the room of the one
// before: it must not be refused because that one still stands.
type listRoom struct {
	room      *fairshare.Bytes
	namespace string

	mu          sync.Mutex
	taken, used int64
}

// begin begins a list.
func (l *listRoom) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = 0
}

// add tells whether there is room for n more bytes of the list.
func (l *listRoom) add(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	more := l.used + int64(n) - l.taken
	if l.room == nil || more > 0 && !l.room.Take(l.namespace, more) {
		return l.room == nil
	}
	l.used += int64(n)
	l.taken += max(0, more)
	return true
}

// shrink gives back what is more than n bytes.
func (l *listRoom) shrink(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if back := l.taken - n; l.room != nil && back > 0 {
		l.room.Give(l.namespace, back)
		l.taken = n
	}
}
