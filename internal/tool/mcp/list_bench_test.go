package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The longest list that is read: it is decoded in the operator's own process, and many toolsets may have one.
func BenchmarkLongestList(b *testing.B) {
	var entries []string
	const one = `{"name":"tool_%04d","description":"Looks something up.","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"What to look for."},"limit":{"type":"integer","minimum":1,"maximum":100},"filter":{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"}}}},"required":["query"]}}`
	for size := 0; size < maxListBytes*9/10; size += len(one) {
		entries = append(entries, fmt.Sprintf(one, len(entries)))
	}
	s := &shaped{tools: strings.Join(entries, ",")}
	srv := httptest.NewServer(s)
	defer srv.Close()
	cfg := Config{Name: "ts", URL: srv.URL, RequireApproval: ApproveNever, HTTP: &http.Client{Transport: &http.Transport{}}, ConnectTimeout: time.Minute}
	p := NewPool()
	sess, _, err := p.connect(b.Context(), cfg.withDefaults(), func() {})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Shutdown(context.Background())
	b.ReportAllocs()
	b.SetBytes(int64(len(s.tools)))
	for b.Loop() {
		tools, _, _, err := sess.list(b.Context(), &listRoom{})
		if err != nil || len(tools) != len(entries) {
			b.Fatal(len(tools), err)
		}
	}
}
