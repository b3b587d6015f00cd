//go:build bench

package bench

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/harness"
)

var most = flag.Int("most", 5000, "the largest number of tasks at once")

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
				o.ManagedFields = []metav1.ManagedFieldsEntry{{}} // as the operator's appends
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

// The tasks are there before the operator starts, so that its writes have the API server for themselves.
func TestDrainWithoutLatency(t *testing.T) {
	r := newRig(t, 0)
	r.serveTools()
	t.Logf("API server alone: %.0f updates/s of 1 KiB, %.0f of 4 KiB, by %d writers", r.rawLimit(1<<10, 5*time.Second), r.rawLimit(4<<10, 5*time.Second), writers)
	for _, run := range []struct {
		prefix       string
		tasks, turns int
	}{{"drain100", 100, 5}, {"drain1000", 1000, 5}, {"drain5000", 5000, 5}, {"long", 500, 20}, {"tools", 1000, 5}} {
		if run.tasks > *most {
			continue
		}
		r.turns = run.turns
		limit := r.rawLimit(4<<10, 4*time.Second)
		r.create(run.prefix, run.tasks, 0)
		before := r.writes()
		r.start()
		end := r.await(run.prefix, run.tasks, v1alpha1.PhaseSucceeded)
		w := since(r.writes(), before)
		took, turns := end.Sub(r.firstCall(run.prefix)), run.tasks*run.turns
		rss, cpu := r.rss(), r.cpu()
		r.stop()
		limit = (limit + r.rawLimit(4<<10, 4*time.Second)) / 2 // the machine's speed drifts
		perSecond := float64(total(w)) / took.Seconds()
		t.Logf("%s: %d tasks of %d turns: %s, %.0f turns/s, %.2f writes a turn, %.0f writes/s (%.0f%% of the %.0f of 4 KiB), overhead p50 %s p99 %s, peak RSS %d MiB, CPU %.1f s; %v",
			run.prefix, run.tasks, run.turns, took.Round(10*time.Millisecond), float64(turns)/took.Seconds(), float64(total(w))/float64(turns),
			perSecond, 100*perSecond/limit, limit, harness.Percentile(r.overheads(run.prefix), 50), harness.Percentile(r.overheads(run.prefix), 99), rss, cpu, w)
	}
}

// serveTools makes the toolset that the tasks named tools use.
func (r *rig) serveTools() {
	r.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	type in struct {
		Step int `json:"step"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "look", Description: "Looks."},
		func(_ context.Context, _ *mcp.CallToolRequest, in in) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("All is well at step %d.", in.Step)}}}, nil, nil
		})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	r.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	r.must(r.cluster.Client.Create(r.Context(), &v1alpha1.AgentToolset{
		ObjectMeta: metav1.ObjectMeta{Name: "bench", Namespace: namespace}, Spec: v1alpha1.AgentToolsetSpec{URL: web.URL},
	}))
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
	for _, run := range []struct {
		prefix string
		tasks  int
		within time.Duration
	}{{"few", 30, time.Second}, {"evenly", 100, time.Second}, {"burst100", 100, 0}, {"burst500", 500, 0}, {"burst1000", 1000, 0}, {"burst5000", 5000, 0}} {
		if run.tasks > *most {
			continue
		}
		r.start()
		r.ready()
		before := r.writes()
		start := time.Now()
		r.create(run.prefix, run.tasks, run.within)
		took := r.await(run.prefix, run.tasks, v1alpha1.PhaseSucceeded).Sub(start)
		w := since(r.writes(), before)
		t.Logf("%s: %d tasks of %d one-second turns: %s, %.2f writes a turn, create to first request p50 %s p99 %s, overhead p50 %s p99 %s, peak RSS %d MiB, CPU %.1f s; %v",
			run.prefix, run.tasks, r.turns, took.Round(10*time.Millisecond), float64(total(w)-w["agenttasks"])/float64(run.tasks*r.turns),
			harness.Percentile(r.firstRequests(run.prefix), 50), harness.Percentile(r.firstRequests(run.prefix), 99),
			harness.Percentile(r.overheads(run.prefix), 50), harness.Percentile(r.overheads(run.prefix), 99), r.rss(), r.cpu(), w)
		r.stop()
	}
}

// A few tasks at a time, since this is about one user who waits and not about load.
func TestFromAnswerToNextRequest(t *testing.T) {
	const n = 30
	r := newRig(t, 0)
	r.start()
	r.ready()
	r.create("ask", n, 0)
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
	r.create("solo", 1, 0)
	r.await("solo", 1, v1alpha1.PhaseSucceeded)
	firsts = r.firstRequests("solo")
	t.Logf("patch of resumeInput to next model request: p50 %s, p99 %s; one task alone, create to first request: %s", harness.Percentile(waits, 50), harness.Percentile(waits, 99), harness.Percentile(firsts, 50))
}
