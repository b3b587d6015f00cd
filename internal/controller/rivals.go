package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// rivals are the tasks that another operator took over while this process runs. After a failover the process that lost its lease
// exits at once; one that lives on shares its tasks with another installation, and must not take them back while that one works.
type rivals struct {
	mu     sync.Mutex
	byTask map[types.NamespacedName]rival
}

// rival is what was last seen of the other operator.
type rival struct {
	holder string
	seq    int64
	since  time.Time
}

// rivalPatience is how long another operator may be silent before its task is taken back: as long as a model call takes at most
// where nothing else is set.
const rivalPatience = defaultRequestTimeout + time.Minute

// rivalPause is when a task that another operator took over is looked at again.
const rivalPause = 15 * time.Second

// lost notes that another took the task over.
func (rs *rivals) lost(key types.NamespacedName, now time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byTask == nil {
		rs.byTask = map[types.NamespacedName]rival{}
	}
	rs.byTask[key] = rival{since: now}
}

// met tells whether another operator took the task over while this process runs.
func (rs *rivals) met(key types.NamespacedName) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	_, ok := rs.byTask[key]
	return ok
}

// rivalry is what this process knows of another that runs a task too.
type rivalry struct {
	holder string
	// first: it is noticed for the first time.
	first bool
}

// at tells who else works on a task, nil for nobody: its journal has grown since the last look, or what is done may take this long.
func (rs *rivals) at(key types.NamespacedName, holder string, seq int64, patience time.Duration, now time.Time) *rivalry {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	seen, ok := rs.byTask[key]
	switch {
	case !ok:
		return nil
	case seen.holder != holder || seen.seq != seq:
		rs.byTask[key] = rival{holder: holder, seq: seq, since: now}
	case now.Sub(seen.since) >= patience:
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
