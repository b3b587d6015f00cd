package controller

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
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
	cached := &v1alpha1.AgentTask{}
	if err := r.Client.Get(ctx, req.NamespacedName, cached); err != nil {
		if apierrors.IsNotFound(err) {
			r.gone(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if cached.Finished() {
		r.gone(req.NamespacedName)
		return r.afterEnd(ctx, cached)
	}
	s, out := r.sessions.of(cached), outcome{}
	if s == nil {
		return reconcile.Result{}, nil
	}
	defer func() {
		if !out.parked() {
			r.leave(s.key)
		}
		if r.sessions.rest(s, out.idle()) {
			r.letGo(ctx, s)
		}
	}()
	switch task, deleted := s.live.now(); {
	case deleted:
		r.sessions.drop(s.key)
		return again(rivalPause), nil // should the cache not tell sooner
	case task.Finished():
		return reconcile.Result{}, nil // the cache will tell
	}
	if out = r.turn(ctx, s); out.plan != nil {
		s.waits(out.waitsForUs(), r.Clock.Now())
	}
	return r.report(ctx, s, out)
}

// gone lets go of a task that is not there any more.
func (r *TaskReconciler) gone(key types.NamespacedName) {
	r.sessions.drop(key)
	r.rivals.forget(key)
	r.leave(key)
	r.statuses.drop(key)
}
