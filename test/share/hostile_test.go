//go:build share

package share

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// hostile is the namespace of those who mean no good.
const hostile = "hostile"

// beside measures ordinary tasks alone and beside what attack sets up, which may make them take most times as long, and kills the operator some times meanwhile. Nothing of the
// ordinary tasks may come to another end, and the operator's memory is held to the chart's limit.
func beside(t *testing.T, most float64, attack func(r *rig), args ...string) {
	n, steady, rounds, restarts, busy := 50, 40, 5, 3, time.Second
	if testing.Short() {
		n, steady, rounds, restarts, busy = 20, 5, 1, 1, 150*time.Millisecond
	}
	r := newRig(t)
	r.model(namespace, "default", steps(steady))
	r.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hostile}})
	o := r.operator("manager", args...)
	_, err := r.pace("warmup", n)
	r.must(err)
	measure := func(prefix string) (all []time.Duration) {
		for round := range rounds {
			took, err := r.pace(fmt.Sprintf("%s-%d", prefix, round), n)
			r.must(err)
			all = append(all, took)
		}
		slices.Sort(all)
		return all
	}
	alone := measure("alone")
	attack(r)
	crowd := measure("beside")
	ratio := float64(crowd[rounds/2]) / float64(alone[rounds/2])
	t.Logf("%d tasks of %d turns: alone %v, beside %v, ratio of the medians %.2f; %s after it", n, steady, alone, crowd, ratio, mib(rss(o)))
	if ratio > most && !testing.Short() {
		t.Errorf("it took %.2f times as long, want at most %.1f", ratio, most)
	}
	// What an operator reads at its start is what others have written.
	for restart := range restarts {
		r.create(tasks(fmt.Sprintf("restart-%d", restart), n)...)
		<-time.After(busy)
		o.kill()
		o = r.operator(fmt.Sprintf("manager-%d", restart), args...)
		r.await("the ends of ordinary tasks after a restart", time.Minute, n, are(fmt.Sprintf("restart-%d", restart), v1alpha1.PhaseSucceeded))
		t.Logf("restart %d: %s", restart, mib(rss(o)))
	}
}

func rss(o *operator) int64 {
	o.look()
	return o.peak.Load()
}

// The four tasks take every turn that they can get, each with the longest reply that a journal takes, and show none of them again.
func TestHostileConversationsOfOneNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		why  string
		spec func(*v1alpha1.AgentTaskSpec)
	}{
		"Fresh": {"nothing of what was said is needed again", func(s *v1alpha1.AgentTaskSpec) {
			s.Context = &v1alpha1.ContextPolicy{Mode: v1alpha1.ContextFresh, ProgressLog: new(false)}
		}},
		"Accumulate": {"all of it is sent again, as long as no window is known", func(*v1alpha1.AgentTaskSpec) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Log(c.why)
			beside(t, 1.2, func(r *rig) {
				r.create(&v1alpha1.AgentModel{ObjectMeta: metav1.ObjectMeta{Namespace: hostile, Name: "default"}, Spec: v1alpha1.AgentModelSpec{
					Provider: v1alpha1.ProviderScripted, Scripted: &v1alpha1.Script{Replies: []v1alpha1.ScriptedReply{{Text: new(strings.Repeat("é", 64<<10))}}},
				}})
				for i := range 4 {
					task := task(fmt.Sprint("hog-", i), in(hostile), turns(10_000))
					task.Spec.NoProgressTurns = new(int32(0))
					c.spec(&task.Spec)
					r.create(task)
				}
			}, "--max-journal-bytes=1Gi")
		})
	}
}

// Each toolset's server lists what only just may be listed.
func TestHostileListsOfTools(t *testing.T) {
	beside(t, 1.2, func(r *rig) { r.longToolsets() })
}

// Tasks that send such lists with every request take much of the processor, as does every task whose requests are as long as can be.
// Of memory they must not.
func TestHostileRequests(t *testing.T) {
	beside(t, 3, func(r *rig) {
		r.longToolsets()
		r.model(hostile, "default", steps(10_000))
		for i := range 20 {
			task := task(fmt.Sprint("hog-", i), in(hostile), turns(10_000))
			task.Spec.Toolsets = []v1alpha1.ToolsetReference{{Name: fmt.Sprint("long-", i)}}
			r.create(task)
		}
	})
}

// longToolsets are 80 toolsets with the longest lists.
func (r *rig) longToolsets() {
	server := httptest.NewServer(longList(2<<20 - 64<<10))
	r.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	var toolsets []client.Object
	for i := range 80 {
		toolsets = append(toolsets, &v1alpha1.AgentToolset{ObjectMeta: metav1.ObjectMeta{Namespace: hostile, Name: fmt.Sprint("long-", i)},
			Spec: v1alpha1.AgentToolsetSpec{URL: server.URL}})
	}
	r.create(toolsets...)
}

// longList is a tool server whose list of tools takes so many bytes, most of them small parts of schemas: decoded, they take the most.
func longList(size int) http.Handler {
	var properties strings.Builder
	for i := 0; properties.Len() < size/50; i++ {
		fmt.Fprintf(&properties, `"p%d":{"type":"string","enum":["a","b"]},`, i)
	}
	var tools []string
	for i := range 50 {
		tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object","properties":{%s"last":{}}}}`, i, properties.String()))
	}
	list := `{"tools":[` + strings.Join(tools, ",") + `]}`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ProtocolVersion string `json:"protocolVersion"`
			} `json:"params"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&call) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		result := "{}"
		switch {
		case len(call.ID) == 0:
			w.WriteHeader(http.StatusAccepted)
			return
		case call.Method == "initialize":
			result = fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"long","version":"1"}}`, call.Params.ProtocolVersion)
		case call.Method == "tools/list":
			result = list
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(call.ID)+`,"result":`+result+"}")
	})
}
