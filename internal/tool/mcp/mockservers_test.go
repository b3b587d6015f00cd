//go:build mockservers

package mcp

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

const everything = "@modelcontextprotocol/server-everything/dist/index.js"

// callAs calls a tool of a set by its name at the server.
func callAs(t *testing.T, set *Set, name, args string) loop.ToolResult {
	t.Helper()
	return set.Call(t.Context(), loop.ToolCall{ID: "1", Name: "ts__" + name, Arguments: args})
}

func TestPublicServerEverything(t *testing.T) {
	transports := map[string]struct {
		arg, path string
		transport Transport
	}{
		"StreamableHTTP": {"streamableHttp", "/mcp", StreamableHTTP},
		"SSE":            {"sse", "/sse", SSE},
	}
	for name, tc := range transports {
		t.Run(name, func(t *testing.T) {
			addr := modeltest.StartNode(t, modeltest.NodeServer{
				Script: everything, Args: []string{tc.arg}, Env: []string{"PORT=$PORT"},
			})
			cfg := Config{
				Name: "ts", URL: "http://" + addr + tc.path, Transport: tc.transport,
				RequireApproval: ApproveDestructive, ApprovalTools: []string{"get-env"}, TrustAnnotations: true,
			}
			set := resolve(t, newPool(t), loop.Pins{}, Source{Key: "k", Config: cfg, Required: true})
			for _, d := range set.Definitions {
				if d.Name == "ts__echo" && (d.RequireApproval || !d.Repeatable) {
					t.Errorf("echo is marked read-only: %+v", d)
				}
				if d.Name == "ts__get-env" && !d.RequireApproval {
					t.Error("get-env is listed and needs no approval")
				}
			}
			wantContent(t, callAs(t, set, "echo", `{"message":"hi"}`), false, "Echo: hi")
			wantContent(t, callAs(t, set, "get-sum", `{"a":2,"b":3}`), false, "is 5")
			wantContent(t, callAs(t, set, "get-sum", `{"a":"x"}`), true, "expected number")
			wantContent(t, callAs(t, set, "get-tiny-image", ""), false, "[image image/png, ", " bytes, not shown]")
			wantContent(t, callAs(t, set, "get-resource-links", `{"count":2}`), false, "[resource link Text Resource 2 demo://")
			wantContent(t, callAs(t, set, "get-resource-reference", `{"resourceType":"Text","resourceId":1}`), false, "[resource demo://")
			wantContent(t, callAs(t, set, "trigger-long-running-operation", `{"duration":1,"steps":2}`), false, "completed")
			got := callAs(t, set, "get-structured-content", `{"location":"Chicago"}`)
			if wantContent(t, got, false, "temperature"); strings.Count(got.Content, "temperature") != 1 {
				t.Errorf("the structured content is there twice: %q", got.Content)
			}
		})
	}
}

func TestPublicServerMemoryThroughSupergateway(t *testing.T) {
	dir := modeltest.NPM(t)
	server := filepath.Join(dir, "node_modules", "@modelcontextprotocol", "server-memory", "dist", "index.js")
	for _, stateful := range []string{"", "--stateful"} {
		t.Run("Gateway"+stateful, func(t *testing.T) {
			args := []string{"--stdio", "node " + server, "--outputTransport", "streamableHttp", "--port", "$PORT"}
			if stateful != "" {
				args = append(args, stateful)
			}
			addr := modeltest.StartNode(t, modeltest.NodeServer{
				Script: "supergateway/dist/index.js", Args: args,
				Env: []string{"MEMORY_FILE_PATH=" + filepath.Join(t.TempDir(), "memory.jsonl")},
			})
			cfg := Config{Name: "ts", URL: "http://" + addr + "/mcp", RequireApproval: ApproveNever}
			set := resolve(t, newPool(t), loop.Pins{}, Source{Key: "k", Config: cfg, Required: true})
			const entity = `{"entities":[{"name":"Ada","entityType":"person","observations":["writes programs"]}]}`
			wantContent(t, callAs(t, set, "create_entities", entity), false, "Ada")
			wantContent(t, callAs(t, set, "search_nodes", `{"query":"programs"}`), false, "Ada", "writes programs")
			wantContent(t, callAs(t, set, "create_entities", `{"entities":7}`), true, "entities")
		})
	}
}

// node22 is a Node.js new enough for the conformance runner: the package of hack/npm brings one for Linux.
func node22(t *testing.T, dir string) string {
	t.Helper()
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	bundled := filepath.Join(dir, "node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node")
	if exec.Command(bundled, "--version").Run() == nil {
		return bundled
	}
	return "node"
}

func TestConformanceRunnerOfTheMCPProject(t *testing.T) {
	dir := modeltest.NPM(t)
	client := filepath.Join(t.TempDir(), "client")
	build := exec.Command("go", "build", "-o", client, "github.com/agentloop-dev/agenttask-operator/test/conformanceclient")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runner := filepath.Join(dir, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
	for _, scenario := range []string{"initialize", "tools_call", "sse-retry"} {
		t.Run(scenario, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), node22(t, dir), runner, "client",
				"--command", client, "--scenario", scenario, "--output-dir", t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "OVERALL: PASSED") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
