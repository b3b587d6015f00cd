package controller

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

const (
	// damagedPause is how often a journal that cannot be read is looked at again.
	damagedPause = 5 * time.Minute
	// maxPause is when a task that is to be woken is looked at all the same.
	maxPause = 10 * time.Minute
)

// report is the one place that turns an outcome into status, events and what the workqueue does next.
func (r *TaskReconciler) report(ctx context.Context, s *session, out outcome) (reconcile.Result, error) {
	switch {
	case errors.Is(out.err, transcript.ErrConflict):
		return r.lost(s, rivalPause), nil
	case errors.Is(out.err, transcript.ErrGone):
		// With the task, as a rule. If the task is still there, the next look finds that its journal is not.
		r.sessions.drop(s.key)
		return again(rivalPause), nil
	case errors.Is(out.err, transcript.ErrCorrupt), errors.Is(out.err, transcript.ErrNewerVersion):
		log.FromContext(ctx).Error(out.err, "A journal cannot be read")
		return again(damagedPause), r.reportBlocked(ctx, s, unreadable(out.err))
	case errors.Is(out.err, errJournalRefused):
		return reconcile.Result{}, errors.Join(out.err, r.reportBlocked(ctx, s, unwritable()))
	case apierrors.IsNotFound(out.err):
		return reconcile.Result{}, nil // the task was deleted, and its event is on its way
	case out.err != nil:
		return reconcile.Result{}, out.err // an API fault: the workqueue backs off, the session keeps what is unsaved
	case out.plan == nil:
		return again(maxPause), nil // it is woken when its journal can be read
	case out.rival != nil:
		return r.keepOff(ctx, s, out.rival), nil
	}
	if err := r.tell(ctx, s, out); err != nil {
		switch {
		case errors.Is(err, errUnseenInput):
			return again(time.Nanosecond), nil
		case errors.Is(err, errForeignStatus):
			return r.lost(s, time.Second), nil
		case apierrors.IsRequestEntityTooLargeError(err):
			return r.tooLarge(ctx, s), nil
		}
		return reconcile.Result{}, err
	}
	r.warn(s, out.plan)
	return r.next(s, out), nil
}

// lost lets go of a task that another has written to. Whether that one holds it now shows in the journal, at the next look.
func (r *TaskReconciler) lost(s *session, after time.Duration) reconcile.Result {
	if s.kept { // else it may be the last write of a former leader
		r.rivals.lost(s, r.Clock.Now())
	}
	r.sessions.drop(s.key)
	r.statuses.drop(s.key)
	return again(after)
}

// tell writes the status of what the session's journal says, or leaves it for later.
func (r *TaskReconciler) tell(ctx context.Context, s *session, out outcome) error {
	waiting := out.waiting
	if waiting == nil {
		waiting = out.plan.notice
	}
	base, _ := s.live.now()
	want := r.project(s, out.plan, waiting)
	if !urgent(&base.Status, &want) && ctx.Err() == nil {
		r.statuses.later(s.live, want)
		return nil
	}
	noted := base
	if out.plan.settled != nil {
		noted = out.plan.settled
	}
	return r.statuses.now(ctx, s.live, want, deref(noted.Spec.ResumeInput))
}

// project makes the status of what the session's journal says.
func (r *TaskReconciler) project(s *session, p *plan, waiting *Waiting) v1alpha1.AgentTaskStatus {
	base, _ := s.live.now()
	sp := p.Spec()
	generation := base.Generation
	if p.settled != nil {
		generation = p.settled.Generation
	}
	out := Projection{
		State: s.state, Stats: s.journal.Stats(), Waiting: waiting, Active: sp.Active(s.state, r.Clock.Now()), Task: s.key,
		Suspend: sp.Suspend, InputTimeout: sp.InputTimeout, UnusedAnswer: loop.UnusedAnswer(s.state, sp),
		Generation: generation, Now: r.Clock.Now(),
	}
	if p.model != nil {
		out.Model = &p.model.Key
	}
	return ProjectStatus(&base.Status, out)
}

// next says when the task is looked at again.
func (r *TaskReconciler) next(s *session, out outcome) reconcile.Result {
	switch {
	case out.next.Kind == loop.ActionDone:
		return reconcile.Result{} // our own status write is the event that goes on with TTL
	case out.parked():
		return again(maxPause) // it is woken
	case out.waiting != nil && out.waiting.Own:
		return again(out.waiting.After)
	case out.waiting != nil:
		after := soonest(out.waiting.After, recheck) // what it waits for may have come while nobody knew that it does
		sp := out.plan.Spec()
		switch {
		case out.next.Kind == loop.ActionWait && !out.next.Until.IsZero():
			after = soonest(after, max(out.next.Until.Sub(r.Clock.Now()), time.Millisecond))
		case isCall(out.next) && s.state.Started() && sp.MaxDuration > 0:
			after = soonest(after, max(sp.MaxDuration-sp.Active(s.state, r.Clock.Now()), time.Millisecond))
		}
		return again(after)
	case out.next.Kind != loop.ActionWait:
		return again(time.Nanosecond) // the next turn, after everybody else's
	case out.next.Until.IsZero():
		return reconcile.Result{}
	}
	return again(max(out.next.Until.Sub(r.Clock.Now()), time.Millisecond))
}

