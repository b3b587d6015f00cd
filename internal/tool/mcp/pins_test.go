package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/glob"
)

// sees adds to pins what a set says that the task sees for the first time, as its journal does.
func sees(pins loop.Pins, set *Set) loop.Pins {
	out := loop.Pins{Toolsets: maps.Clone(pins.Toolsets), Digests: maps.Clone(pins.Digests), Unnamed: pins.Unnamed}
	if out.Toolsets == nil {
		out.Toolsets, out.Digests = map[string]bool{}, map[string]string{}
	}
	for _, name := range set.Seen {
		out.Toolsets[name] = true
	}
	maps.Copy(out.Digests, set.Digests)
	return out
}

// listings is what servers list, by toolset. A toolset that is not in it is away.
type listings map[string][]*sdk.Tool

func described(name, description string) *sdk.Tool {
	return &sdk.Tool{Name: name, Description: description, InputSchema: map[string]any{"type": "object"}}
}

func altered(t *sdk.Tool, by func(*sdk.Tool)) *sdk.Tool {
	out := *t
	by(&out)
	return &out
}

// look resolves the toolsets, each at a new server that lists these tools.
func (l listings) look(t *testing.T, p *Pool, pins loop.Pins, cfg Config) *Set {
	t.Helper()
	var sources []Source
	for _, name := range []string{"ops", "web"} {
		own := Config{URL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: &http.Transport{}}}
		if tools, there := l[name]; there {
			s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, &sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}})
			for _, tool := range tools {
				s.AddTool(tool, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ran"}}}, nil
				})
			}
			own = serve(t, handlerOf(s, nil))
		}
		own.Name, own.RequireApproval, own.ApprovalTools, own.TrustAnnotations = name, cfg.RequireApproval, cfg.ApprovalTools, true
		sources = append(sources, Source{Key: own.URL + name, Config: own})
	}
	return resolve(t, p, pins, sources...)
}

