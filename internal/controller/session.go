package controller

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/limit"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

const (
	// maxHeldBytes bounds the conversations of tasks that nothing runs for just now but whose folded state is kept. What is beyond it
	// is folded again when its turn comes.
	maxHeldBytes = 64 << 20
	// loadsAtOnce bounds the journals that are read and folded at once. Each takes up to some 12 MiB meanwhile.
	loadsAtOnce = 8
)

// session is what this process holds of one task: its newest version, its journal, folded, and what is not yet written of it.
// Only the task's own Reconcile touches it; everybody else touches nothing but live.
type session struct {
	key  types.NamespacedName
	uid  types.UID
	live *live

	journal transcript.Journal
	// state is nil while the journal is not read.
	state *loop.State
	// opened: the journal's last Opened event is this process's, so a former holder's appends conflict. With kept it is stored.
	opened, kept bool
	// unsaved are events that happened but are not in the journal yet, for want of an API server. They are paid for.
	unsaved []loop.Event
	// compiled are the parts of the spec that take work to read, of one generation.
	compiled *compiled

	// waited is how long the task has waited for our own slots and limits since its last event, without the wait that has gone on
	// since waitingSince (zero for none).
	waited       time.Duration
	waitingSince time.Time
	// rate is where the task waits for its turn in a model's rates, nil for nowhere.
	rate *limit.Limiter
	// answered: the last that happened is a person's answer, so the task goes before those that run on by themselves.
	answered bool
	// toolBytes is what the definitions of its tools take, once they were looked up.
	toolBytes int64
	// failed is why the task is to be ended, once its journal can be read; empty for nothing.
	failed string
	// withheld are the tools that are told of as not offered.
	withheld []mcp.Withheld
	// heldSince is when this process began to hold the task.
	heldSince time.Time
	// warned is the generation whose spec was warned of.
	warned int64

	// busy, held and place are the sessions' own.
	busy  bool
	held  int64
	place *list.Element
}

// flush appends the unsaved events.
func (s *session) flush(ctx context.Context) error {
	if err := s.journal.Append(ctx, s.unsaved[0].Seq-1, s.unsaved); err != nil {
		return err
	}
	s.unsaved, s.kept = nil, s.opened
	return nil
}

// waitedUntil is how long the task has waited for our own slots and limits since its last event.
func (s *session) waitedUntil(now time.Time) time.Duration {
	if s.waitingSince.IsZero() {
		return s.waited
	}
	return s.waited + max(0, now.Sub(s.waitingSince))
}

// sessions are the tasks that this process holds.
type sessions struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]*session
	// resting are the sessions that no Reconcile is busy with and whose state is kept, the one that rests longest at the back.
	resting list.List
	held    int64
	// closing: the operator stops, and lets its tasks go.
	closing bool
}

// of gives the session of a task for one Reconcile, nil when the operator stops and it is being let go. The caller ends it by rest.
func (ss *sessions) of(task *v1alpha1.AgentTask) *session {
	key := keyOf(task)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.byName[key]
	if s != nil && s.uid != task.UID {
		if s.live.see(task); s.live.ended() {
			ss.remove(s)
			s = nil
		}
	}
	if s == nil {
		s = &session{key: key, uid: task.UID, live: newLive(task)}
		if ss.byName == nil {
			ss.byName = map[types.NamespacedName]*session{}
		}
		ss.byName[key] = s
	}
	if s.busy {
		return nil
	}
	s.live.see(task)
	s.busy = true
	ss.unplace(s)
	return s
}

// rest ends a Reconcile. What is idle is let go; of the rest, states are kept within maxHeldBytes. True: the operator stops, so the
// caller lets the task go.
func (ss *sessions) rest(s *session, idle bool) (closing bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closing {
		return ss.byName[s.key] == s // it stays busy, so nothing of it begins any more
	}
	s.busy = false
	switch {
	case ss.byName[s.key] != s:
	case len(s.unsaved) > 0: // it is paid for and nowhere else
	case idle:
		ss.remove(s)
	case s.state != nil:
		s.held = s.state.HeldBytes() + 4096
		s.place = ss.resting.PushFront(s)
		ss.held += s.held
	}
	for ss.held > maxHeldBytes && ss.resting.Len() > 1 {
		last := ss.resting.Back().Value.(*session)
		ss.unplace(last)
		last.forget()
	}
	return false
}

