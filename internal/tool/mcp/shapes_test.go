package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// shaped is a server that writes its own bytes, of the transport with sessions and of the old one.
type shaped struct {
	transport Transport
	// tools are the entries of its list, and cursor what its first page says of the next one. result is that of each call.
	tools, cursor, result string
	// lost answers a call in a session that was forgotten; nil forgets none.
	lost func(w http.ResponseWriter, id string)

	mu       sync.Mutex
	sessions int
	forgets  int // so many sessions are forgotten after their first call
	calls    []string
	streams  map[string]chan string // of the old transport, by session
}

func (s *shaped) config(t *testing.T) Config {
	cfg := serve(t, s)
	cfg.Transport = s.transport
	return cfg
}

func (s *shaped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost:
		s.post(w, r)
	case r.Method == http.MethodGet && s.transport == SSE:
		s.stream(w, r)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// stream is the one stream of a session of the old transport.
func (s *shaped) stream(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.sessions++
	id, events := fmt.Sprint("s", s.sessions), make(chan string, 16)
	if s.streams == nil {
		s.streams = map[string]chan string{}
	}
	s.streams[id] = events
	s.mu.Unlock()
	w.Header().Set("Content-Type", eventType)
	_, _ = fmt.Fprintf(w, "event: endpoint\ndata: /mcp?session=%s\n\n", id)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case e := <-events:
			_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", e)
		case <-r.Context().Done():
			return
		}
	}
}

