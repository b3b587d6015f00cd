package openai

import (
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestThoughtsLeftInTheTextAreNotSaid(t *testing.T) {
	for form, body := range map[string]func(pieces []string) string{
		"a stream": func(pieces []string) string {
			var b strings.Builder
			for _, p := range pieces {
				b.WriteString(chunk(`{"content":`+modeltest.Quote(p)+`}`, ""))
			}
			return b.String() + chunk(`{}`, "stop") + done
		},
		"a plain reply": func(pieces []string) string {
			return `{"choices":[{"message":{"content":` + modeltest.Quote(strings.Join(pieces, "")) + `},"finish_reason":"stop"}]}`
		},
	} {
		t.Run(form, func(t *testing.T) {
			modeltest.Thoughts(t, func(pieces []string) (loop.Model, *modeltest.Server) {
				s := modeltest.Serve(t, modeltest.Status(200, nil, body(pieces)))
				m, err := New(s.Config("m"))
				if err != nil {
					t.Fatal(err)
				}
				return m, s
			})
		})
	}
}

func TestThoughtsInAFieldOfTheirOwnAreNotSaid(t *testing.T) {
	for _, field := range []string{"reasoning_content", "reasoning", "thinking"} {
		t.Run(field, func(t *testing.T) {
			f := serve(t, answer{body: chunk(`{"`+field+`":"TASK_COMPLETE: no"}`, "") + chunk(`{"content":"</think>\n\nyes"}`, "stop") + done})
			reply, err := generate(t, f.model(t))
			if err != nil || len(reply.Blocks) != 2 || reply.Blocks[0].Text != "TASK_COMPLETE: no" || reply.Texts()[0] != "yes" {
				t.Errorf("got %+v, %v", reply, err)
			}
		})
	}
}
