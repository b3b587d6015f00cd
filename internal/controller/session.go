package controller

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// session is what this process holds of one task: its journal, folded, and what is not yet written of it. Only the task's
// own Reconcile touches it; sessions.interrupt touches nothing but the running call.
type session struct {
	uid     types.UID
	journal transcript.Journal
	state   *loop.State
	// unread: the task is taken for a new one, so its journal was not read. Until this process has opened it, nothing may be
	// concluded from the state.
	unread bool
	// opened: this process has appended its Opened event, so that a former holder's appends conflict.
	opened bool
	// unsaved are events that happened but are not in the journal yet, for want of an API server. They are paid for.
	unsaved []loop.Event
	// written is the status as it was last written, and the resourceVersion that gave.
	written         *v1alpha1.AgentTaskStatus
	resourceVersion string
	writtenAt       time.Time
	// behindSince is when a turn first left the status as it was, zero when it is current.
	behindSince time.Time
	compiled    *compiled
	// specVersion is the resourceVersion of the newest spec that was seen. An older one in the cache says nothing of answers.
	specVersion string
	// warned is the generation whose unusable answer was warned of.
	warned int64
}

// flush appends the unsaved events.
func (s *session) flush(ctx context.Context) error {
	if err := s.journal.Append(ctx, s.unsaved[0].Seq-1, s.unsaved); err != nil {
		return err
	}
	s.unsaved, s.unread = nil, false
	return nil
}

// base is the newest that is known of the task's object: the cache may not have caught up with our own last write.
func (s *session) base(cached *v1alpha1.AgentTask) *v1alpha1.AgentTask {
	if s == nil || s.written == nil || !older(cached.ResourceVersion, s.resourceVersion) {
		return cached
	}
	out := cached.DeepCopy()
	out.ResourceVersion = s.resourceVersion
	out.Status = *s.written.DeepCopy()
	return out
}

// older compares resource versions, which are decimal numbers since Kubernetes 1.35 (KEP-5504).
func older(a, b string) bool {
	x, err1 := strconv.ParseUint(a, 10, 64)
	y, err2 := strconv.ParseUint(b, 10, 64)
	return err1 == nil && err2 == nil && x < y
}

// read reads a task, from the cache unless that is older than what was seen of the task.
func (r *TaskReconciler) read(ctx context.Context, key types.NamespacedName) (*v1alpha1.AgentTask, error) {
	task := &v1alpha1.AgentTask{}
	if err := r.Client.Get(ctx, key, task); err != nil {
		return nil, err
	}
	if s := r.sessions.get(key, task.UID); s != nil && older(task.ResourceVersion, s.specVersion) {
		return r.readLive(ctx, key)
	}
	return task, nil
}

// readLive reads a task from the API server, also while the operator is about to stop.
func (r *TaskReconciler) readLive(ctx context.Context, key types.NamespacedName) (*v1alpha1.AgentTask, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTimeout)
	defer cancel()
	task := &v1alpha1.AgentTask{}
	return task, r.Live.Get(ctx, key, task)
}

// sessions are the tasks that this process holds.
type sessions struct {
	mu      sync.Mutex
	byName  map[types.NamespacedName]*session
	running map[types.NamespacedName]*running
}

// running is a Reconcile under way.
type running struct {
	// uid is the task's, empty until it was read.
	uid    types.UID
	cancel context.CancelCauseFunc
	// tools: tool calls run, which are not broken off for a limit that was moved. They are told of it by limits.
	tools  bool
	limits chan struct{}
}

func (ss *sessions) get(key types.NamespacedName, uid types.UID) *session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.byName[key]
	if s == nil || s.uid != uid {
		return nil // another task of the same name
	}
	return s
}

func (ss *sessions) put(key types.NamespacedName, s *session) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.byName == nil {
		ss.byName = map[types.NamespacedName]*session{}
	}
	ss.byName[key] = s
}

func (ss *sessions) drop(key types.NamespacedName) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.byName, key)
}

// interrupt ends the running call of a task, if there is one. Of a Reconcile that has just begun it is not known which task
// of that name it has read, so that one is only made to look again.
func (ss *sessions) interrupt(key types.NamespacedName, uid types.UID, cause error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	r := ss.running[key]
	switch {
	case r == nil || r.uid != "" && r.uid != uid:
	case r.uid == "":
		r.cancel(loop.ErrSpecChanged)
	case r.tools && errors.Is(cause, loop.ErrSpecChanged):
		select {
		case r.limits <- struct{}{}:
		default: // it has not looked yet since the last time
		}
	default:
		r.cancel(cause)
	}
}

// hasRead notes which task a Reconcile is about.
func (ss *sessions) hasRead(key types.NamespacedName, uid types.UID) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.running[key].uid = uid
}

// runsTools notes that tool calls run, until the returned function is called.
func (ss *sessions) runsTools(key types.NamespacedName) (over func()) {
	set := func(on bool) {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		ss.running[key].tools = on
	}
	set(true)
	return func() { set(false) }
}

// limits tells, while tools run, that the task's limits were moved.
func (ss *sessions) limits(key types.NamespacedName) <-chan struct{} {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.running[key].limits
}

// run gives the context of a task's calls. It ends by interrupt, or grace after ctx ends: an operator that stops lets its
// calls finish, since they are paid for.
func (ss *sessions) run(ctx context.Context, key types.NamespacedName, grace time.Duration) (context.Context, func()) {
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ss.mu.Lock()
	if ss.running == nil {
		ss.running = map[types.NamespacedName]*running{}
	}
	ss.running[key] = &running{cancel: cancel, limits: make(chan struct{}, 1)}
	ss.mu.Unlock()
	stopGrace := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(loop.ErrShuttingDown)
		case <-stopGrace:
		}
	})
	return call, func() {
		unwatch()
		close(stopGrace)
		ss.mu.Lock()
		delete(ss.running, key)
		ss.mu.Unlock()
		cancel(nil)
	}
}

// open finds the session of a task, or makes it. A task without any status is most likely new: that its journal is empty
// shows when it is opened, and reading it first would cost every task a request.
func (r *TaskReconciler) open(ctx context.Context, task *v1alpha1.AgentTask) (*session, error) {
	if s := r.sessions.get(keyOf(task), task.UID); s != nil {
		return s, nil
	}
	if task.Status.ObservedGeneration > 0 {
		return r.load(ctx, task)
	}
	s := &session{uid: task.UID, journal: r.Journals.Begin(transcript.RefOf(task)), state: &loop.State{}, unread: true}
	r.sessions.put(keyOf(task), s)
	return s, nil
}

// load makes the session of a task from its journal.
func (r *TaskReconciler) load(ctx context.Context, task *v1alpha1.AgentTask) (*session, error) {
	journal, events, err := r.Journals.Load(ctx, transcript.RefOf(task))
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	// A status is written after what it tells of is in the journal.
	if told := task.Status.Transcript; told != nil && int64(len(events)) < deref(told.Events) {
		return nil, fmt.Errorf("%w: of %d events, %d are left", transcript.ErrCorrupt, deref(told.Events), len(events))
	}
	state, err := loop.Fold(events)
	if err != nil {
		return nil, fmt.Errorf("folding the journal: %w", err)
	}
	s := &session{uid: task.UID, journal: journal, state: state}
	r.sessions.put(keyOf(task), s)
	return s, nil
}