func (s *shaped) post(w http.ResponseWriter, r *http.Request) {
	var q struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			ProtocolVersion string          `json:"protocolVersion"`
			Arguments       json.RawMessage `json:"arguments"`
			Cursor          string          `json:"cursor"`
		} `json:"params"`
	}
	text, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(text, &q)
	s.mu.Lock()
	defer s.mu.Unlock()
	session := r.Header.Get(headerSession)
	if s.transport == SSE {
		session = r.URL.Query().Get("session")
	}
	result := "{}"
	switch {
	case q.Method == "initialize":
		if s.transport != SSE {
			s.sessions++
			w.Header().Set(headerSession, fmt.Sprint("s", s.sessions))
		}
		result = fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"shaped","version":"1"}}`, q.Params.ProtocolVersion)
	case q.Method == methodCall && s.sessions <= s.forgets && slices.Contains(s.calls, session):
		s.lost(w, string(q.ID))
		return
	case len(q.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
		return
	case q.Method == methodList:
		result = `{"tools":[` + s.tools + `]}`
		if s.cursor != "" && q.Params.Cursor == "" {
			result = `{"tools":[` + s.tools + `],"nextCursor":` + s.cursor + `}`
		} else if q.Params.Cursor != "" {
			result = `{"tools":[{"name":"second","inputSchema":{"type":"object"}}]}`
		}
	case q.Method == methodCall:
		s.calls = append(s.calls, session)
		result = s.result
	}
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
	if s.transport == SSE {
		w.WriteHeader(http.StatusAccepted)
		s.streams[session] <- answer
		return
	}
	w.Header().Set("Content-Type", jsonType)
	_, _ = io.WriteString(w, answer)
}

var transports = map[string]Transport{"Streamable HTTP": StreamableHTTP, "SSE": SSE}

const ping = `{"name":"ping","description":"Pings.","inputSchema":{"type":"object"}}`

// One entry of another shape does not cost the others, and counts for nothing where it is odd.
func TestAnOddEntryOfAListIsReadAsFarAsItGoes(t *testing.T) {
	for name, tc := range map[string]struct {
		why, entry string
		want       []string // the tools that are offered
		odd        string
	}{
		"a hint that is a text":          {"it proves nothing", `{"name":"odd","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}}`, []string{"odd", "ping"}, `"odd"`},
		"annotations that are a list":    {"they say nothing", `{"name":"odd","inputSchema":{"type":"object"},"annotations":["readOnlyHint"]}`, []string{"odd", "ping"}, `"odd"`},
		"one odd hint beside a good one": {"what the odd one should have said is not known", `{"name":"odd","inputSchema":{"type":"object"},"annotations":{"destructiveHint":"no","readOnlyHint":true}}`, []string{"odd", "ping"}, `"odd"`},
		"icons that are no list":         {"decoration (mastra#21859)", `{"name":"odd","inputSchema":{"type":"object"},"icons":{"src":"x"}}`, []string{"odd", "ping"}, `"odd"`},
		"a title that is a number":       {"decoration", `{"name":"odd","title":7,"inputSchema":{"type":"object"}}`, []string{"odd", "ping"}, `"odd"`},
		"a description that is a list":   {"decoration", `{"name":"odd","description":["a"],"inputSchema":{"type":"object"}}`, []string{"odd", "ping"}, `"odd"`},
		"a description that is null":     {"the same as none", `{"name":"odd","description":null,"inputSchema":{"type":"object"}}`, []string{"odd", "ping"}, ""},
		"an output schema that is odd":   {"nobody reads it", `{"name":"odd","inputSchema":{"type":"object"},"outputSchema":[]}`, []string{"odd", "ping"}, ""},
		"a field that nobody knows":      {"a later protocol may have it", `{"name":"odd","inputSchema":{"type":"object"},"execution":7}`, []string{"odd", "ping"}, ""},
		"no schema":                      {"any object will do", `{"name":"odd"}`, []string{"odd", "ping"}, ""},
		"a schema that is null":          {"the same as none", `{"name":"odd","inputSchema":null}`, []string{"odd", "ping"}, ""},
		"a schema without a type":        {"it is of an object, or the call fails", `{"name":"odd","inputSchema":{"properties":{}}}`, []string{"odd", "ping"}, ""},
		"a schema of an object or null":  {"an object is among them", `{"name":"odd","inputSchema":{"type":["object","null"]}}`, []string{"odd", "ping"}, ""},
		"a schema that is a list":        {"no call can satisfy it", `{"name":"odd","inputSchema":[]}`, []string{"ping"}, `"odd"`},
		"a schema that is a text":        {"no call can satisfy it", `{"name":"odd","inputSchema":"object"}`, []string{"ping"}, `"odd"`},
		"a schema of a list":             {"arguments are an object", `{"name":"odd","inputSchema":{"type":"array"}}`, []string{"ping"}, `"odd"`},
		"a type that is a number":        {"no call can satisfy it", `{"name":"odd","inputSchema":{"type":7}}`, []string{"ping"}, `"odd"`},
		"null":                           {"there is no tool", `null`, []string{"ping"}, "entry 2"},
		"a text":                         {"there is no tool", `"odd"`, []string{"ping"}, "entry 2"},
		"no name":                        {"it cannot be called", `{"inputSchema":{"type":"object"}}`, []string{"ping"}, "entry 2"},
		"an empty name":                  {"it cannot be called", `{"name":"","inputSchema":{"type":"object"}}`, []string{"ping"}, "entry 2"},
		"a name that is a number":        {"it cannot be called", `{"name":7,"inputSchema":{"type":"object"}}`, []string{"ping"}, "entry 2"},
		"a name twice":                   {"there is one tool of it", ping, []string{"ping"}, ""},
		"a dangerous name":               {"it is shown as it is", `{"name":"a\u202eb","inputSchema":[]}`, []string{"ping"}, `"a\\u202eb"`},
		"many":                           {"the first are named", strings.Repeat(`null,`, 8) + `null`, []string{"ping"}, "entry 10, entry 2, entry 3, entry 4, entry 5, 4 more"},
	} {
		for transport, of := range transports {
			t.Run(name+"/"+transport, func(t *testing.T) {
				s := &shaped{transport: of, tools: ping + "," + tc.entry}
				cfg := s.config(t)
				cfg.RequireApproval, cfg.TrustAnnotations = ApproveDestructive, true
				p := newPool(t)
				tools, err := p.Tools(t.Context(), "k", cfg)
				if err != nil {
					t.Fatal(err)
				}
				if got := toolNames(tools); !slices.Equal(got, tc.want) || p.Odd("k") != tc.odd {
					t.Errorf("tools %q, odd %s; want %q and %s: %s", got, p.Odd("k"), tc.want, tc.odd, tc.why)
				}
				for _, tool := range tools {
					if !tool.Definition.RequireApproval || tool.Definition.Repeatable {
						t.Errorf("%s runs unasked by a hint that is odd", tool.ServerName)
					}
				}
			})
		}
	}
}

func TestACursorThatIsNoTextIsFollowedWhereItCanBe(t *testing.T) {
	for name, tc := range map[string]struct {
		cursor string
		want   []string
	}{
		"text": {`"2"`, []string{"ping", "second"}}, "a number": {`2`, []string{"ping", "second"}}, "null": {`null`, []string{"ping"}},
		"empty": {`""`, []string{"ping"}}, "an object": {`{}`, []string{"ping"}}, "false": {`false`, []string{"ping"}},
	} {
		for transport, of := range transports {
			t.Run(name+"/"+transport, func(t *testing.T) {
				wantTools(t, newPool(t), (&shaped{transport: of, tools: ping, cursor: tc.cursor}).config(t), tc.want...)
			})
		}
	}
}

