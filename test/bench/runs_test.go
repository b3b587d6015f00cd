//go:build bench

package bench

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

var most = flag.Int("most", 5000, "the largest number of tasks at once")

// upTo leaves out the sizes that -most forbids.
func upTo(sizes ...int) (out []int) {
	for _, n := range sizes {
		if n <= *most {
			out = append(out, n)
		}
	}
	return out
}

// rawLimit is what the API server takes at most: updates a second of transcripts of about the size that the operator
// writes, by writers that do nothing else.
func (r *rig) rawLimit(bytes int, during time.Duration) float64 {
	r.Helper()
	objects := make([]*v1alpha1.AgentTranscript, writers)
	data := make([]byte, bytes)
	for i := range data {
		data[i] = byte(rand.IntN(256))
	}
	for i := range objects {
		index := int32(0)
		objects[i] = &v1alpha1.AgentTranscript{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("raw-%d-%d", bytes, i), Namespace: namespace},
			Segment: v1alpha1.AgentTranscriptSegment{
				TaskName: "raw", TaskUID: "raw", Index: &index, FirstSeq: 1, LastSeq: 1, Encoding: "zstd/jsonl", Data: data,
			},
		}
		r.must(r.cluster.Client.Create(r.Context(), objects[i]))
	}
	counts := make([]int, writers)
	start := time.Now()
	var wg sync.WaitGroup
	for i, o := range objects {
		wg.Go(func() {
			for time.Since(start) < during {
				o.Segment.LastSeq++
				if err := r.cluster.Client.Update(r.Context(), o); err != nil {
					r.Error(err)
					return
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start).Seconds()
	sum := 0
	for i, o := range objects {
		sum += counts[i]
		r.must(r.cluster.Client.Delete(r.Context(), o))
	}
	return float64(sum) / elapsed
}

func TestDrainWithoutLatency(t *testing.T) {
	r := newRig(t, 0)
	raw1, raw4 := r.rawLimit(1<<10, 8*time.Second), r.rawLimit(4<<10, 8*time.Second)
	t.Logf("API server alone: %.0f updates/s of 1 KiB, %.0f of 4 KiB, by %d writers", raw1, raw4, writers)
	for _, n := range upTo(100, 1000, 5000) {
		prefix := fmt.Sprintf("drain%d", n)
		before, cpu := r.writes(), r.cpu()
		start := time.Now()
		r.create(prefix, n)
		created := time.Since(start)
		took := r.await(prefix, n, v1alpha1.PhaseSucceeded).Sub(start)
		w := since(r.writes(), before)
		all := total(w)
		own := all - w["agenttasks"] // creating the tasks is the benchmark's doing
		t.Logf("%d tasks of %d turns: %s (creating them %s), %.0f turns/s, %.2f writes a turn, %.0f writes/s (%.0f%% of the 4 KiB limit, creates included %.0f/s, %.0f%%), overhead p50 %s p99 %s, peak RSS %d MiB, CPU %.1f s; %v",
			n, turns, took.Round(10*time.Millisecond), created.Round(10*time.Millisecond), float64(n*turns)/took.Seconds(), float64(own)/float64(n*turns),
			float64(own)/took.Seconds(), 100*float64(own)/took.Seconds()/raw4, float64(all)/took.Seconds(), 100*float64(all)/took.Seconds()/raw4,
			percentile(r.overheads(prefix), 50), percentile(r.overheads(prefix), 99), r.rss(), r.cpu()-cpu, w)
	}
}

func (r *rig) rss() int64 {
	r.Helper()
	n, err := r.manager.PeakRSS()
	r.must(err)
	return n >> 20
}

func (r *rig) cpu() float64 {
	r.Helper()
	s, err := r.manager.CPUSeconds()
	r.must(err)
	return s
}

func TestTurnsOfOneSecond(t *testing.T) {
	r := newRig(t, time.Second)
	for _, n := range upTo(100, 500, 1000) {
		prefix := fmt.Sprintf("steady%d", n)
		before := r.writes()
		start := time.Now()
		r.create(prefix, n)
		took := r.await(prefix, n, v1alpha1.PhaseSucceeded).Sub(start)
		w := since(r.writes(), before)
		t.Logf("%d tasks of %d one-second turns: %s, %.2f writes a turn, create to first request p50 %s p99 %s, overhead p50 %s p99 %s, peak RSS %d MiB; %v",
			n, turns, took.Round(10*time.Millisecond), float64(total(w)-w["agenttasks"])/float64(n*turns),
			percentile(r.firstRequests(prefix), 50), percentile(r.firstRequests(prefix), 99),
			percentile(r.overheads(prefix), 50), percentile(r.overheads(prefix), 99), r.rss(), w)
	}
}

// A few tasks at a time, since this is about one user who waits and not about load.
func TestFromAnswerToNextRequest(t *testing.T) {
	const n = 30
	r := newRig(t, 0)
	r.create("ask", n)
	r.await("ask", n, v1alpha1.PhaseNeedsInput)
	answered := map[string]time.Time{}
	for i := range n {
		name := fmt.Sprintf("ask-%05d", i)
		answered[name] = time.Now()
		r.must(r.cluster.Client.Patch(r.Context(), &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}},
			client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"resumeInput":"yes"}}`))))
		<-time.After(100 * time.Millisecond)
	}
	r.await("ask", n, v1alpha1.PhaseSucceeded)
	var waits, firsts []time.Duration
	r.mu.Lock()
	for name, at := range answered {
		if calls := r.calls[name]; strings.HasPrefix(name, "ask") && len(calls) > 1 {
			waits = append(waits, calls[1].came.Sub(at))
		}
	}
	r.mu.Unlock()
	r.create("solo", 1)
	r.await("solo", 1, v1alpha1.PhaseSucceeded)
	firsts = r.firstRequests("solo")
	t.Logf("patch of resumeInput to next model request: p50 %s, p99 %s; one task alone, create to first request: %s", percentile(waits, 50), percentile(waits, 99), percentile(firsts, 50))
}
