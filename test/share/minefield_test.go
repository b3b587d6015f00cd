//go:build share

package share

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// minefield are the bombs of one round that the API server took.
type minefield struct {
	*rig
	mu      sync.Mutex
	mines   map[string]*mine
	refused int
}

// mine is a planted bomb. Its owner ends it in one of the ways in which a task can be ended, unless it ends by itself.
type mine struct {
	way string
	// began is when it was first seen Running, or when it was created.
	began, ended time.Time
	running      bool
	// why is the reason of its end.
	why string
}

const (
	byCancel   = "cancel"
	byDuration = "maxDuration"
	byDeletion = "deletion"
	patience   = 3 * time.Second // the maxDuration of those that have one
)

func (r *rig) plant(round int, all []bomb) *minefield {
	r.Helper()
	f := &minefield{rig: r, mines: map[string]*mine{}}
	ctx, stop := context.WithCancel(r.ctx)
	r.Cleanup(stop)
	go func() { _, _ = r.view.Await(ctx, 1, f.note) }() // it notes all, and matches none
	for i, b := range all {
		m := &mine{way: []string{byCancel, byDuration, byDeletion}[i%3], began: time.Now()}
		t := b.task(fmt.Sprintf("bomb-%d-%s", round, b.name))
		if m.way == byDuration {
			lasting(patience)(t)
		}
		f.mu.Lock()
		f.mines[t.Name] = m
		f.mu.Unlock()
		if err := r.cluster.Client.Create(r.ctx, t); apierrors.IsInvalid(err) {
			f.refused++
			f.mu.Lock()
			delete(f.mines, t.Name)
			f.mu.Unlock()
		} else if err != nil {
			r.Fatal(b.name, err)
		}
	}
	return f
}

// note keeps when each bomb began and ended, and how.
func (f *minefield) note(t sight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.mines[t.Name]
	if m == nil {
		return false
	}
	if !m.running && t.In(v1alpha1.PhaseRunning) {
		m.running, m.began = true, time.Now()
	}
	if m.ended.IsZero() && (t.Gone || t.Finished()) {
		m.ended, m.why = time.Now(), "Gone"
		if c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionFinished); !t.Gone && c != nil {
			m.why = c.Reason
		}
	}
	return false
}

// clear has every bomb's owner end it, and says what came of it.
func (f *minefield) clear() {
	f.Helper()
	if f.ctx.Err() != nil {
		return // no operator is left that could obey
	}
	worst, causes := map[string]time.Duration{}, map[string]int{}
	for name, m := range f.mines {
		took, err := f.end(name, m)
		if err != nil {
			f.Errorf("%s did not obey %s: %v", name, m.way, err)
		}
		worst[m.way] = max(worst[m.way], took)
		f.mu.Lock()
		causes[m.why]++
		f.mu.Unlock()
	}
	f.Logf("bombs: %d refused at admission, ends of the others %v; worst of cancel %s, beyond maxDuration %s, deletion %s",
		f.refused, causes, ms(worst[byCancel]), ms(worst[byDuration]), ms(worst[byDeletion]))
	for _, crash := range []string{"TurnCrashed", "InternalError"} {
		if causes[crash] > 0 {
			f.Errorf("%d bombs ended as %s", causes[crash], crash)
		}
	}
}

// end waits for a bomb's end as its owner wants it, and tells how late that was. One that ended by itself was not.
func (f *minefield) end(name string, m *mine) (late time.Duration, err error) {
	bound := within()
	due := time.Now()
	switch m.way {
	case byCancel:
		f.patch(name, `{"cancel":true}`)
	case byDuration:
		f.mu.Lock()
		due = m.began.Add(patience)
		f.mu.Unlock()
	case byDeletion:
		f.must(client.IgnoreNotFound(f.cluster.Client.Delete(f.ctx, task(name))))
	}
	ended := func(context.Context) (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		late = m.ended.Sub(due)
		return !m.ended.IsZero(), nil
	}
	if err := wait.PollUntilContextTimeout(f.ctx, 5*time.Millisecond, max(0, time.Until(due)+bound), true, ended); err != nil {
		return bound, fmt.Errorf("it still had not, %s after it was due", ms(time.Since(due)))
	}
	if late > bound {
		return late, fmt.Errorf("it took %s", ms(late))
	}
	return max(0, late), nil
}
