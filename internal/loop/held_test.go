package loop_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// Whatever the model's window and the journal's cap, a conversation takes a bounded part of the operator's memory, and each request
// is one that a model could take: every result stands after its call.
func TestWhatIsHeldOfAConversationIsBounded(t *testing.T) {
	const held, asked = 6 << 20, 5 << 20
	for name, c := range map[string]struct {
		spec  loop.Spec
		turn  int // bytes of each
		turns int
	}{
		"an Accumulate context": {loop.Spec{Prompt: "Do it."}, 120 << 10, 150},
		"a Fresh context":       {loop.Spec{Prompt: "Do it.", Fresh: true, ProgressLog: true}, 120 << 10, 150},
		"many small turns":      {loop.Spec{Prompt: "Do it.", Fresh: true}, 200, 15_000},
	} {
		for _, tools := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, tools %v", name, tools), func(t *testing.T) {
				turn, largest := 0, 0
				e := &loop.Engine{Clock: looptest.NewClock()}
				e.Tools = loop.ToolboxFunc(func(context.Context, loop.ToolCall) loop.ToolResult {
					return loop.ToolResult{Content: strings.Repeat("r", c.turn)}
				})
				e.Model = loop.ModelFunc(func(_ context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
					largest = max(largest, requestBytes(req))
					answered(t, req)
					turn++
					if req.Purpose == loop.PurposeCompaction {
						return says("What was before."), nil
					}
					if tools && turn%50 > 0 {
						return &loop.Reply{ToolCalls: []loop.ToolCall{{ID: "c", Name: "look", Arguments: "{}"}}}, nil
					}
					return says(strings.Repeat("t", c.turn)), nil
				})
				c.spec.Tools = []loop.ToolDefinition{{Name: "look"}}
				var journal []loop.Event
				s, most := &loop.State{}, int64(0)
				step, err := e.Open(s, &c.spec, loop.Opened{})
				if err != nil {
					t.Fatal(err)
				}
				journal = append(journal, step.Events...)
				for turn < c.turns {
					step, err := e.Advance(t.Context(), s, loop.FixedSpec(&c.spec))
					if err != nil {
						t.Fatal(err)
					}
					journal = append(journal, step.Events...)
					most = max(most, s.HeldBytes())
				}
				if s.End != nil || most > held+1<<20 || largest > asked {
					t.Errorf("%d bytes were held, a request had %d; it ended as %+v", most, largest, s.End)
				}
				folded, err := loop.Fold(journal)
				if err != nil || folded.HeldBytes() != s.HeldBytes() || !reflect.DeepEqual(folded.Messages, s.Messages) {
					t.Errorf("%d messages of the journal are held, not %d: %v", len(folded.Messages), len(s.Messages), err)
				}
			})
		}
	}
}

// answered fails the test where a result has no call before it, or a call no result.
func answered(t *testing.T, req *loop.Request) {
	t.Helper()
	calls := 0
	for _, m := range req.Messages {
		if len(m.ToolResults) != 0 && len(m.ToolResults) != calls || len(m.ToolResults) == 0 && calls > 0 {
			t.Fatalf("%d results after %d calls", len(m.ToolResults), calls)
		}
		calls = len(m.ToolCalls)
	}
}
