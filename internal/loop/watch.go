package loop

import (
	"context"
	"time"
)

// watch keeps a running call, of a model or of tools, within what the spec says: spec.cancel ends it, and so does the end of
// maxDuration. Other changes wait until it has ended.
type watch struct {
	clock Clock
	s     *State
	specs Specs
	// sp is the spec that the call was made by.
	sp *Spec
	// ctx is the call's.
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   chan struct{}
}

func (e *Engine) watch(ctx context.Context, s *State, specs Specs, sp *Spec) *watch {
	w := &watch{clock: e.Clock, s: s, specs: specs, sp: sp, over: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	changed, due := w.look()
	go func() {
		defer close(w.over)
		for {
			select {
			case <-w.ctx.Done():
				return
			case <-changed:
			case <-due:
			}
			changed, due = w.look()
		}
	}()
	return w
}

// look ends the call if it is time to, and tells when to look again.
func (w *watch) look() (changed <-chan struct{}, due <-chan time.Time) {
	changed = w.specs.Changed() // before the spec, so that no change is missed
	sp := w.specs.Spec()
	left := sp.MaxDuration - w.sp.Active(w.s, w.clock.Now())
	switch {
	case sp.Cancel:
		w.cancel(ErrCancelled)
	case sp.MaxDuration > 0 && left <= 0:
		w.cancel(errTimeBudget)
	case sp.MaxDuration > 0:
		due = time.After(left)
	}
	return changed, due
}

// stop ends the watch, and the call's context with it.
func (w *watch) stop() {
	w.cancel(nil)
	<-w.over
}
