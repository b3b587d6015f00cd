package envtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// wireTools is a tool server of Streamable HTTP that answers in its own bytes.
type wireTools struct {
	mu sync.Mutex
	// tools are the entries of its list, result is that of each call.
	tools, result string
	// lost answers a call in a session that is not the newest; nil knows every session.
	lost     func(w http.ResponseWriter, id string)
	sessions int
	// forgets: a session is lost after its first call.
	forgets bool
	calls   []string // the Authorization of each call that ran
}

func (s *wireTools) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"params"`
	}
	text, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || json.Unmarshal(text, &q) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	result := "{}"
	switch {
	case q.Method == "initialize":
		s.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprintf("session-%d", s.sessions))
		result = fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"wire","version":"1"}}`, q.Params.ProtocolVersion)
	case s.lost != nil && r.Header.Get("Mcp-Session-Id") != fmt.Sprintf("session-%d", s.sessions) || s.forgets && len(s.calls) == 1 && s.sessions == 1:
		s.lost(w, string(q.ID))
		return
	case len(q.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
		return
	case q.Method == "tools/list":
		result = `{"tools":[` + s.tools + `]}`
	case q.Method == "tools/call":
		s.calls = append(s.calls, r.Header.Get("Authorization"))
		result = s.result
	}
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}

func (s *wireTools) ran() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

const pingTool = `{"name":"ping","inputSchema":{"type":"object"}}`

// tools creates an AgentToolset.
func (f *fixture) tools(name string, s *wireTools, spec v1alpha1.AgentToolsetSpec) {
	f.Helper()
	server := httptest.NewServer(s)
	f.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	spec.URL = server.URL
	f.must(kube.Create(f.ctx, &v1alpha1.AgentToolset{ObjectMeta: f.meta(name), Spec: spec}))
}

// with names toolsets that a task waits for.
func with(names ...string) func(*v1alpha1.AgentTaskSpec) {
	return func(s *v1alpha1.AgentTaskSpec) {
		for _, n := range names {
			s.Toolsets = append(s.Toolsets, v1alpha1.ToolsetReference{Name: n, Required: new(true)})
		}
	}
}

// pings calls the tool in each of its first turns, and then completes.
func pings(turns int, id string) func(*wireRequest) wireAnswer {
	return func(r *wireRequest) wireAnswer {
		if r.Replies < turns {
			return calls(id, "set__ping", fmt.Sprintf(`{"n":%d}`, r.Replies))
		}
		return good
	}
}

func TestASchemaThatTheModelServerRefusesNamesItsToolAndEndsNothing(t *testing.T) {
	f := newFixture(t)
	f.tools("good", &wireTools{tools: pingTool}, v1alpha1.AgentToolsetSpec{})
	f.tools("bad", &wireTools{tools: `{"name":"query","inputSchema":{"type":"object","properties":{"list":{"type":"array"}}}}`}, v1alpha1.AgentToolsetSpec{})
	f.wire(v1alpha1.AgentModelSpec{}, func(r *wireRequest) wireAnswer {
		tools, _ := r.Body["tools"].([]any)
		for i, tool := range tools {
			if text, _ := json.Marshal(tool); strings.Contains(string(text), "bad__query") {
				return wireAnswer{400, fmt.Sprintf(`{"error":{"message":"The schema of function 'bad__query' is not valid: in properties.list an array needs items.","type":"invalid_request_error","param":"tools[%d].function.parameters","code":"invalid_function_parameters"}}`, i), false}
			}
		}
		return good
	})
	f.task("task", fieldLimits, with("good", "bad"))
	task := f.awaitExit("task", v1alpha1.ExitCompleted)
	if c := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionToolsWithheld); c == nil || !strings.Contains(c.Message, "bad__query") {
		t.Errorf("no condition names the tool: %+v", c)
	}
}

