package chart

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// previousRevision is the chart as it was one version ago: an older number, and an AgentTask without inputTimeout.
func previousRevision(t *testing.T) *chartv2.Chart {
	t.Helper()
	c := load(t)
	c.Metadata.Version, c.Metadata.AppVersion = "0.0.9", "0.0.9"
	for _, f := range c.Files {
		if !strings.HasSuffix(f.Name, "agentloop.dev_agenttasks.yaml") {
			continue
		}
		crd := map[string]any{}
		if err := yaml.Unmarshal(f.Data, &crd); err != nil {
			t.Fatal(err)
		}
		version := crd["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
		unstructured.RemoveNestedField(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", "inputTimeout")
		var err error
		if f.Data, err = yaml.Marshal(crd); err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Fatal("the chart has no AgentTask CRD")
	return nil
}

// Tasks are what people paid for. No step in a release's life may touch one.
func TestUpgradeAndUninstallKeepTasks(t *testing.T) {
	c, err := startCluster()
	if err != nil {
		t.Fatal(err)
	}
	config, err := c.helm(namespace)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace, install.CreateNamespace, install.WaitStrategy = name, namespace, true, kube.HookOnlyStrategy
	if _, err := install.Run(previousRevision(t), nil); err != nil {
		t.Fatal(err)
	}

	ns := c.newNamespace(t, "work")
	task := newTask(ns, "done", "model")
	if err := c.Create(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	task.Status = statuses()[v1alpha1.PhaseSucceeded]
	if err := c.as(t, operator).Status().Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	same := func(after string) {
		t.Helper()
		now := &v1alpha1.AgentTask{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(task), now); err != nil {
			t.Fatalf("after %s: %v", after, err)
		}
		if diff := cmp.Diff(task, now); diff != "" {
			t.Errorf("after %s the task changed (-before +now):\n%s", after, diff)
		}
	}
	withTimeout := func(name string) error {
		newer := newTask(ns, name, "model")
		newer.Spec.InputTimeout = &metav1.Duration{Duration: 1e9}
		return client.WithFieldValidation(c.Client, metav1.FieldValidationStrict).Create(t.Context(), newer)
	}
	if err := withTimeout("early"); err == nil {
		t.Fatal("the previous revision knows inputTimeout, so this test proves nothing")
	}

	upgrade := action.NewUpgrade(config)
	upgrade.Namespace, upgrade.WaitStrategy = namespace, kube.HookOnlyStrategy
	if _, err := upgrade.Run(name, load(t), map[string]any{"replicas": 3}); err != nil {
		t.Fatal(err)
	}
	same("the upgrade")
	deployment := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil || *deployment.Spec.Replicas != 3 {
		t.Errorf("the upgrade left %v replicas (%v)", deployment.Spec.Replicas, err)
	}
	eventually(t, 30*time.Second, func(context.Context) string {
		if err := withTimeout("later"); err != nil {
			return "the upgrade did not upgrade the CRDs: " + err.Error()
		}
		return ""
	})

	uninstall := action.NewUninstall(config)
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	if _, err := uninstall.Run(name); err != nil {
		t.Fatal(err)
	}
	same("the uninstall")
	for _, gone := range []client.Object{deployment, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); !apierrors.IsNotFound(err) {
			t.Errorf("the uninstall left %T %s (%v)", gone, gone.GetName(), err)
		}
	}
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := c.List(t.Context(), crds); err != nil || len(crds.Items) != 4 {
		t.Errorf("the uninstall left %d CRDs (%v), want 4", len(crds.Items), err)
	}

	// The kept CRDs belong to the release of that name: it may come back, and another must be told to take them over.
	if err := c.helmInstall(chartDir, name, namespace, nil); err != nil {
		t.Errorf("installing it again: %v", err)
	}
	same("another install")
	if _, err := uninstall.Run(name); err != nil {
		t.Fatal(err)
	}
	if err := c.helmInstall(chartDir, "other", namespace, nil); err == nil || !strings.Contains(err.Error(), "cannot be imported") {
		t.Errorf("a release of another name took over the CRDs unasked: %v", err)
	}
	adopt := action.NewInstall(config)
	adopt.ReleaseName, adopt.Namespace, adopt.TakeOwnership, adopt.WaitStrategy = "adopter", namespace, true, kube.HookOnlyStrategy
	if _, err := adopt.Run(load(t), nil); err != nil {
		t.Errorf("taking over the CRDs: %v", err)
	}
	same("a take-over")
}
