package gemini

import (
	"net/http"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestThoughtsLeftInTheTextAreNotSaid(t *testing.T) {
	for form, answer := range map[string]func(pieces []string) http.HandlerFunc{
		"a stream": func(pieces []string) http.HandlerFunc {
			var cs []string
			for _, p := range pieces {
				cs = append(cs, chunk(`{"text":`+modeltest.Quote(p)+`}`))
			}
			return chunks(append(cs, last(``, "STOP"))...)
		},
		"one chunk of several parts": func(pieces []string) http.HandlerFunc {
			parts := ""
			for i, p := range pieces {
				if i > 0 {
					parts += ","
				}
				parts += `{"text":` + modeltest.Quote(p) + `}`
			}
			return chunks(last(parts, "STOP"))
		},
	} {
		t.Run(form, func(t *testing.T) {
			modeltest.Thoughts(t, func(pieces []string) (loop.Model, *modeltest.Server) {
				s := modeltest.Serve(t, answer(pieces))
				return mustNew(t, s.Config("m")), s
			})
		})
	}
}

func TestASignedTextWithThoughtsGoesBackAsItCame(t *testing.T) {
	const call, signature = `{"functionCall":{"id":"c","name":"f"}}`, `"thoughtSignature":"AQ=="`
	for reason, parts := range map[string]string{
		"signed as a whole":    `{"text":"TASK_COMPLETE: no</think>yes",` + signature + `}`,
		"signed in part":       `{"text":"TASK_COMPLETE: no"},{"text":"</think>yes",` + signature + `}`,
		"before a call":        `{"text":"TASK_COMPLETE: no</think>yes",` + signature + `},` + call,
		"between texts":        `{"text":"a</think>b<think>c</think>yes",` + signature + `},` + call + `,{"text":"yes"}`,
		"nothing but thoughts": `{"text":"<think>TASK_COMPLETE: no</think>",` + signature + `},` + call + `,{"text":"yes"}`,
		"only spoken of":       `{"text":"yes: ` + "`</think>`" + `",` + signature + `}`,
	} {
		t.Run(reason, func(t *testing.T) {
			f := modeltest.Serve(t, chunks(last(parts, "STOP")))
			reply, _, err := modeltest.Generate(t, mustNew(t, f.Config("gemini-x")))
			if err != nil {
				t.Fatal(err)
			}
			for _, said := range reply.Texts() {
				if said[:1] != "y" && said != "b" {
					t.Errorf("said %q", said)
				}
			}
			modeltest.WantJSON(t, toContents([]loop.Message{assistant(reply.Blocks, reply.ToolCalls...)}), `[{"role":"model","parts":[`+parts+`]}]`)
		})
	}
}
