//go:build share

package share

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/controlplane"
)

// cost is a row of the table in docs/transcript.md: what etcd holds of a task of so many turns, each with so many KiB of text.
type cost struct {
	turns, text int
	object      float64 // KiB of the AgentTask
	transcripts int64
	journal     float64 // KiB of these
}

const costRow = "| %d | %d KiB | %.1f KiB | %d | %.0f KiB |"

func (c cost) String() string {
	return fmt.Sprintf(costRow, c.turns, c.text, c.object, c.transcripts, c.journal)
}

// The docs say what was measured, and keep saying it.
func TestWhatATaskCostsEtcd(t *testing.T) {
	const drift = 0.1 // lengths of times, ids and versions differ from run to run
	documented := documentedCosts(t)
	r := newRig(t)
	r.operator("manager")
	for _, text := range []int{2, 20} {
		for _, n := range []int{10, 50, 200} {
			name := fmt.Sprintf("costs-%d-%d", n, text)
			r.model(namespace, name, writer(n, text<<10))
			r.create(task(name, of(name), turns(int32(n))))
			r.await("the end", 5*time.Minute, 1, is(name, v1alpha1.PhaseSucceeded))
			held := r.etcdOf(name)
			got := cost{n, text, float64(held.object) / 1024, held.transcripts, float64(held.journal) / 1024}
			want := documented[[2]int{n, text}]
			t.Log(got)
			if off := max(apart(got.object, want.object), apart(float64(got.transcripts), float64(want.transcripts)), apart(got.journal, want.journal)); off > drift {
				t.Errorf("docs/transcript.md is off by %.0f %%: %s", 100*off, want)
			}
		}
	}
}

// apart is by what part two sizes differ.
func apart(a, b float64) float64 { return math.Abs(a-b) / max(a, b) }

func documentedCosts(t *testing.T) map[[2]int]cost {
	t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "docs", "transcript.md"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[[2]int]cost{}
	scan := strings.NewReplacer("%.1f", "%f", "%.0f", "%f").Replace(costRow)
	for line := range strings.Lines(string(raw)) {
		var c cost
		if n, _ := fmt.Sscanf(line, scan, &c.turns, &c.text, &c.object, &c.transcripts, &c.journal); n == 5 {
			out[[2]int{c.turns, c.text}] = c
		}
	}
	return out
}
