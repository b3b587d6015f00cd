package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	fresh := &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Name: "fresh", Namespace: "ns", UID: "u2"}, Status: v1alpha1.AgentTaskStatus{ObservedGeneration: 1, Message: "No model."}}
	unseen := &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Name: "unseen", Namespace: "ns", UID: "u3"}, Status: v1alpha1.AgentTaskStatus{ObservedGeneration: -1}}
	bare := &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Name: "bare", Namespace: "ns", UID: "u4"}}
	pruned := &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Name: "pruned", Namespace: "ns", UID: "u5"}, Status: v1alpha1.AgentTaskStatus{
		ObservedGeneration: 1, Phase: v1alpha1.PhaseSucceeded, StartTime: &metav1.Time{Time: time.Unix(0, 0)}, Message: "Completed.",
	}}
	early := &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Name: "early", Namespace: "ns", UID: "u6"}, Status: v1alpha1.AgentTaskStatus{
		ObservedGeneration: 1, Phase: v1alpha1.PhaseCancelled, Message: "Cancelled.",
	}}
	hostile := &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Name: "hostile", Namespace: "ns", UID: "u7"}, Status: v1alpha1.AgentTaskStatus{ObservedGeneration: 1, Message: "No \x1b[31mmodel."}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(started, fresh, unseen, bare, pruned, early, hostile).Build()
	journal, _, err := transcript.Load(t.Context(), transcript.NewKubernetes(c), transcript.TaskRef{Namespace: "ns", Name: "started", UID: "u1"})
	if err != nil {
		t.Fatal(err)
	}
	err = journal.Append(t.Context(), 0, []loop.Event{{Version: 1, Seq: 1, Time: time.Unix(0, 0).UTC(), Kind: loop.KindNudged, Nudged: &loop.Nudged{Text: "Go on with it."}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"started": "Go on with it.", "fresh": "has not started: No model.",
		"unseen": "has not been seen by an operator yet", "bare": "has not been seen by an operator yet",
		"pruned": "its transcript is gone. Its status says: Completed.", "early": "ended before it started, so it has no transcript: Cancelled.",
		"hostile": `has not started: No \u001b[31mmodel.`,
	} {
		var out strings.Builder
		if err := cli.Logs(t.Context(), c, "ns", name, &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: got %q, %v, want it to say %q", name, out.String(), err, want)
		}
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	task := &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Name: "report", Namespace: "ns", UID: "u1"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(task).Build()
	journal, _, err := transcript.Load(t.Context(), transcript.NewKubernetes(c), transcript.RefOf(task))
	if err != nil {
		t.Fatal(err)
	}
	if err := journal.Append(t.Context(), 0, []loop.Event{{Version: 1, Seq: 1, Time: time.Unix(0, 0).UTC(), Kind: loop.KindSuspended}}); err != nil {
		t.Fatal(err)
	}
	var segments v1alpha1.AgentTranscriptList
	if err := c.List(t.Context(), &segments); err != nil || len(segments.Items) != 1 {
		t.Fatalf("%d segments, %v", len(segments.Items), err)
	}
	segments.Items[0].Segment.Data = []byte("hello")
	if err := c.Update(t.Context(), &segments.Items[0]); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := cli.Logs(t.Context(), c, "ns", "report", &out); !errors.Is(err, transcript.ErrCorrupt) || out.Len() > 0 {
		t.Errorf("a damaged journal: got %q, %v", out.String(), err)
	}
	if err := cli.Logs(t.Context(), c, "ns", "nobody", &out); !apierrors.IsNotFound(err) || out.Len() > 0 {
		t.Errorf("a missing task: got %q, %v", out.String(), err)
	}
}

func TestFlagsMayStandAnywhere(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "https://example.com"}}], contexts: [{name: x, context: {cluster: c}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{
		"logs report -n team-a --context x", "logs -n team-a --context x report", "-n team-a logs --context=x report", "logs -n=team-a report --context x",
		"logs report --namespace team-a --context x",
	} {
		config, task, err := cli.Target(append(strings.Fields(call), "--kubeconfig", kubeconfig))
		if err != nil || task.String() != "team-a/report" || config.Host != "https://example.com" {
			t.Errorf("%s: got task %s at %v, %v", call, task, config, err)
			continue
		}
		if config.QPS != -1 {
			t.Errorf("%s: a long journal is read at %v requests a second", call, config.QPS)
		}
	}
}

func TestAWrongCallSaysWhatIsWrongAndHowToCall(t *testing.T) {
	for call, want := range map[string]string{
		"": "", "logs": "", "dance x": "", "logs x y": "", "logs x --help": "",
		"logs x --nope": "not defined: -nope", "logs --nope x": "not defined: -nope", "logs x -n": "needs an argument: -n",
	} {
		err := cli.Run(t.Context(), strings.Fields(call), nil)
		if !errors.Is(err, cli.ErrUsage) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "usage: ") {
			t.Errorf("%q: got %v, want it to say %q", call, err, want)
		}
	}
}
