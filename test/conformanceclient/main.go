// Command conformanceclient is the client that the MCP project's conformance runner tests: it lists the tools of the server
// whose URL is its last argument, calls each once, and fails when a call does. It is made of the operator's own pool.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
)

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: conformanceclient URL")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	pool := mcp.NewPool()
	defer func() { _ = pool.Shutdown(ctx) }()
	source := mcp.Source{Key: "server", Required: true, Config: mcp.Config{
		Name: "server", URL: args[len(args)-1], RequireApproval: mcp.ApproveNever,
	}}
	set, err := pool.Resolve(ctx, []mcp.Source{source}, loop.Pins{})
	if err != nil {
		return err
	}
	for _, def := range set.Definitions {
		result := set.Call(ctx, loop.ToolCall{ID: "1", Name: def.Name, Arguments: arguments(def.InputSchema)})
		fmt.Printf("%s: %s\n", def.Name, result.Content)
		if result.IsError {
			return fmt.Errorf("%s failed", def.Name)
		}
	}
	return nil
}

// arguments makes some value for every property that the schema names.
func arguments(schema json.RawMessage) string {
	var s struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	if len(schema) > 0 && json.Unmarshal(schema, &s) != nil {
		return "{}"
	}
	values := map[string]any{}
	for name, p := range s.Properties {
		switch p.Type {
		case "number", "integer":
			values[name] = 5
		case "boolean":
			values[name] = true
		case "string":
			values[name] = "x"
		}
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return "{}"
	}
	return string(raw)
}