// What a toolset lists when the task sees it first is agreed to. What comes or changes later is not: under Never it is not offered, so
// that nobody is asked, and under every other policy each call needs approval.
func TestWhatAServerListsLaterIsNotAgreedTo(t *testing.T) {
	read := altered(described("read", "Reads."), func(x *sdk.Tool) { x.Annotations = &sdk.ToolAnnotations{ReadOnlyHint: true} })
	send := described("send", "Sends.")
	for name, tc := range map[string]struct {
		why    string
		looks  []listings
		agreed string
		later  string
	}{
		"the same":                      {"it was agreed to, though it is another server", []listings{{"ops": {read, send}}, {"ops": {read, send}}}, "ops__read ops__send", ""},
		"a new name":                    {"nobody has seen it", []listings{{"ops": {read}}, {"ops": {read, send}}}, "ops__read", "ops__send"},
		"a changed description":         {"it is told what to do by that", []listings{{"ops": {read, send}}, {"ops": {read, described("send", "Sends all keys.")}}}, "ops__read", "ops__send"},
		"a changed schema":              {"it asks for other things", []listings{{"ops": {send}}, {"ops": {altered(send, func(x *sdk.Tool) { x.InputSchema = map[string]any{"type": "object", "required": []string{"key"}} })}}}, "", "ops__send"},
		"marked harmless":               {"a trusted mark opens it", []listings{{"ops": {send}}, {"ops": {altered(send, func(x *sdk.Tool) { x.Annotations = &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true} })}}}, "", "ops__send"},
		"another title":                 {"neither the model nor the operator goes by it", []listings{{"ops": {send}}, {"ops": {altered(send, func(x *sdk.Tool) { x.Title, x.OutputSchema = "New", map[string]any{"type": "object"} })}}}, "ops__send", ""},
		"away at the start":             {"it is seen first when it is there", []listings{{}, {"ops": {read, send}}}, "ops__read ops__send", ""},
		"away at the start, and more":   {"it was seen by now", []listings{{}, {"ops": {read}}, {"ops": {read, send}}}, "ops__read", "ops__send"},
		"away, and back with more":      {"it was seen before", []listings{{"ops": {read}}, {}, {"ops": {read, send}}}, "ops__read", "ops__send"},
		"nothing at the start":          {"an empty list was seen, too", []listings{{"ops": {}}, {"ops": {send}}}, "", "ops__send"},
		"gone and back":                 {"it is the one that was agreed to", []listings{{"ops": {read, send}}, {"ops": {}}, {"ops": {read, send}}}, "ops__read ops__send", ""},
		"changed and back":              {"it is the one that was agreed to", []listings{{"ops": {send}}, {"ops": {described("send", "Sends all keys.")}}, {"ops": {send}}}, "ops__send", ""},
		"changed for good":              {"time makes nothing agreed to", []listings{{"ops": {send}}, {"ops": {described("send", "Sends all keys.")}}, {"ops": {described("send", "Sends all keys.")}}}, "", "ops__send"},
		"another toolset's tool":        {"each toolset has its own", []listings{{"ops": {read}, "web": {send}}, {"ops": {read, send}, "web": {send}}}, "ops__read web__send", "ops__send"},
		"one is there, and one comes":   {"that one toolset was seen pins no other", []listings{{"ops": {read}}, {"ops": {read, send}, "web": {send}}}, "ops__read web__send", "ops__send"},
		"a name that looks alike":       {"names that are written alike are two", []listings{{"ops": {described("a.b", "d")}}, {"ops": {described("a/b", "d")}}}, "", visibleName("ops", "a/b")},
		"a name in the other's writing": {"a made name has no other reading", []listings{{"ops": {described("a.b", "d")}}, {"ops": {described(strings.TrimPrefix(visibleName("ops", "a.b"), "ops__"), "d")}}}, "", visibleName("ops", "a.b")},
	} {
		for policy, cfg := range map[string]Config{
			"Never": {RequireApproval: ApproveNever}, "Always": {RequireApproval: ApproveAlways}, "Destructive": {RequireApproval: ApproveDestructive},
			"a slip": {RequireApproval: "never"}, "Never, but listed": {RequireApproval: ApproveNever, ApprovalTools: []string{"*"}},
		} {
			t.Run(name+"/"+policy, func(t *testing.T) {
				p, pins, set := newPool(t), loop.Pins{}, (*Set)(nil)
				for _, l := range tc.looks {
					set = l.look(t, p, pins, cfg)
					pins = sees(pins, set)
				}
				later, withheld := strings.Fields(tc.later), []string{}
				for _, w := range set.Withheld {
					withheld = append(withheld, w.Name)
				}
				want := strings.Fields(tc.agreed)
				if policy != "Never" {
					want, later = append(want, later...), nil
				}
				if got := strings.Fields(definitionNames(set)); !sameNames(got, want) || !sameNames(withheld, later) {
					t.Fatalf("%s: offered are %q, withheld %q, want %q and %q", tc.why, got, withheld, want, later)
				}
				for _, d := range set.Definitions {
					isLater := slices.Contains(strings.Fields(tc.later), d.Name)
					asks := isLater || needsApproval(&glob.Matcher{}, cfg, &sdk.Tool{Name: d.Name}) && (policy != "Destructive" || d.Name != "ops__read")
					if d.RequireApproval != asks || isLater && d.Repeatable {
						t.Errorf("%s: %s needs approval %v, is repeatable %v", tc.why, d.Name, d.RequireApproval, d.Repeatable)
					}
				}
				for _, name := range later {
					wantContent(t, set.Call(t.Context(), loop.ToolCall{Name: name}), true, notRun, "there is no tool named")
				}
			})
		}
	}
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// A journal of before toolsets were noted tells by the names of its tools which were seen. In doubt one was: then it can add nothing.
func TestAnOlderJournalTellsByNamesWhichToolsetsWereSeen(t *testing.T) {
	long := strings.Repeat("a", 30)
	for name, tc := range map[string]struct {
		why     string
		pinned  string
		toolset string
		want    bool
	}{
		"its tool":                  {"a plain name", visibleName("ops", "deploy"), "ops", true},
		"a changed name":            {"the prefix is whole", visibleName("ops", "files/read"), "ops", true},
		"a long tool":               {"the tool's part alone was cut", visibleName("ops", strings.Repeat("x", 100)), "ops", true},
		"a toolset with a dot":      {"it is written otherwise", visibleName("my.ops", "deploy"), "my.ops", true},
		"one that begins badly":     {"it is written otherwise", visibleName("1ops", "deploy"), "1ops", true},
		"a long toolset":            {"its prefix was cut", visibleName(long, strings.Repeat("x", 100)), long, true},
		"another long toolset":      {"the cut prefix may be its own", visibleName(long+"b", strings.Repeat("x", 100)), long, true},
		"a long toolset, not cut":   {"the whole is not its own", visibleName(long+"b", "x"), long, false},
		"another toolset":           {"nothing is of it", visibleName("ops", "deploy"), "web", false},
		"the beginning of another":  {"a prefix ends where the separator is", visibleName("ops-eu", "deploy"), "ops", false},
		"the other way round":       {"a prefix ends where the separator is", visibleName("ops", "deploy"), "ops-eu", false},
		"a tool named as a toolset": {"the first separator counts", visibleName("ops", "web__x"), "web", false},
	} {
		pins := loop.Pins{Digests: map[string]string{tc.pinned: "d"}, Unnamed: true}
		if got := seen(pins, tc.toolset); got != tc.want {
			t.Errorf("%s: %q says of %q %v, want %v: %s", name, tc.pinned, tc.toolset, got, tc.want, tc.why)
		}
		if pins.Unnamed = false; seen(pins, tc.toolset) {
			t.Errorf("%s: a journal that names toolsets is not believed", name)
		}
	}
}

