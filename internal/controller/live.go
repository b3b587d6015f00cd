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
	// wanted counts the statuses that were to be written, so that an older one is never written after a newer one; inFlight tells
	// that one is being written.
	wanted   int64
	inFlight bool
	// known is the status that this process read when it loaded the task, or wrote since; tried is the one it tried to write last,
	// whose answer may have been lost. Another one is somebody else's.
	known, tried *v1alpha1.AgentTaskStatus
	// writtenAt is when this process wrote the status last.
	writtenAt time.Time
}

func newLive(task *v1alpha1.AgentTask) *live {
	return &live{task: task, known: &task.Status, changed: make(chan struct{})}
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

// begin begins the write of a status, unless a newer one is wanted. The caller holds writing, until done.
func (l *live) begin(number int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight = number == l.wanted
	return l.inFlight
}

func (l *live) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight = false
}

// load gives the newest version, whose status this process then knows.
func (l *live) load() (task *v1alpha1.AgentTask, deleted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = &l.task.Status
	return l.task, l.deleted
}

// wrote notes a status that this process has written, and gives the one that it knew before.
func (l *live) wrote(task *v1alpha1.AgentTask, at time.Time) (was *v1alpha1.AgentTaskStatus) {
	l.see(task)
	l.mu.Lock()
	defer l.mu.Unlock()
	was, l.known, l.tried, l.writtenAt = l.known, &task.Status, nil, at
	return was
}

// try notes that a status is about to be written. False: the newest one is neither known to this process nor tried by it.
func (l *live) try(want *v1alpha1.AgentTaskStatus) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, own := range []*v1alpha1.AgentTaskStatus{l.known, l.tried, want} {
		if own != nil && sameStatus(&l.task.Status, own) {
			l.tried = want
			return true
		}
	}
	return false
}

// older compares resource versions, which are decimal numbers since Kubernetes 1.35 (KEP-5504).
func older(a, b string) bool {
	x, err1 := strconv.ParseUint(a, 10, 64)
	y, err2 := strconv.ParseUint(b, 10, 64)
	return err1 == nil && err2 == nil && x < y
}
