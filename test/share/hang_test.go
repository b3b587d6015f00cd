//go:build share

package share

import (
	"strings"
	"sync"

	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// hang is a model that takes calls and never answers them, but for its release. Tasks named answer- and timeout- ask first.
type hang struct {
	mu     sync.Mutex
	held   map[string]int // calls by the task's prompt
	picked map[string]bool
	free   chan struct{}
}

func newHang() *hang {
	return &hang{held: map[string]int{}, picked: map[string]bool{}, free: make(chan struct{})}
}

func (h *hang) answer(r *fakechat.Request) fakechat.Reply {
	task := r.Prompt()
	if r.Replies() == 0 && (strings.HasPrefix(task, "answer-") || strings.HasPrefix(task, "timeout-")) {
		return fakechat.Reply{Text: "NEED_INPUT: go on?", In: 100, Out: 10}
	}
	h.count(task, 1)
	defer h.count(task, -1)
	select {
	case <-r.Gone:
	case <-h.free:
	}
	return fakechat.Reply{Text: "TASK_COMPLETE: done", In: 100, Out: 10}
}

func (h *hang) count(task string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[task] += n; h.held[task] == 0 {
		delete(h.held, task)
	}
}

// calls that hang now.
func (h *hang) calls() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.held {
		n += c
	}
	return n
}

// has tells whether a call of the task hangs.
func (h *hang) has(task string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[task] > 0
}

// pick gives the name of a task named hung- whose call hangs, another one each time.
func (h *hang) pick() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for task := range h.held {
		if strings.HasPrefix(task, "hung-") && !h.picked[task] {
			h.picked[task] = true
			return task
		}
	}
	return ""
}

// release answers all calls, those to come too.
func (h *hang) release() { close(h.free) }
