package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxPages and maxTools bound what one server may list.
	maxPages = 1000
	maxTools = 10000
	// maxListBytes bounds what they take: every task that uses the toolset sends it with every request. maxPageBytes bounds a page as it
	// is read: decoded, one takes some ten times as much.
	maxListBytes = 2 << 20
	maxPageBytes = maxListBytes + maxListBytes/2
)

// list reads all pages of the server's tools. It asks room for what they take. Odd names the first entries that are not as they should be.
func (s *session) list(ctx context.Context, room *listRoom) (tools []listed, odd []string, ex *exchange, err error) {
	seen := map[string]bool{}
	for cursor, size := "", 0; ; {
		page, next, ex, err := s.page(ctx, cursor)
		var rpc *jsonrpc.Error
		if errors.As(err, &rpc) && rpc.Code == jsonrpc.CodeMethodNotFound {
			return tools, odd, ex, nil // a server without tools
		}
		if err != nil {
			return nil, nil, ex, err
		}
		more := 0
		for _, t := range page {
			more += len(t.Name) + len(t.Description) + len(t.schema)
		}
		switch size += more; {
		case size > maxListBytes:
			return nil, nil, ex, errLongList
		case !room.add(more):
			return nil, nil, ex, errNoRoom
		}
		tools = append(tools, page...)
		if len(odd) < maxTools {
			odd = append(odd, ex.facts().odd...)
		}
		if cursor = next; cursor == "" {
			return tools, odd, ex, nil
		}
		if seen[cursor] || len(seen) >= maxPages || len(tools) > maxTools {
			return nil, nil, ex, errEndlessList
		}
		seen[cursor] = true
	}
}

// page reads one page, and tells where the next begins.
func (s *session) page(ctx context.Context, cursor string) (page []listed, next string, ex *exchange, err error) {
	ex = &exchange{}
	defer ex.end()
	res, err := s.cs.ListTools(withExchange(ctx, ex), &sdk.ListToolsParams{Cursor: cursor})
	if err != nil {
		if ex.facts().tooLarge {
			err = errLongList
		}
		return nil, "", ex, err
	}
	// What asks for headers in a way that the SDK does not know it has left out.
	kept := map[string]bool{}
	for _, t := range res.Tools {
		kept[t.Name] = true
	}
	page = slices.DeleteFunc(ex.facts().listed, func(t listed) bool { return t.asksForHeaders && !kept[t.Name] })
	return page, res.NextCursor, ex, nil
}

var errLongList = fmt.Errorf("the server's list of tools takes more than %d MiB", maxListBytes>>20)

var errNoRoom = errors.New("the operator has no memory left for its list of tools: let the server list fewer, remove toolsets that nobody uses, or give the operator more memory")

var errEndlessList = fmt.Errorf("the server's list of tools does not end within %d tools or %d pages", maxTools, maxPages)

// uncached keeps the SDK from answering for the server: when a list is read again is the entry's to say, not the server's.
func uncached(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		if list, ok := res.(*sdk.ListToolsResult); ok && err == nil {
			list.TTLMs = 0
		}
		return res, err
	}
}
