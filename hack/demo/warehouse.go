package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type item struct {
	Item  string `json:"item"`
	Boxes int    `json:"boxes,omitempty"`
}

// warehouse is the MCP server of the sample with tools. It lives as long as the demo.
func warehouse() (url string) {
	server := mcp.NewServer(&mcp.Implementation{Name: "warehouse", Version: "1"}, nil)
	answer := func(format string, args ...any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}, nil, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: "get_stock", Description: "How many boxes of an item are left."},
		func(_ context.Context, _ *mcp.CallToolRequest, in item) (*mcp.CallToolResult, any, error) {
			return answer("%s: 2 boxes", in.Item)
		})
	mcp.AddTool(server, &mcp.Tool{Name: "order_item", Description: "Orders boxes of an item."},
		func(_ context.Context, _ *mcp.CallToolRequest, in item) (*mcp.CallToolResult, any, error) {
			return answer("ordered %d boxes of %s", in.Boxes, in.Item)
		})
	return httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)).URL
}
