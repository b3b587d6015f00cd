package envtest

import (
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
	"github.com/agentloop-dev/agenttask-operator/test/harness"
)

// apiWrites counts, at the API server, the writes to this project's kinds and to events, by resource.
func (f *fixture) apiWrites() map[string]int {
	f.Helper()
	out, err := harness.APIWrites(f.ctx, restConfig, v1alpha1.GroupVersion.Group)
	f.must(err)
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
