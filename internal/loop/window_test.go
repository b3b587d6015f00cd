package loop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// A task goes on through a window that nobody knows, wherever in it the large turns are. Only a turn that is too large by
// itself ends it.
func TestATaskGoesOnInAWindowThatNobodyKnows(t *testing.T) {
	const window = 250 << 10 // bytes
	for name, c := range map[string]struct {
		results []int // KiB, of one turn each
		ends    loop.Cause
		calls   int // with those that overflow, the compactions, and the one that completes
	}{
		"all fits":             {[]int{50, 50, 50}, "", 4},
		"the last are large":   {[]int{1, 1, 1, 100, 100, 100}, "", 9},
		"the first are large":  {[]int{100, 100, 1, 1, 1, 100}, "", 9},
		"all are large":        {[]int{100, 100, 100, 100, 100}, "", 10},
		"the last is alone":    {[]int{1, 240, 240}, "", 6},
		"one does not fit":     {[]int{1, 1, 300}, loop.CauseContextWindowExceeded, 6},
		"it begins with that":  {[]int{300}, loop.CauseContextWindowExceeded, 2},
		"many that are little": {make([]int, 40), "", 41},
	} {
		t.Run(name, func(t *testing.T) {
			turn, made := 0, 0
			e := &loop.Engine{Clock: looptest.NewClock()}
			e.Tools = loop.ToolboxFunc(func(context.Context, loop.ToolCall) loop.ToolResult {
				return loop.ToolResult{Content: strings.Repeat("a", c.results[turn-1]<<10)}
			})
			e.Model = loop.ModelFunc(func(_ context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
				made++
				switch {
				case requestBytes(req) > window:
					return nil, &loop.ModelError{Cause: loop.CauseContextWindowExceeded}
				case req.Purpose == loop.PurposeCompaction:
					return says("What was before."), nil
				case turn == len(c.results):
					return says("TASK_COMPLETE: done"), nil
				}
				turn++
				return &loop.Reply{ToolCalls: []loop.ToolCall{{ID: "c", Name: "look", Arguments: fmt.Sprintf(`{"at":%d}`, turn)}}}, nil
			})
			sp := &loop.Spec{Prompt: "Do it.", Tools: []loop.ToolDefinition{{Name: "look"}}}
			s := opened(t, e, sp)
			for range 200 {
				step, err := e.Advance(t.Context(), s, loop.FixedSpec(sp))
				if err != nil {
					t.Fatal(err)
				}
				if step.Next.Kind == loop.ActionDone {
					break
				}
			}
			if s.End == nil || s.End.Cause != c.ends || made != c.calls {
				t.Errorf("after %d calls, want %d, and %d turns, it ends as %+v", made, c.calls, turn, s.End)
			}
		})
	}
}
