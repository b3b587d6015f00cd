package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop-dev/agenttask-operator/internal/resolve"
)

// rivals are the tasks that another operator took over while this process runs. After a failover the process that lost its lease
// exits at once; one that lives on shares its tasks with another installation, and must not take them back while that one works.
type rivals struct {
	mu     sync.Mutex
	byTask map[types.NamespacedName]rival
}

// rival is what was last seen of the other operator.
type rival struct {
	// uid is the task's: one that is created anew has none.
	uid    types.UID
	holder string
	seq    int64
	since  time.Time
}

// rivalPatience is how long another operator may be silent before its task is taken back: as long as a model call takes at most
// where nothing else is set.
const rivalPatience = resolve.DefaultRequestTimeout + time.Minute

// rivalPause is when a task that another operator took over is looked at again.
const rivalPause = 15 * time.Second

// lost notes that another took the task over.
func (rs *rivals) lost(s *session, now time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byTask == nil {
		rs.byTask = map[types.NamespacedName]rival{}
	}
	rs.byTask[s.key] = rival{uid: s.uid, since: now}
}

// met tells whether another operator took the task over while this process runs.
func (rs *rivals) met(s *session) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	seen, ok := rs.byTask[s.key]
	return ok && seen.uid == s.uid
}

// rivalry is what this process knows of another that runs a task too.
type rivalry struct {
	holder string
	// first: it is noticed for the first time.
	first bool
}

// at tells who else works on a task, nil for nobody: its journal has grown since the last look, or what is done may take this long.
func (rs *rivals) at(s *session, now time.Time) *rivalry {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	holder, seq := s.state.Holder, s.state.Seq
	seen, ok := rs.byTask[s.key]
	switch {
	case !ok || seen.uid != s.uid:
		return nil
	case seen.holder != holder || seen.seq != seq:
		rs.byTask[s.key] = rival{uid: s.uid, holder: holder, seq: seq, since: now}
	case now.Sub(seen.since) >= rivalPatience:
		return nil
	}
	return &rivalry{holder: holder, first: seen.holder != holder}
}

// forget ends the watch over a task.
func (rs *rivals) forget(key types.NamespacedName) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.byTask, key)
}
