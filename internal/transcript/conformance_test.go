package transcript_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript/transcripttest"
)

func TestMemoryStoreKeepsTheRules(t *testing.T) {
	transcripttest.Run(t, func(*testing.T) transcripttest.Store {
		return transcripttest.Memory{Memory: transcript.NewMemory()}
	})
}

func TestKubernetesStoreKeepsTheRules(t *testing.T) {
	transcripttest.Run(t, func(t *testing.T) transcripttest.Store {
		return transcripttest.NewKubernetes(fakeClient(t))
	})
}

func fakeClient(t testing.TB, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}
