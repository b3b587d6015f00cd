package cli_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/cli"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

func TestLogsPrintWhatWasSaidOrThatNothingWas(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	started := &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Name: "started", Namespace: "ns", UID: "u1"}}
	fresh := &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Name: "fresh", Namespace: "ns", UID: "u2"}, Status: v1alpha1.AgentTaskStatus{Message: "No model."}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(started, fresh).Build()
	journal, _, err := transcript.NewKubernetes(c).Load(t.Context(), transcript.TaskRef{Namespace: "ns", Name: "started", UID: "u1"})
	if err != nil {
		t.Fatal(err)
	}
	err = journal.Append(t.Context(), 0, []loop.Event{{Version: 1, Seq: 1, Time: time.Unix(0, 0).UTC(), Kind: loop.KindNudged, Nudged: &loop.Nudged{Text: "Go on with it."}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"started": "Go on with it.", "fresh": "has not started: No model."} {
		var out strings.Builder
		if err := cli.Logs(t.Context(), c, "ns", name, &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: got %q, %v, want it to say %q", name, out.String(), err, want)
		}
	}
}

func TestAWrongCallSaysHowToCall(t *testing.T) {
	for _, args := range [][]string{nil, {"logs"}, {"dance", "x"}, {"logs", "x", "--nope"}, {"logs", "x", "y"}} {
		if err := cli.Run(t.Context(), args, nil); !errors.Is(err, cli.ErrUsage) {
			t.Errorf("%v: got %v", args, err)
		}
	}
}
