package main

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestTheCollectorIsToldOfTheContainersLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		limit, own string
		want       int64
	}{
		"a fifth is left":       {"500", "", 400},
		"none":                  {"", "", math.MaxInt64},
		"no number":             {"512Mi", "", math.MaxInt64},
		"an own GOMEMLIMIT":     {"500", "1GiB", math.MaxInt64},
		"no limit of container": {"0", "", math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(memoryVariable, tc.limit)
			t.Setenv("GOMEMLIMIT", tc.own)
			debug.SetMemoryLimit(math.MaxInt64)
			defer debug.SetMemoryLimit(math.MaxInt64)
			limitMemory()
			if got := debug.SetMemoryLimit(-1); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}
