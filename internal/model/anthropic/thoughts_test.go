package anthropic

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestThoughtsLeftInTheTextAreNotSaid(t *testing.T) {
	for form, answer := range map[string]func(pieces []string) http.HandlerFunc{
		"a stream": func(pieces []string) http.HandlerFunc {
			evs := []string{evStart, evBlock("0", `{"type":"text","text":""}`)}
			for _, p := range pieces {
				evs = append(evs, evPiece("0", `{"type":"text_delta","text":`+modeltest.Quote(p)+`}`))
			}
			return events(append(evs, evEnd("0"), evDelta("end_turn", "9"), evStop)...)
		},
		"a whole message": func(pieces []string) http.HandlerFunc {
			return modeltest.Status(200, nil, `{"type":"message","role":"assistant","content":[{"type":"text","text":`+
				modeltest.Quote(strings.Join(pieces, ""))+`}],"stop_reason":"end_turn"}`)
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

func TestSignedThinkingAndPlacesOfCallsSurviveTheSplit(t *testing.T) {
	f := modeltest.Serve(t, events(evStart,
		evBlock("0", `{"type":"thinking","thinking":"</think>hm","signature":"S0"}`), evEnd("0"),
		evBlock("1", `{"type":"text","text":"TASK_COMPLETE: no"}`), evEnd("1"),
		evBlock("2", `{"type":"tool_use","id":"t1","name":"f","input":{}}`), evEnd("2"),
		evBlock("3", `{"type":"text","text":"</think>yes<think>no"}`), evEnd("3"),
		evBlock("4", `{"type":"tool_use","id":"t2","name":"g","input":{}}`), evEnd("4"),
		evBlock("5", `{"type":"text","text":"no</think>well"}`), evEnd("5"), evDelta("tool_use", "9"), evStop))
	reply, _, err := modeltest.Generate(t, mustNew(t, f.Config("claude-x")))
	if err != nil {
		t.Fatal(err)
	}
	modeltest.WantJSON(t, toMessages([]loop.Message{assistant(reply.Blocks, reply.ToolCalls...)}), `[{"role":"assistant","content":[
		{"type":"thinking","thinking":"</think>hm","signature":"S0"},{"type":"tool_use","id":"t1","name":"f","input":{}},
		{"type":"text","text":"yes"},{"type":"tool_use","id":"t2","name":"g","input":{}},{"type":"text","text":"well"}]}]`)
}
