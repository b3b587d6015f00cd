package resolve

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

func TestWhatWasDeletedIsLetGo(t *testing.T) {
	m := New(Options{Guard: &egress.Guard{}, Clock: looptest.NewClock()})
	object := &v1alpha1.AgentModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m", UID: "1", Generation: 1},
		Spec:       v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: "https://models.example.com/v1"},
	}
	set := &v1alpha1.AgentToolset{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s", UID: "2", Generation: 1},
		Spec:       v1alpha1.AgentToolsetSpec{URL: "https://tools.example.com/mcp"},
	}
	for range 3 { // each a new generation
		if _, err := m.Build(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		if _, _, err := m.Toolset(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		object.Generation++
		set.Generation++
	}
	if len(m.shared) != 1 || len(m.toolClients) != 1 {
		t.Errorf("%d models and %d toolsets are held, want one of each", len(m.shared), len(m.toolClients))
	}
	m.Forget(client.ObjectKey{Namespace: "a", Name: "another"})
	if len(m.shared) != 1 {
		t.Error("another model's end took this one's client")
	}
	m.Forget(client.ObjectKeyFromObject(object))
	m.ForgetToolset(client.ObjectKeyFromObject(set))
	if len(m.shared) != 0 || len(m.toolClients) != 0 {
		t.Errorf("%d models and %d toolsets are still held", len(m.shared), len(m.toolClients))
	}
}