// That a call has run, and what it said, must not get lost: it would be made again.
func TestAResultIsReadAsFarAsItGoes(t *testing.T) {
	for name, tc := range map[string]struct {
		why, result, want string
		isError           bool
	}{
		"another kind":          {"its JSON says what it says (Kiro#7983)", `{"content":[{"type":"text","text":"order 17 placed"},{"type":"json","json":{"id":17}}]}`, "order 17 placed\n" + `{"json":{"id":17},"type":"json"}`, false},
		"beside structured":     {"both say something", `{"content":[{"type":"ui","uri":"x"}],"structuredContent":{"id":17}}`, `{"type":"ui","uri":"x"}` + "\n" + `{"id":17}`, false},
		"a sampling's":          {"it is of no result", `{"content":[{"type":"tool_use","id":"a","name":"b","input":{}}]}`, `{"id":"a","input":{},"name":"b","type":"tool_use"}`, false},
		"null":                  {"it says nothing", `{"content":[null,{"type":"text","text":"ok"}]}`, "ok", false},
		"nothing but null":      {"it says nothing", `{"content":[null]}`, noContent, false},
		"no content":            {"it says nothing", `{}`, noContent, false},
		"content null":          {"it says nothing", `{"content":null}`, noContent, false},
		"content a text":        {"it is the text", `{"content":"ok"}`, "ok", false},
		"content an object":     {"it is one block", `{"content":{"type":"text","text":"ok"}}`, "ok", false},
		"a block that is text":  {"it is the text", `{"content":["ok"]}`, "ok", false},
		"a text that is none":   {"its JSON says what it says", `{"content":[{"type":"text","text":17}]}`, `{"text":17,"type":"text"}`, false},
		"data that is none":     {"its JSON says what it says", `{"content":[{"type":"image","data":"%%","mimeType":"image/png"}]}`, `{"data":"%%","mimeType":"image/png","type":"image"}`, false},
		"a text alone":          {"it is the text", `"ok"`, "ok", false},
		"an error in words":     {"a word is a sign, too", `{"content":[{"type":"text","text":"no"}],"isError":"true"}`, "no", true},
		"no error in words":     {"a word is a sign, too", `{"content":[{"type":"text","text":"ok"}],"isError":"false"}`, "ok", false},
		"an error and null":     {"it failed all the same", `{"content":[null],"isError":true}`, noContent, true},
		"structured, a number":  {"numbers are as they were", `{"content":[{"type":"x"}],"structuredContent":{"id":12345678901234567890}}`, `{"type":"x"}` + "\n" + `{"id":12345678901234567890}`, false},
		"a large number within": {"numbers are as they were", `{"content":[{"type":"json","id":12345678901234567890}]}`, `{"id":12345678901234567890,"type":"json"}`, false},
	} {
		for transport, of := range transports {
			t.Run(name+"/"+transport, func(t *testing.T) {
				s := &shaped{transport: of, tools: ping, result: tc.result}
				got := newPool(t).Call(t.Context(), "k", s.config(t), "ping", `{}`)
				if got.Content != tc.want || got.IsError != tc.isError {
					t.Errorf("%q, error %v; want %q, %v: %s", got.Content, got.IsError, tc.want, tc.isError, tc.why)
				}
			})
		}
	}
}

// A secret that a server repeats in a block of another kind is taken out of it as well, however it is written there.
func TestAnUnknownBlockShowsNoSecret(t *testing.T) {
	s := &shaped{tools: ping, result: `{"content":[{"type":"json","echo":"Bearer secret\u002dtoken-123"}]}`}
	cfg := s.config(t)
	cfg.Headers = map[string]string{"Authorization": "Bearer secret-token-123"}
	if got := newPool(t).Call(t.Context(), "k", cfg, "ping", `{}`); strings.Contains(got.Content, "token-123") {
		t.Errorf("%q", got.Content)
	}
}

