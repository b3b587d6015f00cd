package scenarios

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// asked is a request to the model that waits for its reply.
type asked struct {
	*fakechat.Request
	reply chan fakechat.Reply
}

// serveModel starts a model server that hands every request on, and gives its address.
func serveModel(t *testing.T, requests chan<- *asked) string {
	server := httptest.NewServer(fakechat.New(func(r *fakechat.Request) fakechat.Reply {
		a := &asked{Request: r, reply: make(chan fakechat.Reply, 1)}
		select {
		case requests <- a:
		case <-r.Gone:
			return fakechat.Reply{Hang: true}
		}
		select {
		case reply := <-a.reply:
			return reply
		case <-r.Gone:
			return fakechat.Reply{Hang: true}
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/v1"
}

// purpose is what a request is for, by what it says.
func (a *asked) purpose() loop.Purpose {
	system, last := "", a.Last()
	if len(a.Messages) > 0 {
		system = a.Messages[0].Text()
	}
	switch {
	case strings.HasPrefix(system, "You judge"):
		return loop.PurposeJudge
	case strings.HasPrefix(system, "You summarise"):
		return loop.PurposeCompaction
	case strings.HasPrefix(last, "You have reached the task's limit"):
		return loop.PurposeWrapUp
	}
	return loop.PurposeTurn
}

// text is all text of the request, in the form that scenarios know: roles as the loop names them, and tools without the
// name of their toolset.
func (a *asked) text() string {
	var b strings.Builder
	for _, m := range a.Messages {
		if text := m.Text(); m.Role == "system" || m.Role == "developer" {
			b.WriteString(text)
		} else if text != "" {
			fmt.Fprintf(&b, "\n%s: %s", m.Role, text)
		}
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, "\n%s calls %s %s", m.Role, c.Function.Name, c.Function.Arguments)
		}
	}
	return plainNames(b.String())
}

// look checks what a request must contain and must not.
func (p *player) look(a *asked, t *looptest.Turn, want loop.Purpose) {
	p.Helper()
	text := a.text()
	if got := a.purpose(); got != want {
		p.Fatalf("the loop asks for %s where the scenario has a reply for %s\n%s", got, want, brief(text))
	}
	for _, s := range t.Sees {
		if !strings.Contains(text, s) {
			p.Errorf("the %s request does not contain %q:\n%s", want, s, brief(text))
		}
	}
	for _, s := range t.SeesNot {
		if strings.Contains(text, s) {
			p.Errorf("the %s request contains %q:\n%s", want, s, brief(text))
		}
	}
}

// brief is the end of a text, which is what matters of a request.
func brief(text string) string {
	const most = 2000
	if len(text) > most {
		return "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}

// wireErrors are the model's errors as a server sends them: a status when nothing of the reply has streamed, else a code.
var wireErrors = map[string]struct {
	status int
	code   string
}{
	"RateLimited":           {429, "rate_limit_exceeded"},
	"Unavailable":           {503, "server_error"},
	"AuthenticationFailed":  {401, "invalid_api_key"},
	"ContextWindowExceeded": {400, "context_length_exceeded"},
	"InvalidRequest":        {400, "invalid_request_error"},
}

// wireReply is a turn's reply as a chat-completions server sends it.
func (p *player) wireReply(t *looptest.Turn) fakechat.Reply {
	p.Helper()
	in, _ := t.Scripted()
	out := fakechat.Reply{Chunk: t.Chunk, Finish: string(in.Finish), RetryIn: t.RetryAfter}
	for _, b := range in.Blocks {
		switch b.Kind {
		case loop.BlockReasoning:
			out.Reasoning += b.Text
		default:
			out.Text += b.Text
		}
	}
	for i, c := range in.ToolCalls {
		out.Calls = append(out.Calls, fakechat.Call{ID: c.ID, Name: p.visible(c.Name), Arguments: wireArguments(&t.Calls[i])})
	}
	if in.Finish == loop.FinishRefusal { // a field of its own in this API, beside the text
		out.Finish, out.Refusal = "stop", "I will not do that."
	}
	if u := t.Usage; u != nil {
		out.Usage = map[string]int64{"prompt_tokens": u.Input, "completion_tokens": u.Output}
		if u.Total != 0 {
			out.Usage["total_tokens"] = u.Total
		}
	}
	if t.Error != "" {
		e, known := wireErrors[t.Error]
		switch {
		case !known:
			p.Fatalf("no error %q", t.Error)
		case out.Text != "":
			out.Break = e.code
		default:
			out.Status, out.Code = e.status, e.code
		}
	}
	return out
}
