package resolve

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// rig is a Models on a client that keeps objects in memory.
type rig struct {
	*testing.T
	*Models
	kube client.Client
}

var taskKey = types.NamespacedName{Namespace: "ns", Name: "task"}

// newRig makes a rig whose calls to the API server pass the given functions.
func newRig(t *testing.T, faults interceptor.Funcs, objects ...client.Object) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	c := interceptor.NewClient(kube, faults)
	return &rig{T: t, kube: kube, Models: New(Options{Cached: c, Live: c, Guard: &egress.Guard{}, Clock: looptest.NewClock()})}
}

// aTask is a task.
func aTask(change func(*v1alpha1.AgentTaskSpec)) *v1alpha1.AgentTask {
	task := &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: taskKey.Name, UID: "task-1", Generation: 1}}
	change(&task.Spec)
	return task
}

// answers is an AgentModel that gives these texts.
func answers(texts ...string) *v1alpha1.AgentModel {
	m := &v1alpha1.AgentModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: "default", UID: "model-1", Generation: 1},
		Spec:       v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderScripted, Scripted: &v1alpha1.Script{}},
	}
	for _, text := range texts {
		m.Spec.Scripted.Replies = append(m.Spec.Scripted.Replies, v1alpha1.ScriptedReply{Text: &text})
	}
	return m
}