// again looks at the task after d. A resumed task goes first only once.
func again(d time.Duration) reconcile.Result {
	return reconcile.Result{RequeueAfter: max(d, time.Nanosecond), Priority: new(0)}
}

// soonest is the smaller of two waits, of which 0 means for ever.
func soonest(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// idle tells that nothing is due before a user does something, or a deadline passes: what is folded need not be kept.
func (out *outcome) idle() bool {
	if out.plan == nil || out.err != nil {
		return out.err == nil && out.waiting == nil
	}
	state := out.plan.s.state
	return out.next.Kind == loop.ActionDone ||
		out.next.Kind == loop.ActionWait && out.waiting == nil && (state.Question != nil || state.Suspended || out.next.Until.IsZero())
}

// parked tells that the task is woken when its turn comes.
func (out *outcome) parked() bool {
	switch out.waiting {
	case parked, parkedForModel, parkedForMemory, parkedAsSuspect:
		return true
	}
	return false
}

// waitsForUs tells that the task waits for our own slots and limits, or for its next turn, which is no running time.
func (out *outcome) waitsForUs() bool {
	return out.err == nil && isCall(out.next) && (out.waiting == nil || out.waiting.Own)
}

// tooLarge tells of a task whose object leaves no room for a status. It is looked at again, for it may be made smaller.
func (r *TaskReconciler) tooLarge(ctx context.Context, s *session) reconcile.Result {
	task, _ := s.live.now()
	log.FromContext(ctx).Info("A task's object is too large for its status to be written")
	r.Recorder.Eventf(task, nil, corev1.EventTypeWarning, "ObjectTooLarge", "Report", "%s",
		"The AgentTask is so large that the API server takes no status for it. Make spec.outputSchema or spec.prompt smaller, and create the task anew.")
	return again(damagedPause)
}

// keepOff leaves a task to the other installation that works on it.
func (r *TaskReconciler) keepOff(ctx context.Context, s *session, with *rivalry) reconcile.Result {
	if with.first {
		task, _ := s.live.now()
		log.FromContext(ctx).Info("Another installation of the operator runs this task too, so this one keeps off", "other", with.holder, "this", r.Holder)
		r.Recorder.Eventf(task, nil, corev1.EventTypeWarning, "AnotherOperator", "Run",
			"Another installation of the operator (%s) runs this task too, so this one (%s) keeps off. Let only one of them watch it: see --watch-namespaces and --watch-label-selector.",
			loop.Visible(with.holder), r.Holder)
	}
	r.statuses.drop(s.key)
	r.sessions.drop(s.key) // what the other does is read anew next time
	return again(rivalPause)
}

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
	case v1alpha1.PhasePending, v1alpha1.PhaseRunning, v1alpha1.PhaseSuspended, v1alpha1.PhaseSucceeded:
	}
}

// warn tells a user, once for each change of the spec, what of it is not used.
func (r *TaskReconciler) warn(s *session, p *plan) {
	task, _ := s.live.now()
	if s.warned == task.Generation || !s.state.Started() {
		return
	}
	sp := p.Spec()
	if why := unusedAnswer(s.state, sp); why != "" {
		s.warned = task.Generation
		r.ignored(task, why)
	}
	if in := s.state.Input; in != nil && (in.Prompt != sp.Prompt || in.Instructions != sp.Instructions) {
		s.warned = task.Generation
		r.Recorder.Eventf(task, nil, corev1.EventTypeWarning, "SpecIgnored", "Start", "%s",
			"The prompt or the instructions were changed after the task began, so it goes on with those it began with. Create the task anew to use the others.")
	}
}

// unusedAnswer says why spec.resumeInput answers nothing, empty where it does, or did.
func unusedAnswer(s *loop.State, sp *loop.Spec) string {
	if s.Question != nil {
		return loop.UnusedAnswer(s, sp)
	}
	hash, last := loop.HashInput(sp.ResumeInput), s.LastAnswer
	if hash == "" || last != nil && hash == last.InputHash && (sp.ResumeInputID == "" || sp.ResumeInputID == last.QuestionID) {
		return ""
	}
	return "spec.resumeInput answers no open question and is ignored: answer when status.phase is NeedsInput."
}

func (r *TaskReconciler) ignored(task *v1alpha1.AgentTask, note string) {
	r.Recorder.Eventf(task, nil, corev1.EventTypeWarning, "AnswerIgnored", "Resume", "%s", note)
}