// forget lets the folded journal go. What the task waited for is still known, and that this process opened it.
func (s *session) forget() { s.journal, s.state, s.compiled = nil, nil, nil }

// unplace takes a session out of those that rest. The caller holds the lock.
func (ss *sessions) unplace(s *session) {
	if s.place == nil {
		return
	}
	ss.resting.Remove(s.place)
	ss.held -= s.held
	s.place = nil
}

// remove takes a session out. The caller holds the lock.
func (ss *sessions) remove(s *session) {
	ss.unplace(s)
	delete(ss.byName, s.key)
}

// drop lets a task go. It is called by the task's own Reconcile.
func (ss *sessions) drop(key types.NamespacedName) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s := ss.byName[key]; s != nil {
		ss.remove(s)
		s.leaveRate()
	}
}

// leaveRate gives up the task's place in a model's rates.
func (s *session) leaveRate() {
	if s.rate != nil {
		s.rate.Leave(s.key.String())
		s.rate = nil
	}
}

// claim gives the sessions that rest with their journal opened, as if a Reconcile of each had begun. They are claimed for good, and
// those that are busy get to know by rest.
func (ss *sessions) claim() (out []*session) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.closing = true
	for _, s := range ss.byName {
		if !s.busy && s.opened {
			s.busy = true
			ss.unplace(s)
			out = append(out, s)
		}
	}
	return out
}

// find gives what is known of a task, nil for nothing.
func (ss *sessions) find(o client.Object) *live {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s := ss.byName[keyOf(o)]; s != nil {
		return s.live
	}
	return nil
}

// load reads the task anew and folds its journal. The cache may lag behind what a former holder saw: an answer that is old to the
// journal would look new. Where too many journals are read just now, the task is parked.
func (r *TaskReconciler) load(ctx context.Context, s *session) (out outcome, loaded bool) {
	turn := r.loads.Take(s.key, fairshare.Group{Namespace: s.key.Namespace})
	if turn == nil {
		return outcome{waiting: parked}, false
	}
	defer turn.Release()
	if out.err = r.fold(ctx, s); out.err != nil {
		return out, false
	}
	return out, true
}

func (r *TaskReconciler) fold(ctx context.Context, s *session) error {
	if _, err := r.readLive(ctx, s.live); err != nil {
		return err
	}
	task, deleted := s.live.load()
	if deleted {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("agenttasks").GroupResource(), s.key.Name)
	}
	state := &loop.State{}
	journal, err := r.Journals.Read(ctx, transcript.RefOf(task), func(part []loop.Event) error { return state.Apply(part...) })
	if err != nil {
		return fmt.Errorf("reading the journal: %w", err)
	}
	// A status is written after what it tells of is in the journal.
	if told := task.Status.Transcript; told != nil && state.Seq < deref(told.Events) {
		return fmt.Errorf("%w: of %d events, %d are left", transcript.ErrCorrupt, deref(told.Events), state.Seq)
	}
	if s.heldSince.IsZero() {
		s.heldSince = r.Clock.Now()
	}
	s.journal, s.state, s.opened = journal, state, state.Holder == r.Holder && !state.Released
	s.kept = s.opened
	return nil
}

// readLive reads a task from the API server, also while the operator is about to stop, and takes the version over if it is the newest.
func (r *TaskReconciler) readLive(ctx context.Context, l *live) (*v1alpha1.AgentTask, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AppendTimeout)
	defer cancel()
	known, _ := l.now()
	task := &v1alpha1.AgentTask{}
	if err := r.Live.Get(ctx, keyOf(known), task); err != nil {
		return nil, err
	}
	l.see(task)
	return task, nil
}
