package controller

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// As many servers as are looked at at once may hang, each in its own toolset. The next look finds what has come meanwhile.
func TestALookWaitsForNoToolServerThatHangs(t *testing.T) {
	answer := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-answer
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	r := newRig(t, interceptor.Funcs{})
	set := &v1alpha1.AgentToolset{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hangs", UID: "u", Generation: 1}, Spec: v1alpha1.AgentToolsetSpec{URL: server.URL},
	}
	if _, _, err := discover(t.Context(), r.Models, r.Tools, set); !errors.Is(err, errNotYet) {
		t.Errorf("while it hangs: %v", err)
	}
	close(answer)
	for {
		_, _, err := discover(t.Context(), r.Models, r.Tools, set)
		if w := (*Waiting)(nil); errors.As(err, &w) && w.Reason == "ToolsetUnavailable" {
			return
		}
		if !errors.Is(err, errNotYet) {
			t.Fatalf("once it has answered: %v", err)
		}
	}
}
