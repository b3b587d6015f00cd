package controller

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/resolve"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
)

// recheck is how often a model or a toolset is looked at without a change of its own: Secrets and ConfigMaps are not watched,
// and a tool server may come and go.
const recheck = 30 * time.Second

// lookersAtOnce is how many objects of a kind are looked at at once, and lookTime how long a look waits for a tool server. Its answer
// may take longer: then the look is taken again after lookAgain. So servers that hang hold up the status of no other.
const (
	lookersAtOnce = 16
	lookTime      = time.Second
	lookAgain     = 2 * time.Second
)

var errNotYet = errors.New("the tool server has not answered yet")

// readyCondition is Ready, by what resolving gave: why not, or reason and ok. No call is spent to find out.
func readyCondition(conditions []metav1.Condition, generation int64, err error, reason, ok string, now time.Time) ([]metav1.Condition, error) {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: reason, Message: ok,
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}
	var w *Waiting
	switch {
	case errors.As(err, &w):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, w.Reason, loop.Cut(loop.Visible(w.Message), maxMessageBytes)
	case err != nil:
		return nil, err
	}
	out := append([]metav1.Condition{}, conditions...)
	meta.SetStatusCondition(&out, c)
	return out, nil
}

func setupModelController(mgr ctrl.Manager, models *resolve.Models, slots *callSlots) error {
	gone := func(key client.ObjectKey) {
		models.Forget(key)
		slots.SetModelLimit(key.String(), 0)
	}
	// The queue takes what comes at any time, so no call waits to tell what it has shown.
	calls := source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		models.TellHealth(func(key client.ObjectKey) { q.Add(reconcile.Request{NamespacedName: key}) })
		return nil
	})
	return setupLookedAt(mgr, "agentmodel", gone, calls, func(ctx context.Context, m *v1alpha1.AgentModel) error {
		built, err := models.Build(ctx, m)
		if err == nil {
			slots.SetModelLimit(keyOf(m).String(), built.MaxConcurrent())
		}
		reason := ""
		if err == nil {
			reason, err = models.Ready(m)
		}
		m.Status.ObservedGeneration = m.Generation
		ok := "The model can be called." + models.LoweredInModel(&m.Spec)
		m.Status.Conditions, err = readyCondition(m.Status.Conditions, m.Generation, err, reason, ok, models.Clock.Now())
		return err
	})
}

func setupToolsetController(mgr ctrl.Manager, models *resolve.Models, pool *mcp.Pool) error {
	return setupLookedAt(mgr, "agenttoolset", models.ForgetToolset, nil, func(ctx context.Context, s *v1alpha1.AgentToolset) error {
		id, tools, err := discover(ctx, models, pool, s)
		s.Status.ObservedGeneration = s.Generation
		if err == nil {
			s.Status.Tools, s.Status.ToolCount = discovered(tools), new(int32(len(tools)))
		}
		ok := "The tools were listed."
		if odd := pool.Odd(id); odd != "" && err == nil {
			ok += " The server describes some otherwise than the protocol has it: " + odd + ". What of them cannot be used is left out."
		}
		ok += models.Lowered("spec.callTimeout", s.Spec.CallTimeout, mcp.DefaultCallTimeout)
		s.Status.Conditions, err = readyCondition(s.Status.Conditions, s.Generation, err, resolve.ReasonResolved, ok, models.Clock.Now())
		return err
	})
}

// setupLookedAt registers a controller that looks at each object of a kind when its spec changes and every recheck, and writes
// the status that look gives it, if that is another one, also when more (nil for nothing) names it. Gone is told of those that were
// deleted.
func setupLookedAt[T any, P interface {
	*T
	client.Object
	DeepCopy() P
}](mgr ctrl.Manager, name string, gone func(client.ObjectKey), more source.Source, look func(context.Context, P) error) error {
	c := mgr.GetClient()
	reconciler := reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		object := P(new(T))
		if err := c.Get(ctx, req.NamespacedName, object); err != nil {
			if apierrors.IsNotFound(err) {
				gone(req.NamespacedName)
			}
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		next := object.DeepCopy()
		switch err := look(ctx, next); {
		case errors.Is(err, errNotYet):
			return again(lookAgain), nil
		case err != nil:
			return reconcile.Result{}, err
		}
		if !equality.Semantic.DeepEqual(object, next) {
			if err := c.Status().Patch(ctx, next, client.MergeFrom(object)); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
		}
		return reconcile.Result{RequeueAfter: recheck}, nil
	})
	b := ctrl.NewControllerManagedBy(mgr).Named(name).
		For(P(new(T)), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: lookersAtOnce})
	if more != nil {
		b = b.WatchesRawSource(more)
	}
	return b.Complete(reconciler)
}

func discover(ctx context.Context, models *resolve.Models, pool *mcp.Pool, set *v1alpha1.AgentToolset) (id string, tools []mcp.Tool, err error) {
	id, cfg, err := models.Toolset(ctx, set)
	if err != nil {
		return "", nil, err
	}
	wait, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	tools, err = pool.Tools(wait, id, cfg)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return "", nil, errNotYet
	}
	var away *mcp.UnavailableError
	if errors.As(err, &away) {
		return "", nil, &Waiting{Reason: "ToolsetUnavailable", Message: loop.Cut(away.Error(), 500) + "."}
	}
	return id, tools, err
}

// maxListedTools bounds what a status lists.
const maxListedTools = 512

func discovered(tools []mcp.Tool) []v1alpha1.DiscoveredTool {
	var out []v1alpha1.DiscoveredTool
	seen := map[string]bool{}
	for _, t := range tools {
		name := loop.Visible(t.ServerName)
		if len(out) == maxListedTools || seen[name] || len(name) > 256 {
			continue
		}
		seen[name] = true
		out = append(out, v1alpha1.DiscoveredTool{Name: name, Digest: t.Definition.Digest, RequiresApproval: new(t.Definition.RequireApproval)})
	}
	return out
}