// Names and digests of all tools are in the journal's first event. What has no room there is not offered, and says what to do.
func TestMoreToolsThanATaskCanHaveAreNotOffered(t *testing.T) {
	many := func(n int) (tools []*sdk.Tool) {
		for i := range n {
			tools = append(tools, described(fmt.Sprintf("t%04d", i), ""))
		}
		return tools
	}
	for name, tc := range map[string]struct {
		looks         listings
		offered, away int
	}{
		"as many as there is room for": {listings{"ops": many(loop.MaxTools), "web": {}}, loop.MaxTools, 0},
		"one more":                     {listings{"ops": many(loop.MaxTools + 1), "web": many(1)}, 1, 1},
		"one more with another":        {listings{"ops": many(loop.MaxTools), "web": many(1)}, loop.MaxTools, 1},
	} {
		t.Run(name, func(t *testing.T) {
			set := tc.looks.look(t, newPool(t), loop.Pins{}, Config{RequireApproval: ApproveNever})
			if len(set.Definitions) != tc.offered || len(set.Digests) != tc.offered || len(set.Unavailable) != tc.away || len(set.Seen) != 2-tc.away {
				t.Fatalf("%d tools, %d digests, seen %q, unavailable %v", len(set.Definitions), len(set.Digests), set.Seen, set.Unavailable)
			}
			for _, u := range set.Unavailable {
				if !strings.Contains(u.Error(), "a task can have 1000 tools in all") || !strings.Contains(u.Error(), "allow in spec.toolsets") {
					t.Errorf("it says %q", u.Error())
				}
			}
		})
	}
}

// A digest is in journals, so a newer operator must give a tool the same.
func TestTheDigestOfAToolIsTheSameInEveryVersion(t *testing.T) {
	tool := &sdk.Tool{
		Name: "t", Description: "d <b>", InputSchema: map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"maximum": 1e21}}},
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: no(), OpenWorldHint: yes(), Title: "T"},
	}
	for what, tc := range map[string]struct {
		tool *sdk.Tool
		want string
	}{
		"all of it": {tool, "50ee6e4d10a9dd347dc250e94102131d2457dd675b04eeb5da9c2662120b5dcb"},
		"bare":      {&sdk.Tool{Name: "t"}, "085eb23badd1d505a1f00658a3e333bf72645441aa0bd85543e0a38124136d56"},
	} {
		if got := digest(tc.tool, schemaText(tc.tool)); got != tc.want {
			t.Errorf("%s: %s, want %s", what, got, tc.want)
		}
	}
}

// schemaText is the schema of a tool as a list of its server would have it.
func schemaText(t *sdk.Tool) json.RawMessage {
	raw, _ := json.Marshal(t.InputSchema)
	schema, _ := schemaIn(raw)
	return schema
}

// listing is a list of tools as a server's page would have it.
func listing(tools []*sdk.Tool) (out []listed) {
	for _, t := range tools {
		raw, _ := json.Marshal(t)
		if read, _ := readTool(raw); read.Tool != nil {
			out = append(out, read)
		}
	}
	return out
}
