package controller

import (
	"strconv"
	"sync"
	"time"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// live is the newest version of one task that this process has seen: from the watch, from a read of its own, or as the answer
// to a write. What is decided about a task is decided by one version of it, spec and status together.
type live struct {
	mu      sync.Mutex
	task    *v1alpha1.AgentTask
	deleted bool
	changed chan struct{}

	// writing is held while the status is written: a task has one write under way at the most.
	writing sync.Mutex
	// wanted counts the statuses that were to be written, so that an older one is never written after a newer one.
	wanted int64
	// writtenAt is when this process wrote the status last.
	writtenAt time.Time
}

func newLive(task *v1alpha1.AgentTask) *live {
	return &live{task: task, changed: make(chan struct{})}
}

// see takes a version over, unless a newer one is known. Another task of the same name says that this one is gone.
func (l *live) see(task *v1alpha1.AgentTask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !older(l.task.ResourceVersion, task.ResourceVersion):
		return
	case l.task.UID != task.UID:
		l.deleted = true
	default:
		l.task = task
	}
	l.tell()
}

// end notes that the task was deleted.
func (l *live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleted = true
	l.tell()
}

// ended tells whether the task is known to be deleted.
func (l *live) ended() bool {
	_, deleted := l.now()
	return deleted
}

// tell wakes those that watch. The caller holds the lock.
func (l *live) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// now gives the newest version, which nobody changes, and whether the task is gone.
func (l *live) now() (task *v1alpha1.AgentTask, deleted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.task, l.deleted
}

// watch gives a channel that is closed at the next change.
func (l *live) watch() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// older compares resource versions, which are decimal numbers since Kubernetes 1.35 (KEP-5504).
func older(a, b string) bool {
	x, err1 := strconv.ParseUint(a, 10, 64)
	y, err2 := strconv.ParseUint(b, 10, 64)
	return err1 == nil && err2 == nil && x < y
}
