// Package scripted is a model that answers from a list: for tests, demos, and pipelines that must not spend a token.
package scripted

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	models "github.com/agentloop-dev/agenttask-operator/internal/model"
)

// Reply is one answer of a script.
type Reply struct {
	// Text may hold ${iteration}, which becomes the number of the call, from 1.
	Text      string
	ToolCalls []loop.ToolCall
	// Usage that is reported; the zero value reports none.
	Usage loop.Usage
	// Delay before the answer.
	Delay time.Duration
	// Error fails the call instead.
	Error *loop.ModelError
}

// Script is a list of answers. A task's nth call gets the nth.
type Script struct {
	Replies []Reply
	// FailAtEnd fails calls after the last answer; otherwise the last answer is repeated.
	FailAtEnd bool
}

// New makes the script a model.
func New(s Script) loop.Model { return model{s} }

type model struct{ script Script }

func (m model) Generate(ctx context.Context, req *loop.Request, onBytes func(int)) (*loop.Reply, error) {
	r, err := m.pick(req.Sequence)
	if err != nil {
		return nil, err
	}
	if r.Delay > 0 {
		timer := time.NewTimer(r.Delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
	if r.Error != nil {
		return nil, r.Error
	}
	out := &loop.Reply{Finish: loop.FinishStop, Usage: r.Usage, Model: "scripted"}
	if text := strings.ReplaceAll(r.Text, "${iteration}", strconv.Itoa(req.Sequence+1)); text != "" {
		onBytes(len(text))
		out.Blocks = []loop.Block{{Kind: loop.BlockText, Text: text}}
	}
	for i, c := range r.ToolCalls {
		onBytes(len(c.Arguments))
		c.ID = fmt.Sprintf("call-%d-%d", req.Sequence+1, i+1)
		out.ToolCalls = append(out.ToolCalls, c)
		out.Finish = loop.FinishToolCalls
	}
	if err := ctx.Err(); err != nil {
		return out, err // cut while it "streamed"
	}
	return out, nil
}

func (m model) pick(n int) (Reply, error) {
	if last := len(m.script.Replies) - 1; n > last {
		if m.script.FailAtEnd || last < 0 {
			return Reply{}, &loop.ModelError{Cause: loop.CauseModelRequestInvalid, Detail: fmt.Sprintf(
				"The script has %d replies and was asked for one more. Add a reply to spec.scripted.replies, or set atEnd to RepeatLast.", last+1)}
		}
		n = last
	}
	return m.script.Replies[n], nil
}

// Failures are the errors that a script can name.
var Failures = map[string]*loop.ModelError{
	"RateLimited":           models.ErrorFromStatus(http.StatusTooManyRequests, nil, ""),
	"Unavailable":           models.ErrorFromStatus(http.StatusServiceUnavailable, nil, ""),
	"AuthenticationFailed":  models.ErrorFromStatus(http.StatusUnauthorized, nil, ""),
	"ContextWindowExceeded": models.ErrorFromStatus(http.StatusBadRequest, nil, "context_length_exceeded"),
	"Refused":               {Cause: loop.CauseModelRefused, Detail: "the model refused the request"},
	"InvalidRequest":        models.ErrorFromStatus(http.StatusBadRequest, nil, ""),
}
