package controller

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

const (
	// fencedPause keeps a process that lost a task from taking it back at once; if it lost the lease, it exits within this time.
	fencedPause = 15 * time.Second
	// damagedPause is how often a journal that cannot be read is looked at again.
	damagedPause = 5 * time.Minute
	// maxPause bounds every wait, so that a missed event costs minutes, not for ever.
	maxPause = 10 * time.Minute
)

// report is the one place that turns an outcome into status, events and what the workqueue does next.
func (r *TaskReconciler) report(ctx context.Context, task *v1alpha1.AgentTask, out outcome) (reconcile.Result, error) {
	switch {
	case out.interrupted:
		return again(time.Nanosecond), nil
	case errors.Is(out.err, transcript.ErrConflict), errors.Is(out.err, loop.ErrLostLease):
		log.FromContext(ctx).Info("Another operator took this task over; what this one holds of it is dropped")
		r.sessions.drop(keyOf(task))
		return again(fencedPause), nil
	case errors.Is(out.err, transcript.ErrGone):
		// With the task, as a rule. If the task is still there, the next look finds that its journal is not.
		r.sessions.drop(keyOf(task))
		return again(fencedPause), nil
	case errors.Is(out.err, transcript.ErrCorrupt), errors.Is(out.err, transcript.ErrNewerVersion):
		log.FromContext(ctx).Error(out.err, "A journal cannot be read")
		return again(damagedPause), r.reportBlocked(ctx, task, unreadable(out.err))
	case errors.Is(out.err, errJournalRefused):
		return reconcile.Result{}, errors.Join(out.err, r.reportBlocked(ctx, task, unwritable()))
	case out.err != nil:
		return reconcile.Result{}, out.err // an API fault: the workqueue backs off, the session keeps what is unsaved
	}
	s, p := out.session, out.plan
	waiting := out.waiting
	if waiting == nil {
		waiting = p.notice
	}
	base := s.base(task)
	want := r.project(base, s, p, waiting)
	due, err := r.writeStatus(ctx, base, s, want, waiting == nil && isCall(out.next))
	if err != nil {
		return reconcile.Result{}, err
	}
	r.warnOfUnusedAnswer(task, s)
	return r.next(out, due), nil
}

// project makes the status of what the session's journal says.
func (r *TaskReconciler) project(base *v1alpha1.AgentTask, s *session, p *plan, waiting *Waiting) v1alpha1.AgentTaskStatus {
	return ProjectStatus(&base.Status, Projection{
		State: s.state, Stats: s.journal.Stats(), Model: p.model, Pricing: p.pricing, JudgePricing: p.judgePricing, Waiting: waiting,
		Suspend: p.spec.Suspend, InputTimeout: p.spec.InputTimeout, Generation: base.Generation, Now: r.Clock.Now(),
	})
}

// next says when the task is looked at again.
func (r *TaskReconciler) next(out outcome, statusDue time.Duration) reconcile.Result {
	switch {
	case out.next.Kind == loop.ActionDone:
		return reconcile.Result{} // our own status write is the event that goes on with TTL
	case out.waiting != nil:
		after := soonest(out.waiting.After, recheck) // what it waits for may have come while nobody knew that it does
		switch state := out.session.state; {
		case out.next.Kind == loop.ActionWait && !out.next.Until.IsZero():
			after = soonest(after, max(out.next.Until.Sub(r.Clock.Now()), time.Millisecond))
		case isCall(out.next) && state.Started() && out.plan.spec.MaxDuration > 0:
			after = soonest(after, max(out.plan.spec.MaxDuration-state.Active(r.Clock.Now()), time.Millisecond))
		}
		return again(soonest(after, statusDue))
	case out.next.Kind != loop.ActionWait:
		return again(time.Nanosecond) // the next turn, after everybody else's
	case out.next.Until.IsZero():
		return again(statusDue)
	}
	return again(soonest(max(out.next.Until.Sub(r.Clock.Now()), time.Millisecond), statusDue))
}

// again looks at the task after d, or at the next change for 0. A resumed task goes first only once.
func again(d time.Duration) reconcile.Result {
	if d <= 0 {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: min(d, maxPause), Priority: ptr(0)}
}

