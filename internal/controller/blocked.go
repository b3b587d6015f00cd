package controller

import (
	"cmp"
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// errJournalRefused: the API server does not take an append, and would not take it a moment later.
var errJournalRefused = errors.New("the journal is not accepted")

// notAccepted tells an append that somebody has to make room or give leave for from one that failed.
func notAccepted(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

func unwritable() *Waiting {
	return &Waiting{Reason: "JournalUnwritable", Stuck: true, Message: "The API server refuses the task's AgentTranscripts: look at quotas, admission policies " +
		"and the operator's RBAC, and at the operator's log. The task goes on once they are accepted."}
}

func unreadable(err error) *Waiting {
	if errors.Is(err, transcript.ErrNewerVersion) {
		return &Waiting{Reason: "JournalUnreadable", Message: "The task's AgentTranscripts were written by a newer operator: run that one."}
	}
	return &Waiting{Reason: "JournalUnreadable", Stuck: true, Message: "The task's AgentTranscripts cannot be read: they are damaged. Restore them, or create the task anew."}
}

// reportBlocked tells of a task whose journal cannot be gone on with. Its status stays as it is but for that, unless it is to
// be cancelled, which needs no journal.
func (r *TaskReconciler) reportBlocked(ctx context.Context, s *session, w *Waiting) error {
	task, err := r.readLive(ctx, s.live) // whole: what is held lacks the output
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	_, deleted := s.live.now()
	want := task.Status.DeepCopy()
	want.Message, want.ObservedGeneration = w.Message, task.Generation
	want.Phase = cmp.Or(want.Phase, v1alpha1.PhasePending)
	p := Projection{State: &loop.State{}, Waiting: w, Now: r.Clock.Now()}
	if sp := plainSpec(task, deleted); sp.Cancel && w.Stuck {
		p.State.End = &loop.Finished{Reason: loop.ExitCancelled}
		want.Phase, want.ExitReason, want.InputRequest = v1alpha1.PhaseCancelled, v1alpha1.ExitCancelled, nil
		want.Message = sp.CancelMessage() + " The AgentTranscripts do not tell of it: " + w.Message
		want.CompletionTime = new(metav1.NewTime(p.Now).Rfc3339Copy())
	}
	show(want)
	want.Conditions = conditions(*want, p)
	if !changed(&task.Status, want) {
		return nil
	}
	return r.statuses.now(ctx, s.live, *want, deref(task.Spec.ResumeInput))
}
