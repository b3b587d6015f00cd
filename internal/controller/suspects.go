package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// suspects admits turns that were under way at several crashes of the operator in a row. One of them may be what kills it. So after
// each crash half as many run at once, until one runs alone: only a task that was alone is given up. Those that finish a turn are
// suspects no more. So a node that reboots twice costs the others some of their pace, and no task.
type suspects struct {
	clock loop.Clock
	wake  func(types.NamespacedName)
	// underWay counts the tasks that may have been under way at the crashes.
	underWay func() int

	mu sync.Mutex
	// level is the number of crashes of those that run, limit how many of them may.
	level, limit int
	running      map[types.NamespacedName]time.Time
	waiting      []suspect
}

// suspect is a turn that waits to be tried once more.
type suspect struct {
	key     types.NamespacedName
	crashes int
}

// suspectTime is how long a turn keeps the suspects of other numbers of crashes waiting. A crash that takes longer to come is blamed
// on nobody else: whoever runs beside it is not alone.
const suspectTime = 2 * time.Minute

// firstSuspects is the number of crashes from which on a turn is a suspect. One crash may be anything.
const firstSuspects = 2

// take admits a turn with so many crashes, or notes that it waits. Those with the most go first. alone tells that no other suspect
// runs meanwhile. Whoever was admitted calls leave in the end.
func (ss *suspects) take(key types.NamespacedName, crashes int) (admitted, alone bool) {
	ss.mu.Lock()
	if _, runs := ss.running[key]; !runs {
		at := slices.IndexFunc(ss.waiting, func(w suspect) bool { return w.key == key })
		if at < 0 {
			ss.waiting = append(ss.waiting, suspect{})
			at = len(ss.waiting) - 1
		}
		ss.waiting[at] = suspect{key, crashes}
	}
	woken := slices.DeleteFunc(ss.admit(), func(k types.NamespacedName) bool { return k == key })
	_, admitted = ss.running[key]
	alone = admitted && len(ss.running) == 1 && ss.limit == 1
	ss.mu.Unlock()
	ss.tell(woken)
	return admitted, alone
}

// leave ends a turn's time or its wait.
func (ss *suspects) leave(key types.NamespacedName) {
	ss.mu.Lock()
	delete(ss.running, key)
	ss.waiting = slices.DeleteFunc(ss.waiting, func(w suspect) bool { return w.key == key })
	woken := ss.admit()
	ss.mu.Unlock()
	ss.tell(woken)
}

// admit admits those who may run now. The caller holds the lock.
func (ss *suspects) admit() (woken []types.NamespacedName) {
	if len(ss.waiting) == 0 {
		return nil
	}
	most, now := 0, ss.clock.Now()
	for _, w := range ss.waiting {
		most = max(most, w.crashes)
	}
	counted := 0
	for _, since := range ss.running {
		if now.Sub(since) < suspectTime {
			counted++
		}
	}
	if counted == 0 {
		ss.level, ss.limit = most, max(1, ss.underWay()>>(most-firstSuspects+1))
	}
	if most > ss.level {
		return nil // these go next, alone among themselves
	}
	ss.waiting = slices.DeleteFunc(ss.waiting, func(w suspect) bool {
		if w.crashes != ss.level || counted >= ss.limit {
			return false
		}
		if ss.running == nil {
			ss.running = map[types.NamespacedName]time.Time{}
		}
		ss.running[w.key] = now
		woken = append(woken, w.key)
		counted++
		return true
	})
	return woken
}

func (ss *suspects) tell(woken []types.NamespacedName) {
	for _, key := range woken {
		ss.wake(key)
	}
}

// underWay counts the tasks that run, by what the cache shows of them.
func (r *TaskReconciler) underWay() (n int) {
	var list v1alpha1.AgentTaskList
	if err := r.Client.List(context.Background(), &list, client.UnsafeDisableDeepCopy); err != nil {
		return 1
	}
	for i := range list.Items {
		if list.Items[i].Status.Phase == v1alpha1.PhaseRunning {
			n++
		}
	}
	return n
}
