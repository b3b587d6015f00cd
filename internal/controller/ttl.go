package controller

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// afterEnd does what is left of a finished task: its observedGeneration follows the spec, and its TTL deletes it.
func (r *TaskReconciler) afterEnd(ctx context.Context, task *v1alpha1.AgentTask) (reconcile.Result, error) {
	if task.Status.ObservedGeneration != task.Generation {
		next := task.DeepCopy()
		next.Status.ObservedGeneration = task.Generation
		for i := range next.Status.Conditions {
			next.Status.Conditions[i].ObservedGeneration = task.Generation
		}
		err := r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(task, client.MergeFromWithOptimisticLock{}))
		if err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		task = next
	}
	ttl, end := task.Spec.TTLSecondsAfterFinished, task.Status.CompletionTime
	if ttl == nil || end == nil {
		return reconcile.Result{}, nil
	}
	if left := end.Add(time.Duration(*ttl) * time.Second).Sub(r.Clock.Now()); left > 0 {
		return again(left), nil
	}
	uid, version := task.UID, task.ResourceVersion
	err := r.Client.Delete(ctx, task, client.Preconditions{UID: &uid, ResourceVersion: &version},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	return reconcile.Result{}, client.IgnoreNotFound(err)
}
