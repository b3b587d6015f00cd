package controller

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// Tasks of the same name may follow one another faster than their events are handled.
func TestAnInterruptReachesItsOwnTaskOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		read  types.UID
		tools bool
		cause error
		want  error
		told  bool
	}{
		"its task":                            {read: "1", cause: loop.ErrCancelled, want: loop.ErrCancelled},
		"another of that name":                {read: "2", cause: loop.ErrCancelled},
		"not read yet: it looks again":        {cause: loop.ErrCancelled, want: loop.ErrSpecChanged},
		"moved limits":                        {read: "1", cause: loop.ErrSpecChanged, want: loop.ErrSpecChanged},
		"moved limits do not break tools off": {read: "1", tools: true, cause: loop.ErrSpecChanged, told: true},
		"a cancel does":                       {read: "1", tools: true, cause: loop.ErrCancelled, want: loop.ErrCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			var ss sessions
			call, end := ss.run(t.Context(), taskKey, 0)
			defer end()
			if tc.read != "" {
				ss.hasRead(taskKey, tc.read)
			}
			if tc.tools {
				defer ss.runsTools(taskKey)()
			}
			ss.interrupt(taskKey, "1", tc.cause)
			ss.interrupt(types.NamespacedName{Name: "nobody"}, "1", tc.cause)
			if got := context.Cause(call); !errors.Is(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if told := len(ss.limits(taskKey)) == 1; told != tc.told {
				t.Errorf("told of limits: %v", told)
			}
		})
	}
}
