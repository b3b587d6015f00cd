package transcript

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// Render writes events as people read them: plain text, one block an event.
//
// Texts are written as loop.Visible does: models and tools wrote most of them, and none must reach the reader's terminal as commands.
// Nor can a text pass for another one: an event's head stands at the margin, our labels four spaces in, and all lines of a
// text without one, or after one, six.
func Render(w io.Writer, events []loop.Event) error {
	r := &renderer{w: bufio.NewWriter(w)}
	for i := range events {
		if i > 0 {
			r.write("\n")
		}
		r.event(&events[i])
	}
	return r.w.Flush()
}

type renderer struct{ w *bufio.Writer }

// write ignores errors: bufio keeps the first, and Flush returns it.
func (r *renderer) write(s string) { _, _ = r.w.WriteString(s) }

// head writes the first line of an event: seq, time, who and what.
func (r *renderer) head(e *loop.Event, who, what string) {
	r.write(fmt.Sprintf("#%d  %s  %s: %s\n", e.Seq, e.Time.UTC().Format(time.RFC3339), who, oneLine(what)))
}

// text writes an indented paragraph, nothing for an empty text. With a label, its first line stands beside that.
func (r *renderer) text(label, text string) {
	text = strings.TrimRight(loop.Visible(text), "\n")
	if text == "" {
		return
	}
	begin := "      "
	if label != "" {
		begin = "    " + oneLine(label) + ": "
	}
	for line := range strings.SplitSeq(text, "\n") {
		r.write(strings.TrimRight(begin+line, " ") + "\n")
		begin = "      "
	}
}

func oneLine(text string) string { return strings.ReplaceAll(loop.Visible(text), "\n", `\n`) }

func (r *renderer) event(e *loop.Event) {
	switch {
	case e.Opened != nil:
		r.opened(e, e.Opened)
	case e.ModelReplied != nil:
		r.replied(e, e.ModelReplied)
	case e.ModelFailed != nil:
		r.failed(e, e.ModelFailed)
	case e.CallsStarted != nil:
		r.head(e, "operator", "runs the approved calls "+strings.Join(e.CallsStarted.CallIDs, ", "))
	case e.ToolsReturned != nil:
		r.returned(e, e.ToolsReturned)
	case e.Nudged != nil:
		r.head(e, "operator", "nudge")
		r.text("", e.Nudged.Text)
	case e.Asked != nil:
		r.head(e, "agent", fmt.Sprintf("asks (%s %s)", e.Asked.Kind, e.Asked.ID))
		r.text("", e.Asked.Question)
		r.text("calls", strings.Join(e.Asked.CallIDs, ", "))
	case e.InputSeen != nil:
		r.head(e, "user", "changed resumeInput without answering")
	case e.Answered != nil:
		r.head(e, "user", "answers "+e.Answered.QuestionID)
		r.text("", e.Answered.Text)
		r.text("denied", strings.Join(e.Answered.Denied, ", "))
		r.text("reason", e.Answered.DenyReason)
	case e.Compacted != nil:
		r.head(e, "operator", fmt.Sprintf("replaced the conversation before the last %d messages", e.Compacted.Kept))
		r.text("", e.Compacted.Summary)
	case e.LimitReached != nil:
		r.head(e, "operator", fmt.Sprintf("limit reached (%s), one call to wrap up follows", e.LimitReached.Reason))
	case e.Finished != nil:
		r.finished(e, e.Finished)
	default:
		r.head(e, "operator", strings.ToLower(string(e.Kind)))
	}
}

func (r *renderer) opened(e *loop.Event, o *loop.Opened) {
	what := "opened by " + o.Holder
	if o.Rival {
		what += ", which takes it back from another operator that works on it"
	}
	r.head(e, "operator", what)
	r.text("toolsets seen for the first time", strings.Join(o.Toolsets, ", "))
	if in := o.Input; in != nil {
		m := in.Model
		r.text("model", strings.TrimSpace(fmt.Sprintf("%s/%s, %s %s %s", m.Namespace, m.Name, m.Provider, m.Model, m.Parameters)))
		r.text("prompt", in.Prompt)
		r.text("instructions", in.Instructions)
	}
	if l := o.Lost; l != nil {
		r.text("lost", fmt.Sprintf("%s, %s", l.Purpose, usage(l.Usage, l.Cost)))
	}
}

func (r *renderer) replied(e *loop.Event, m *loop.ModelReplied) {
	what := string(m.Purpose)
	if m.Reply.Finish != "" {
		what += ", " + string(m.Reply.Finish)
	}
	r.head(e, "model", fmt.Sprintf("%s, %s", what, usage(m.Reply.Usage, m.Cost)))
	for _, b := range m.Reply.Blocks {
		r.text(string(b.Kind), b.Text)
	}
	if v := m.Verdict; v != nil {
		r.text("verdict", map[bool]string{true: "done", false: "not done"}[v.Answered])
		r.text("because", v.Reasoning)
	}
	for _, c := range m.Reply.ToolCalls {
		r.text("call "+c.ID, strings.TrimSpace(c.Name+" "+c.Arguments))
	}
	r.text("needs approval", strings.Join(m.NeedApproval, ", "))
	if o := m.Output; o != nil {
		r.text("result", o.Fault)
	}
	if s := m.StopWhen; s != nil {
		r.text("stopWhen", s.Fault)
	}
}

func (r *renderer) failed(e *loop.Event, f *loop.ModelFailed) {
	what := "failed"
	if f.Interrupted {
		what = "was interrupted"
	}
	r.head(e, "model", fmt.Sprintf("%s %s, %s", f.Purpose, what, usage(f.Usage, f.Cost)))
	r.text(string(f.Cause), f.Message)
	r.text("partial", f.Text)
	r.text("goes on without", f.RefusedTool)
	if f.Retry && !f.RetryAt.IsZero() {
		r.text("again at", f.RetryAt.UTC().Format(time.RFC3339))
	}
}

func (r *renderer) returned(e *loop.Event, t *loop.ToolsReturned) {
	r.head(e, "tools", fmt.Sprintf("%d results", len(t.Results)))
	for _, res := range t.Results {
		label := "result " + res.CallID
		if res.IsError {
			label = "error " + res.CallID
		}
		r.text(label, res.Name+"\n"+res.Content)
	}
	for _, item := range t.Todo {
		r.text("todo", map[bool]string{true: "[x] ", false: "[ ] "}[item.Done]+item.Text)
	}
}

func (r *renderer) finished(e *loop.Event, f *loop.Finished) {
	what := "finished: " + string(f.Reason)
	if f.Cause != "" {
		what += " (" + string(f.Cause) + ")"
	}
	r.head(e, "operator", what)
	r.text("", f.Message)
	r.text("summary", f.Summary)
	r.text("output", f.Output)
}

func usage(u loop.Usage, cost *loop.Cost) string {
	s := fmt.Sprintf("%d tokens in, %d out", u.InputTokens, u.OutputTokens)
	if u.Estimated {
		s += " (estimated)"
	}
	if cost != nil {
		s += strings.TrimRight(fmt.Sprintf(", %s %s", cost.Amount, cost.Currency), " ")
	}
	return s
}