func TestAnOddEntryOfAListLeavesTheOthers(t *testing.T) {
	for name, odd := range map[string]string{
		"annotations": `{"name":"odd","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}}`,
		"icons":       `{"name":"odd","inputSchema":{"type":"object"},"icons":{"src":"x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := &wireTools{tools: pingTool + "," + odd, result: `{"content":[{"type":"text","text":"pong"}]}`}
			f.tools("set", s, v1alpha1.AgentToolsetSpec{})
			f.wire(v1alpha1.AgentModelSpec{}, pings(1, "c1"))
			f.task("task", fieldLimits, with("set"))
			f.awaitExit("task", v1alpha1.ExitCompleted)
			if n := len(s.ran()); n != 1 {
				t.Errorf("%d calls ran", n)
			}
			f.poll("the status names the odd one", func(ctx context.Context) (bool, error) {
				set := &v1alpha1.AgentToolset{ObjectMeta: f.meta("set")}
				err := kube.Get(ctx, client.ObjectKeyFromObject(set), set)
				c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionReady)
				return c != nil && strings.Contains(c.Message, "odd"), err
			})
		})
	}
}

func TestALostSessionCostsAtMostATurnAndNoCallTwice(t *testing.T) {
	for name, lost := range map[string]func(http.ResponseWriter, string){
		"200": func(w http.ResponseWriter, id string) {
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"missing or unknown Mcp-Session-Id"}}`, id)
		},
		"503": func(w http.ResponseWriter, id string) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"Session not found"}}`, id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := &wireTools{tools: pingTool, result: `{"content":[{"type":"text","text":"pong"}]}`, lost: lost, forgets: true}
			f.tools("set", s, v1alpha1.AgentToolsetSpec{})
			model := f.wire(v1alpha1.AgentModelSpec{}, pings(5, "c1"))
			f.task("task", fieldLimits, with("set"))
			f.awaitExit("task", v1alpha1.ExitCompleted)
			seen := model.seen()
			if pongs := strings.Count(seen[len(seen)-1].Text, "pong"); pongs < 4 || len(s.ran()) != pongs {
				t.Errorf("of 5 calls %d ran, and %d gave a result", len(s.ran()), pongs)
			}
		})
	}
}

func TestAnUnknownBlockOfAResultIsNotItsLoss(t *testing.T) {
	for name, tc := range map[string]struct{ result, want string }{
		"beside text":       {`{"content":[{"type":"text","text":"order 17 placed"},{"type":"json","json":{"id":17}}]}`, "order 17 placed"},
		"beside structured": {`{"content":[{"type":"ui","uri":"x"}],"structuredContent":{"id":17}}`, `17`},
	} {
		f := newFixture(t)
		f.tools("set", &wireTools{tools: pingTool, result: tc.result}, v1alpha1.AgentToolsetSpec{})
		model := f.wire(v1alpha1.AgentModelSpec{}, pings(1, "c1"))
		f.task("task", fieldLimits, with("set"))
		f.awaitExit("task", v1alpha1.ExitCompleted)
		if text := model.seen()[1].Text; !strings.Contains(text, tc.want) || strings.Contains(text, "lost") {
			t.Errorf("%s: the model was sent %s", name, text)
		}
	}
}

func TestOneIDForAllCallsOfATask(t *testing.T) {
	f := newFixture(t)
	s := &wireTools{tools: pingTool, result: `{"content":[{"type":"text","text":"pong"}]}`}
	f.tools("set", s, v1alpha1.AgentToolsetSpec{})
	f.wire(v1alpha1.AgentModelSpec{}, func(r *wireRequest) wireAnswer {
		ids, messages := map[any]bool{}, r.Body["messages"].([]any)
		for _, m := range messages {
			made, _ := m.(map[string]any)["tool_calls"].([]any)
			for _, c := range made {
				if id := c.(map[string]any)["id"]; ids[id] {
					return wireAnswer{400, `{"error":{"message":"duplicate tool_call_id"}}`, false}
				} else {
					ids[id] = true
				}
			}
		}
		return pings(3, "call_0")(r)
	})
	f.task("task", fieldLimits, with("set"))
	f.awaitExit("task", v1alpha1.ExitCompleted)
}

func TestALastCallWithoutToolsAfterCalls(t *testing.T) {
	f := newFixture(t)
	f.tools("set", &wireTools{tools: pingTool, result: `{"content":[{"type":"text","text":"pong"}]}`}, v1alpha1.AgentToolsetSpec{})
	f.wire(v1alpha1.AgentModelSpec{}, func(r *wireRequest) wireAnswer {
		tools, _ := r.Body["tools"].([]any)
		switch {
		case r.Replies < 2:
			return pings(2, fmt.Sprintf("c%d", r.Replies))(r)
		case len(tools) == 0:
			return wireAnswer{400, `{"error":{"message":"The conversation has tool messages, so 'tools' must be set as well.","type":"invalid_request_error","param":null,"code":null}}`, false}
		}
		return says("Two of three steps are done.")
	})
	f.task("task", with("set"), func(s *v1alpha1.AgentTaskSpec) { s.MaxIterations, s.OnLimit = new(int32(2)), v1alpha1.LimitWrapUp })
	if out := f.awaitExit("task", v1alpha1.ExitIterationCapReached).Status.Output; out != "Two of three steps are done." {
		t.Errorf("the output is %q", out)
	}
}

func TestTwoToolsInTurnWithTheSameResultsAreNoProgress(t *testing.T) {
	f := newFixture(t)
	f.tools("set", &wireTools{tools: pingTool + `,{"name":"pong","inputSchema":{"type":"object"}}`, result: `{"content":[{"type":"text","text":"ok"}]}`}, v1alpha1.AgentToolsetSpec{})
	f.wire(v1alpha1.AgentModelSpec{}, func(r *wireRequest) wireAnswer {
		return calls(fmt.Sprintf("c%d", r.Replies), []string{"set__ping", "set__pong"}[r.Replies%2], "{}")
	})
	f.task("task", fieldLimits, with("set"), func(s *v1alpha1.AgentTaskSpec) { s.NoProgressTurns = new(int32(4)) })
	if n := *f.awaitExit("task", v1alpha1.ExitNoProgress).Status.Iterations; n != 4 {
		t.Errorf("after %d turns", n)
	}
}

func TestARotatedKeyOfAToolServerServesTheNextCall(t *testing.T) {
	f := newFixture(t)
	secret := &corev1.Secret{ObjectMeta: f.meta("key"), StringData: map[string]string{"k": "old"}}
	f.must(kube.Create(f.ctx, secret))
	s := &wireTools{tools: pingTool, result: `{"content":[{"type":"text","text":"pong"}]}`}
	f.tools("set", s, v1alpha1.AgentToolsetSpec{Auth: &v1alpha1.Auth{SecretRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "k"}}})
	f.wire(v1alpha1.AgentModelSpec{}, func(r *wireRequest) wireAnswer {
		if r.Replies == 2 {
			secret.StringData = map[string]string{"k": "new"}
			f.must(kube.Update(f.ctx, secret))
		}
		return pings(5, fmt.Sprintf("c%d", r.Replies))(r)
	})
	f.task("task", fieldLimits, with("set"))
	f.awaitExit("task", v1alpha1.ExitCompleted)
	if got, want := s.ran(), []string{"Bearer old", "Bearer old", "Bearer new", "Bearer new", "Bearer new"}; !slices.Equal(got, want) {
		t.Errorf("the calls had %q, want %q", got, want)
	}
}
