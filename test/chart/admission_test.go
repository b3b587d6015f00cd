package chart

import (
	"context"
	"slices"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// warnings are what the API server says beside its answer, such as that a field is deprecated.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

// serviceMonitorCRD lets a ServiceMonitor through; TestServiceMonitorHasNoUnknownField looks at what is in it.
func serviceMonitorCRD() *apiextensionsv1.CustomResourceDefinition {
	anything := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: new(true),
	}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "servicemonitors.monitoring.coreos.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "monitoring.coreos.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "servicemonitors", Kind: "ServiceMonitor"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: anything}},
		},
	}
}

// Strict validation refuses every unknown and every doubled field, which `helm template` and a lenient server let through.
func TestAPIServerAcceptsEveryRenderedObject(t *testing.T) {
	c := sharedCluster(t)
	if _, err := envtest.InstallCRDs(c.config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{serviceMonitorCRD()}}); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"team-a", "team-b", "smoke"} {
		c.ensureNamespace(t, ns)
	}
	sets := map[string][]*unstructured.Unstructured{"config/default": kustomize(t)}
	for file, values := range valuesFiles(t) {
		objects, hooks := render(t, values)
		sets[file] = append(objects, hooks...)
	}
	for set, objects := range sets {
		said := &warnings{}
		config := rest.CopyConfig(c.config)
		config.WarningHandler = said
		strict, err := clientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		strict = client.WithFieldValidation(strict, metav1.FieldValidationStrict)
		for _, o := range objects {
			if err := dryRun(t.Context(), strict, o.DeepCopy()); err != nil {
				t.Errorf("%s: %s: %v", set, id(o), err)
			}
		}
		if len(said.said) > 0 {
			t.Errorf("%s: the API server warns: %q", set, said.said)
		}
	}
}

// dryRun creates the object, or replaces the one that is there, and saves nothing. Not by server-side apply: there the
// client offers no strict field validation.
func dryRun(ctx context.Context, strict client.Client, o *unstructured.Unstructured) error {
	err := strict.Create(ctx, o.DeepCopy(), client.DryRunAll)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing := &unstructured.Unstructured{}
	existing.SetGroupVersionKind(o.GroupVersionKind())
	if err := strict.Get(ctx, client.ObjectKeyFromObject(o), existing); err != nil {
		return err
	}
	o.SetResourceVersion(existing.GetResourceVersion())
	return strict.Update(ctx, o, client.DryRunAll)
}

// The dry run must be able to fail, or it proves nothing.
func TestAPIServerRefusesAnUnknownField(t *testing.T) {
	strict := client.WithFieldValidation(sharedCluster(t).Client, metav1.FieldValidationStrict)
	objects, _ := render(t, nil)
	for key, o := range byID(objects) {
		switch o.GetKind() {
		case "Deployment", "Service", "ClusterRole", "CustomResourceDefinition":
			if err := unstructured.SetNestedField(o.Object, "x", "metadata", "unknownField"); err != nil {
				t.Fatal(err)
			}
			if err := dryRun(t.Context(), strict, o); err == nil {
				t.Errorf("%s is accepted with an unknown field", key)
			}
		}
	}
}

// aggregated does what the cluster's controller for aggregated roles does, which envtest does not run.
func aggregated(t *testing.T, c client.Client, label string) []rbacv1.PolicyRule {
	t.Helper()
	roles := &rbacv1.ClusterRoleList{}
	if err := c.List(t.Context(), roles, client.MatchingLabels{"rbac.authorization.k8s.io/" + label: "true"}); err != nil {
		t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	for _, role := range roles.Items {
		if slices.Contains([]string{name + "-viewer", name + "-editor", name + "-admin"}, role.Name) {
			rules = append(rules, role.Rules...)
		}
	}
	return rules
}

func bindUser(t *testing.T, c client.Client, ns, user, role string) {
	t.Helper()
	if err := c.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}); err != nil {
		t.Fatal(err)
	}
}

func TestUserRolesAllowWhatTheySay(t *testing.T) {
	c := sharedCluster(t)
	ns := c.newNamespace(t, "people")
	const tasks, models, transcripts = "agenttasks.agentloop.dev ", "agentmodels.agentloop.dev ", "agenttranscripts.agentloop.dev "
	all := []string{
		tasks + "get", tasks + "create", tasks + "update", tasks + "patch", tasks + "delete", tasks + "deletecollection",
		models + "get", models + "create", transcripts + "get", transcripts + "delete", transcripts + "create",
	}
	for role, allowed := range map[string][]string{
		"viewer":   {tasks + "get", models + "get"},
		"editor":   {tasks + "get", tasks + "create", tasks + "update", tasks + "patch", tasks + "delete", models + "get", models + "create", transcripts + "get"},
		"admin":    {tasks + "get", tasks + "create", tasks + "update", tasks + "patch", tasks + "delete", tasks + "deletecollection", models + "get", models + "create", transcripts + "get", transcripts + "delete"},
		"answerer": {tasks + "get", tasks + "patch"},
	} {
		bindUser(t, c, ns, role, name+"-"+role)
		for _, what := range all {
			if got, want := may(t, c.as(t, role), ns, what), slices.Contains(allowed, what); got != want {
				t.Errorf("%s may %s: %v, want %v", role, what, got, want)
			}
		}
	}
	for label, want := range map[string]int{"aggregate-to-view": 2, "aggregate-to-edit": 3, "aggregate-to-admin": 3} {
		if got := len(aggregated(t, c, label)); got != want {
			t.Errorf("%s has %d rules, want %d", label, got, want)
		}
	}
}
