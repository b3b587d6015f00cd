package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// toolset is the name of the scenarios' toolset. It sorts between the names of the built-in tools as the scenarios' own
// tools do, so that lists of names read the same.
const toolset, toolPrefix = "server", "server__"

// plainNames takes the toolset's name out of a text.
func plainNames(text string) string { return strings.ReplaceAll(text, toolPrefix, "") }

// visible is the name by which the model knows a tool.
func (p *player) visible(name string) string {
	for _, t := range p.tools {
		if t.Name == name && !loop.IsBuiltin(name) {
			return toolPrefix + name
		}
	}
	return name
}

// wireArguments are a call's arguments. Calls that differ by nothing but their id are told apart by them, since a tool
// server is not told the id.
func wireArguments(c *looptest.Call) string {
	if c.ID != "" && c.Arguments == "" {
		return fmt.Sprintf(`{"call":%q}`, c.ID)
	}
	return c.Arguments
}

// toolServer is a real MCP server whose tools answer as the scenario says.
type toolServer struct {
	url   string
	clock *looptest.Clock
	// died gets a value when a tool's call is to be the operator's end.
	died chan struct{}
	gone <-chan struct{}

	mu    sync.Mutex
	tools []looptest.Tool
	// calls are those of the last reply that had any, used which of them ran.
	calls []looptest.Call
	used  []bool
	runs  map[string]int
}

func (p *player) serveTools() *toolServer {
	s := &toolServer{clock: p.clock, died: make(chan struct{}, 1), gone: p.Context().Done(), runs: map[string]int{}}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.server() }, nil)
	server := httptest.NewServer(handler)
	p.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.url = server.URL
	return s
}

// server has the tools that are offered now.
func (s *toolServer) server() *mcp.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := mcp.NewServer(&mcp.Implementation{Name: "scenario", Version: "1"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	for _, t := range s.tools {
		tool := &mcp.Tool{Name: t.Name, Description: t.Digest, InputSchema: map[string]any{"type": "object"}}
		if t.Repeatable {
			tool.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: true}
		}
		out.AddTool(tool, s.call)
	}
	return out
}

// script sets what the calls of the next reply give.
func (s *toolServer) script(calls []looptest.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.used = calls, make([]bool, len(calls))
}

func (s *toolServer) offer(tools []looptest.Tool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
}

func (s *toolServer) ran() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for name, n := range s.runs {
		out[name] = n
	}
	return out
}

func (s *toolServer) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c, run := s.began(req.Params.Name, req.Params.Arguments)
	if c == nil {
		return nil, fmt.Errorf("no such call in the scenario: %s %s", req.Params.Name, req.Params.Arguments)
	}
	if s.clock != nil {
		s.clock.Add(c.Takes)
	}
	if c.Crash && run == 1 {
		if err := s.othersRan(ctx, c.Name); err != nil {
			return nil, err
		}
		s.died <- struct{}{}
		select {
		case <-ctx.Done():
		case <-s.gone:
		}
		return nil, fmt.Errorf("the operator is dead")
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: c.Result}}, IsError: c.IsError}, nil
}

// began finds the call in the scenario, and counts it. Of calls that look the same, the first that has not run is taken.
func (s *toolServer) began(name string, arguments json.RawMessage) (found *looptest.Call, run int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[name]++
	at := -1
	for i := range s.calls {
		if s.calls[i].Name == name && sameJSON(wireArguments(&s.calls[i]), string(arguments)) && (at < 0 || s.used[at] && !s.used[i]) {
			at = i
		}
	}
	if at < 0 {
		return nil, 0
	}
	s.used[at] = true
	return &s.calls[at], s.runs[name]
}

func sameJSON(a, b string) bool {
	var x, y map[string]any
	_, _ = json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)
	return len(x) == 0 && len(y) == 0 || reflect.DeepEqual(x, y)
}

// othersRan waits until the other tools of the reply ran: the calls of a reply run at once, and the scenario says that it is
// this one during which the operator dies. Those that need approval may have been denied.
func (s *toolServer) othersRan(ctx context.Context, but string) error {
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.calls {
			if c.Name == but || loop.IsBuiltin(c.Name) {
				continue
			}
			for _, t := range s.tools {
				if t.Name == c.Name && !t.RequireApproval && s.runs[c.Name] == 0 {
					return false, nil
				}
			}
		}
		return true, nil
	})
}

// toolsetSpec is the toolset for what the scenario offers. Its address changes with each offer, as a new deployment's would.
func (p *player) toolsetSpec() v1alpha1.AgentToolsetSpec {
	p.offers++
	trust := true
	sp := v1alpha1.AgentToolsetSpec{URL: fmt.Sprintf("%s/%d", p.kit.url, p.offers), TrustAnnotations: &trust}
	for _, t := range p.tools {
		if t.RequireApproval {
			sp.ApprovalTools = append(sp.ApprovalTools, t.Name)
		}
	}
	return sp
}

// offer replaces what the toolset offers, and waits until the operator knows, if there is one.
func (p *player) offer(tools []looptest.Tool) {
	p.Helper()
	p.tools = tools
	p.kit.offer(tools)
	set := &v1alpha1.AgentToolset{ObjectMeta: p.meta(toolset)}
	p.must(kube.Get(p.ctx, keyOf(set), set))
	set.Spec = p.toolsetSpec()
	p.must(kube.Update(p.ctx, set))
	if p.op != nil {
		p.known(&v1alpha1.AgentToolset{ObjectMeta: p.meta(toolset)}, set.Generation)
	}
}
