package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

const (
	// askAgain is how often what is missing is asked for again.
	askAgain = time.Second
	// askTimeout bounds asking once for all that is missing.
	askTimeout = 10 * time.Second
)

// readiness asks, from the start on, for what the operator cannot work without, until all of it is there. Each need is a check
// of /readyz: its answer names those that are missing, and /readyz/NAME says why.
type readiness struct {
	log   logr.Logger
	after func(time.Duration) <-chan time.Time
	needs []*need
}

// need is something that must be there, and stays there once it is.
type need struct {
	name string
	// find returns why it is not there.
	find func(context.Context) error

	mu      sync.Mutex
	missing error
}

func newReadiness(mgr ctrl.Manager, c *config) (*readiness, error) {
	r := &readiness{log: ctrl.Log.WithName("ready"), after: time.After}
	for kind, object := range map[string]client.Object{
		"agenttasks": &v1alpha1.AgentTask{}, "agentmodels": &v1alpha1.AgentModel{}, "agenttoolsets": &v1alpha1.AgentToolset{},
	} {
		r.need(kind+"-synced", synced(mgr.GetCache(), kind, object))
	}
	namespaces := split(c.watchNamespaces)
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, p := range mustDo {
		r.need(nameOf(p), allowed(mgr.GetClient(), p, namespaces))
	}
	if c.secretNamespaces != allNamespaces {
		namespaces = split(c.secretNamespaces)
	}
	r.need(nameOf(getSecrets), allowed(mgr.GetClient(), getSecrets, namespaces))
	for _, n := range r.needs {
		if err := mgr.AddReadyzCheck(n.name, n.check); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *readiness) need(name string, find func(context.Context) error) {
	r.needs = append(r.needs, &need{name: name, find: find, missing: errors.New("it has not been looked for yet")})
}

// ask asks for what is missing, and returns what still is.
func (r *readiness) ask(ctx context.Context) (missing []string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, n := range r.needs {
		if n.check(nil) == nil {
			continue
		}
		err := n.find(ctx)
		n.mu.Lock()
		n.missing = err
		n.mu.Unlock()
		if err != nil {
			missing = append(missing, n.name+": "+err.Error())
		}
	}
	return missing
}

// run asks until nothing is missing, and logs what is whenever that changes.
func (r *readiness) run(ctx context.Context) {
	for told := []string{}; ; {
		select {
		case <-ctx.Done():
			return
		case <-r.after(askAgain):
		}
		missing := r.ask(ctx)
		if len(missing) == 0 {
			r.log.Info("Ready")
			return
		}
		if !slices.Equal(missing, told) {
			r.log.Info("Not ready yet", "missing", missing)
			told = missing
		}
	}
}

func (n *need) check(*http.Request) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.missing
}

// synced starts a kind's informer, which would otherwise begin once this replica leads, and looks whether it has seen all.
func synced(c cache.Informers, kind string, object client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		switch {
		case err != nil:
			return fmt.Errorf("%s cannot be watched; install the CRDs of this version if they are missing: %w", kind, err)
		case !informer.HasSynced():
			return fmt.Errorf("not all %s have been seen yet", kind)
		}
		return nil
	}
}

// mustDo is what no task gets on without, in every namespace.
var mustDo = []authorizationv1.ResourceAttributes{
	{Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "agenttasks"},
	{Verb: "watch", Group: v1alpha1.GroupVersion.Group, Resource: "agenttasks"},
	{Verb: "update", Group: v1alpha1.GroupVersion.Group, Resource: "agenttasks", Subresource: "status"},
	{Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "agentmodels"},
	{Verb: "watch", Group: v1alpha1.GroupVersion.Group, Resource: "agentmodels"},
	{Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "agenttoolsets"},
	{Verb: "watch", Group: v1alpha1.GroupVersion.Group, Resource: "agenttoolsets"},
	{Verb: "get", Group: v1alpha1.GroupVersion.Group, Resource: "agenttranscripts"},
	{Verb: "create", Group: v1alpha1.GroupVersion.Group, Resource: "agenttranscripts"},
	{Verb: "update", Group: v1alpha1.GroupVersion.Group, Resource: "agenttranscripts"},
}

// getSecrets is what a task with a key in a Secret does not get on without, in the namespaces of --secret-namespaces.
var getSecrets = authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets"}

// allowed asks the API server whether the operator may do something, in each of its namespaces until it is allowed there.
func allowed(c client.Client, what authorizationv1.ResourceAttributes, namespaces []string) func(context.Context) error {
	left := namespaces
	return func(ctx context.Context) error {
		var denied []string
		for i, ns := range left {
			here := what
			here.Namespace = ns
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &here}}
			if err := c.Create(ctx, review); err != nil {
				left = append(denied, left[i:]...)
				return fmt.Errorf("the API server does not tell whether the operator may: %w", err)
			}
			if !review.Status.Allowed {
				denied = append(denied, ns)
			}
		}
		left = denied
		switch {
		case len(denied) == 0:
			return nil
		case slices.Equal(denied, []string{metav1.NamespaceAll}):
			return errors.New("the operator's ServiceAccount has no such permission in all namespaces; install the chart's RBAC")
		}
		return fmt.Errorf("the operator's ServiceAccount has no such permission in %s; install the chart's RBAC", strings.Join(denied, ", "))
	}
}

func nameOf(p authorizationv1.ResourceAttributes) string {
	return strings.TrimSuffix("may-"+p.Verb+"-"+p.Resource+"-"+p.Subresource, "-")
}
