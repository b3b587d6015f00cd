package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// waitQueue holds the tasks that wait for a slot of a model, each once.
type waitQueue struct {
	mu    sync.Mutex
	order []types.NamespacedName
	in    map[types.NamespacedName]bool
}

func (q *waitQueue) add(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.in[key] {
		return
	}
	if q.in == nil {
		q.in = map[types.NamespacedName]bool{}
	}
	q.in[key] = true
	q.order = append(q.order, key)
}

// wakeNext tells the task that has waited longest, since one slot is free.
func (q *waitQueue) wakeNext(wake func(types.NamespacedName)) {
	q.mu.Lock()
	if len(q.order) == 0 {
		q.mu.Unlock()
		return
	}
	key := q.order[0]
	q.order = q.order[1:]
	delete(q.in, key)
	q.mu.Unlock()
	wake(key)
}
