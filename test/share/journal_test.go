//go:build share

package share

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// writer is a model that writes so much in each turn, and never comes to an end before the last.
func writer(last, bytes int) answer {
	return func(q *fakechat.Request) fakechat.Reply {
		text := prose(fmt.Sprint(q.Prompt(), q.Replies()), bytes)
		if q.Replies() == last-1 {
			text += "\n\nTASK_COMPLETE: done"
		}
		return fakechat.Reply{Text: text, In: 100, Out: 100, Chunk: 8192}
	}
}

// A task that would write without end ends by a cause of its own, with what it has.
func TestJournalCap(t *testing.T) {
	const turn = 20 << 10
	r := newRig(t)
	r.model(namespace, "default", writer(10_000, turn))
	r.operator("manager", fmt.Sprint("--max-journal-bytes=", 256<<10))
	tests := map[string]struct {
		own, most int64
		why       string
	}{
		"operator": {most: 256 << 10, why: "the operator's cap holds where the task has none"},
		"lower":    {own: 64 << 10, most: 64 << 10, why: "a task may ask for less"},
		"higher":   {own: 8 << 20, most: 256 << 10, why: "but not for more"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := r.on(t)
			r.create(task(name, turns(10_000), suspended))
			if test.own > 0 {
				r.patch(name, fmt.Sprintf(`{"maxJournalBytes":%d}`, test.own))
			}
			r.patch(name, `{"suspend":false}`)
			r.await("the end by the cap", time.Minute, 1, over(name))
			status := r.get(name).Status
			finished := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFinished)
			held := r.etcdOf(name)
			t.Logf("%s: %d turns, journal %d of %d bytes, in etcd %d transcripts of %d bytes",
				test.why, ptr.Deref(status.Iterations, 0), ptr.Deref(status.Transcript.Bytes, 0), test.most, held.transcripts, held.journal)
			if status.ExitReason != v1alpha1.ExitError || finished.Reason != "JournalFull" {
				t.Errorf("it ended as %s, %s (%s), want Error, JournalFull", status.ExitReason, finished.Reason, status.Message)
			}
			if status.Output == "" {
				t.Error("its output was not kept")
			}
			if got := ptr.Deref(status.Transcript.Bytes, 0); got > test.most+turn {
				t.Errorf("its journal has %d bytes, more than one turn above %d", got, test.most)
			}
		})
	}
}
