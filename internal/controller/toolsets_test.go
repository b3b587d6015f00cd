package controller

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/resolve"
)

// A task that goes on without a toolset says so before the command, and not after it.
func TestATaskWithoutAToolsetStillGivesTheCommand(t *testing.T) {
	set := &v1alpha1.AgentToolset{
		ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: "ops"}, Spec: v1alpha1.AgentToolsetSpec{URL: "https://t.example.com/mcp", Auth: &v1alpha1.Auth{SecretRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"}}},
	}
	r := newRig(t, interceptor.Funcs{}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: "s"}, Data: map[string][]byte{"k": []byte("key")}}, set)
	r.Models.SecretPolicy = resolve.SecretsLabelled
	task := aTask(func(sp *v1alpha1.AgentTaskSpec) { sp.Toolsets = []v1alpha1.ToolsetReference{{Name: "ops"}} })
	_, away, err := r.toolSources(t.Context(), task)
	if err != nil || len(away) != 1 || !strings.HasPrefix(away[0].why.Message, `The task goes on without the tools of AgentToolset "ops". `) {
		t.Fatalf("%+v, %v", away, err)
	}
	if w := away[0].why; w.Reason != "SecretNotAllowed" || !strings.HasSuffix(w.Message, "kubectl label secret s -n ns --overwrite "+v1alpha1.LabelAllowUse+"=true") {
		t.Errorf("%s: %s", w.Reason, w.Message)
	}
}