// losses are the ways in which servers say that they do not know a session.
var losses = map[string]struct {
	status int
	body   string // %s is the request's id
}{
	"404":                           {404, ``},
	"404 in words":                  {404, `Session not found`},
	"410":                           {410, ``},
	"400 as text":                   {400, `Bad Request: No valid session ID provided`},
	"400 by JSON-RPC":               {400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`},
	"400, another code":             {400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Session terminated"},"id":%s}`},
	"400 in JSON":                   {400, `{"error":"session expired"}`},
	"500 by JSON-RPC (fastmcp#121)": {500, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"Unknown session"},"id":%s}`},
	"503 by JSON-RPC":               {503, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":%s}`},
	"503 as text":                   {503, `missing or unknown Mcp-Session-Id`},
	"200 (neotoma#1667)":            {200, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"missing or unknown Mcp-Session-Id"}}`},
	"200, another code":             {200, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"Session not found"}}`},
	"200, id null":                  {200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Session expired, initialize again"}}`},
}

func (s *shaped) lose(status int, body string) {
	s.lost = func(w http.ResponseWriter, id string) {
		if strings.HasPrefix(body, "{") {
			w.Header().Set("Content-Type", jsonType)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "%s", id))
	}
}

// The server has not looked at a call whose session it does not know. So it is sent once more, in a new session.
func TestACallInASessionThatWasForgottenIsSentInANewOne(t *testing.T) {
	for name, tc := range losses {
		for transport, of := range transports {
			if of == SSE && tc.status == 200 {
				continue // there, the status of a request is no answer
			}
			t.Run(name+"/"+transport, func(t *testing.T) {
				s := &shaped{transport: of, tools: ping, result: `{"content":[{"type":"text","text":"pong"}]}`, forgets: 1}
				s.lose(tc.status, tc.body)
				cfg, p := s.config(t), newPool(t)
				for range 6 {
					wantContent(t, p.Call(t.Context(), "k", cfg, "ping", `{"a":1}`), false, "pong")
				}
				if want := []string{"s1", "s2", "s2", "s2", "s2", "s2"}; !slices.Equal(s.calls, want) {
					t.Errorf("calls ran in %q, want %q", s.calls, want)
				}
			})
		}
	}
}

// A server that forgets each session after a call gets a call twice at the most.
func TestAServerThatForgetsEverySessionEndsInAnError(t *testing.T) {
	s := &shaped{tools: ping, result: `{"content":[]}`, forgets: 100}
	s.lose(404, "")
	cfg, p := s.config(t), newPool(t)
	wantContent(t, p.Call(t.Context(), "k", cfg, "ping", `{}`), false)
	s.mu.Lock()
	s.calls = append(s.calls, "s2") // that one is forgotten before its first
	s.mu.Unlock()
	wantContent(t, p.Call(t.Context(), "k", cfg, "ping", `{}`), true, notRun, "forgotten the session")
	if len(s.calls) != 2 {
		t.Errorf("%q ran", s.calls)
	}
}

// What a tool says of sessions of its own is no word on ours, and a timeout is none either: the call may have run.
func TestWhatMayBeAboutOtherSessionsIsNoLostSession(t *testing.T) {
	for name, tc := range map[string]struct {
		why, arguments string
		status         int
		body           string
	}{
		"the call is of sessions":    {"a shell's, say", `{"session":"x"}`, 200, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"session not found"}}`},
		"of sessions, 500":           {"a browser's, say", `{"sessionId":"x"}`, 500, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"unknown session"}}`},
		"its arguments are wrong":    {"a server says so by this code", `{}`, 400, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such session"}}`},
		"a timeout":                  {"the same code means it", `{}`, 200, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"Request timed out"}}`},
		"an error of another code":   {"a tool's own", `{}`, 200, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"browser session closed"}}`},
		"a gateway's words":          {"what it lost is not said", `{}`, 502, `upstream session lost`},
		"refused credentials":        {"a new session helps nothing", `{}`, 401, `session expired`},
		"a result that speaks of it": {"it has run", `{}`, 200, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"missing or unknown Mcp-Session-Id"}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shaped{tools: ping, result: `{"content":[]}`, forgets: 1}
			s.lose(tc.status, tc.body)
			cfg, p := s.config(t), newPool(t)
			wantContent(t, p.Call(t.Context(), "k", cfg, "ping", `{}`), false)
			got := p.Call(t.Context(), "k", cfg, "ping", tc.arguments)
			if s.sessions != 1 || len(s.calls) != 1 || strings.Contains(got.Content, "forgotten the session") {
				t.Errorf("%d sessions, %q: %s", s.sessions, got.Content, tc.why)
			}
		})
	}
}
