package envtest

import (
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// apiWrites counts, at the API server, the writes to this project's kinds and to events, by resource.
func (f *fixture) apiWrites() map[string]int {
	f.Helper()
	c, err := kubernetes.NewForConfig(restConfig)
	f.must(err)
	raw, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(f.ctx)
	f.must(err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(raw)))
	f.must(err)
	out := map[string]int{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY":
		default:
			continue
		}
		if labels["group"] == v1alpha1.GroupVersion.Group || labels["resource"] == "events" {
			out[strings.Trim(labels["resource"]+"/"+labels["subresource"], "/")] += int(m.GetCounter().GetValue())
		}
	}
	return out
}

func TestATurnWithoutToolsCostsAtMostOneAppendAndOneStatusWrite(t *testing.T) {
	const turns = 12
	f := newFixture(t)
	before := f.apiWrites()
	f.chatModel(func(r *fakechat.Request) fakechat.Reply {
		if r.Replies() == turns-1 {
			return fakechat.Reply{Text: "TASK_COMPLETE: done", In: 10, Out: 5}
		}
		return fakechat.Reply{Text: strings.Repeat("working ", r.Replies()+1), In: 10, Out: 5}
	})
	f.task("steps")
	f.awaitExit("steps", v1alpha1.ExitCompleted)
	after := f.apiWrites()
	appends := after["agenttranscripts"] - before["agenttranscripts"]
	statuses := after["agenttasks/status"] - before["agenttasks/status"]
	t.Logf("%d turns: %d appends, %d status writes, %d events", turns, appends, statuses, after["events"]-before["events"])
	// Beside the turns: the append that opens the journal, and the status that says Running.
	if appends > turns+1 {
		t.Errorf("%d appends for %d turns", appends, turns)
	}
	if statuses > turns+1 {
		t.Errorf("%d status writes for %d turns", statuses, turns)
	}
}
