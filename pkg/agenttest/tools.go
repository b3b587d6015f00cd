package agenttest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// Tool is a tool as a function.
type Tool struct {
	Name, Description string
	// Schema is the JSON Schema of its arguments; nil means any object.
	Schema map[string]any
	// Run runs a call. An error is one that the model is told. Nil gives an empty result.
	Run func(ctx context.Context, arguments json.RawMessage) (string, error)
}

// ToolServer is an MCP server of some tools.
type ToolServer struct {
	// URL is its endpoint.
	URL string

	mu   sync.Mutex
	runs map[string]int
}

// ServeTools serves tools until the test ends.
func ServeTools(t testing.TB, tools ...Tool) *ToolServer {
	s := &ToolServer{runs: map[string]int{}}
	server := mcp.NewServer(&mcp.Implementation{Name: "agenttest", Version: "1"}, nil)
	for _, tool := range tools {
		schema := tool.Schema
		if schema == nil {
			schema = map[string]any{"type": "object"}
		}
		server.AddTool(&mcp.Tool{Name: tool.Name, Description: tool.Description, InputSchema: schema}, s.run(tool))
	}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	s.URL = web.URL
	return s
}

func (s *ToolServer) run(tool Tool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.mu.Lock()
		s.runs[tool.Name]++
		s.mu.Unlock()
		result := &mcp.CallToolResult{}
		if tool.Run == nil {
			return result, nil
		}
		text, err := tool.Run(ctx, req.Params.Arguments)
		if err != nil {
			text, result.IsError = err.Error(), true
		}
		result.Content = []mcp.Content{&mcp.TextContent{Text: text}}
		return result, nil
	}
}

// Runs is how often a tool ran.
func (s *ToolServer) Runs(tool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[tool]
}

// AgentToolset is an AgentToolset on this server. A model knows its tools as name__tool. Nobody need approve their calls.
func (s *ToolServer) AgentToolset(namespace, name string) *v1alpha1.AgentToolset {
	return &v1alpha1.AgentToolset{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.AgentToolsetSpec{URL: s.URL, RequireApproval: v1alpha1.ApprovalNever},
	}
}
