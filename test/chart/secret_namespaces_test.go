package chart

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// Without access to all Secrets the manager still becomes ready, reads those that it may, and says which it may not.
func TestSecretsAreReadInTheNamespacesThatAreListed(t *testing.T) {
	c := sharedCluster(t)
	listed, other := c.newNamespace(t, "listed"), c.newNamespace(t, "other")
	if err := c.helmInstall(chartDir, "narrow", listed, parseValues(t, `{rbac: {secretNamespaces: [`+listed+`], journalPolicy: {create: false}}, crds: {install: false}, watchLabelSelector: narrow}`)); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{listed, other} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "llm"}, StringData: map[string]string{"key": "k"}}
		model := modelWith(ns, "remote", func(s *v1alpha1.AgentModelSpec) { s.Auth = &v1alpha1.Auth{SecretRef: keyOf("llm")} })
		if err := errors.Join(c.Create(t.Context(), secret), c.Create(t.Context(), model)); err != nil {
			t.Fatal(err)
		}
	}
	m := c.startManager(t, listed, "narrow-"+name)
	ready := func(ns string) metav1.Condition {
		model := &v1alpha1.AgentModel{}
		eventually(t, 60*time.Second, func(ctx context.Context) string {
			if err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: "remote"}, model); err != nil {
				return err.Error()
			}
			if apimeta.FindStatusCondition(model.Status.Conditions, v1alpha1.ConditionReady) == nil {
				return "nothing is known of the model yet"
			}
			return ""
		})
		return *apimeta.FindStatusCondition(model.Status.Conditions, v1alpha1.ConditionReady)
	}
	if got := ready(listed); got.Status != metav1.ConditionTrue {
		t.Errorf("where Secrets are listed, Ready is %s: %s", got.Status, got.Message)
	}
	if got := ready(other); got.Reason != "SecretForbidden" || !strings.Contains(got.Message, `may not read Secret "llm" in namespace "`+other+`"`) {
		t.Errorf("elsewhere, Ready is %s, %s: %s", got.Status, got.Reason, got.Message)
	}
	for _, what := range []string{"secrets get", "configmaps get"} {
		if !may(t, m.client, listed, what) || may(t, m.client, other, what) {
			t.Errorf("the manager may %s: %v where it is listed, %v elsewhere", what, may(t, m.client, listed, what), may(t, m.client, other, what))
		}
	}
}
