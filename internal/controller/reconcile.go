package controller

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// +kubebuilder:rbac:groups=agentloop.dev,resources=agenttasks,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=agentloop.dev,resources=agenttasks/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=agentloop.dev,resources=agenttranscripts,verbs=get;create;update
// +kubebuilder:rbac:groups=agentloop.dev,resources=agentmodels;agenttoolsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=agentloop.dev,resources=agentmodels/status;agenttoolsets/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",resources=configmaps;secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// Reconcile runs at most one turn of a task, and projects what its journal then says to status.
func (r *TaskReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	// Registered before the task is read: a change that the read does not show yet is one that will interrupt.
	call, end := r.sessions.run(ctx, req.NamespacedName, r.ShutdownGrace)
	defer end()
	task, err := r.read(ctx, req.NamespacedName)
	if err != nil {
		if apierrors.IsNotFound(err) {
			r.sessions.drop(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r.sessions.hasRead(req.NamespacedName, task.UID)
	if task.Finished() {
		r.sessions.drop(req.NamespacedName)
		return r.afterEnd(ctx, task)
	}
	out := r.turn(ctx, r.Tracer.Context(call, task.UID), task)
	return r.report(ctx, task, out)
}