// soonest is the smaller of two waits, of which 0 means for ever.
func soonest(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// writeStatus writes a status if there is anything to write and it is due; otherwise it says when it will be. What only tells
// of progress of a task that goes on is left to the next call (writeIfSlow), unless calls have been too fast for that.
func (r *TaskReconciler) writeStatus(ctx context.Context, base *v1alpha1.AgentTask, s *session, want v1alpha1.AgentTaskStatus, goesOn bool) (time.Duration, error) {
	if !changed(&base.Status, &want) {
		return 0, nil
	}
	if !urgent(&base.Status, &want) {
		now := r.Clock.Now()
		if s.behindSince.IsZero() {
			s.behindSince = now
		}
		due := s.writtenAt.Add(r.StatusInterval)
		if goesOn {
			due = s.behindSince.Add(progressLag * r.StatusInterval)
		}
		if now.Before(due) {
			return due.Sub(now), nil
		}
		if !r.progress.allow() {
			return max(r.StatusInterval, progressPause), nil
		}
	}
	return 0, r.putStatus(ctx, base, s, want)
}

// putStatus writes a status, whole and not as a patch, which costs an API server half as much again. The write is kept from
// the Reconcile's own end, and a conflict is answered by reading anew: what ended stays ended.
func (r *TaskReconciler) putStatus(ctx context.Context, base *v1alpha1.AgentTask, s *session, want v1alpha1.AgentTaskStatus) error {
	was := base.Status.DeepCopy()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTimeout)
	defer cancel()
	for range 5 {
		next := base.DeepCopy()
		next.Status = want
		err := r.Client.Status().Update(ctx, next)
		if err == nil {
			s.written, s.resourceVersion, s.writtenAt, s.behindSince = &want, next.ResourceVersion, r.Clock.Now(), time.Time{}
			r.Metrics.Observe(was, &want)
			r.announce(next, was)
			if next.Finished() {
				r.Tracer.End(next)
			}
			return nil
		}
		if !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
		live := &v1alpha1.AgentTask{}
		if err := r.Live.Get(ctx, keyOf(base), live); err != nil {
			return client.IgnoreNotFound(err)
		}
		if live.UID != base.UID || live.Finished() {
			return nil
		}
		if !equality.Semantic.DeepEqual(live.Status, base.Status) && !equality.Semantic.DeepEqual(live.Status, want) {
			return errForeignStatus
		}
		base = live
	}
	return errBusyStatus
}

// These go to the workqueue, which tries again. A status that somebody else has written may be that of the task's new holder,
// so it is not written over by who has not seen it.
var (
	errBusyStatus    = errors.New("the task was changed by others all the time")
	errForeignStatus = errors.New("the status was written by another")
)

// announce emits the events of a status that was written.
func (r *TaskReconciler) announce(task *v1alpha1.AgentTask, was *v1alpha1.AgentTaskStatus) {
	if !urgent(was, &task.Status) {
		return
	}
	st := &task.Status
	switch st.Phase {
	case v1alpha1.PhaseNeedsInput:
		r.Recorder.Eventf(task, nil, corev1.EventTypeNormal, string(v1alpha1.ExitNeedInput), "Ask", "%s", st.Message)
	case v1alpha1.PhaseFailed:
		r.Recorder.Eventf(task, nil, corev1.EventTypeWarning, string(st.ExitReason), "Finish", "%s", loop.Cut(st.Message, 1000))
	case v1alpha1.PhaseCancelled:
		r.Recorder.Eventf(task, nil, corev1.EventTypeNormal, string(st.ExitReason), "Finish", "%s", st.Message)
	}
}

// warnOfUnusedAnswer tells a user, once for each change, that an answer answers nothing.
func (r *TaskReconciler) warnOfUnusedAnswer(task *v1alpha1.AgentTask, s *session) {
	hash := loop.HashInput(deref(task.Spec.ResumeInput))
	if hash == "" || s.warned == task.Generation || !s.state.Started() {
		return
	}
	last, open := s.state.LastAnswer, s.state.Question
	id := task.Spec.ResumeInputID
	used := last != nil && hash == last.InputHash && (id == "" || id == last.QuestionID)
	if used || open != nil && (id == "" || id == open.ID) {
		return
	}
	s.warned = task.Generation
	note := "spec.resumeInput answers no open question and is ignored: answer when status.phase is NeedsInput."
	if id != "" {
		note = "spec.resumeInputID names no open question, so spec.resumeInput is ignored: use the id in status.inputRequest."
	}
	r.ignored(task, note)
}

func (r *TaskReconciler) ignored(task *v1alpha1.AgentTask, note string) {
	r.Recorder.Eventf(task, nil, corev1.EventTypeWarning, "AnswerIgnored", "Resume", "%s", note)
}
