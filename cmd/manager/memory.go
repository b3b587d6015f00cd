package main

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
)

// memoryVariable holds the bytes that the container may take. The chart sets it.
const memoryVariable = "MEMORY_LIMIT"

// limitMemory lets the collector work harder before the container's limit is reached, instead of the kernel killing the process. A
// fifth is left to what the runtime does not count or cannot give back in time. GOMEMLIMIT, if it is set, holds instead.
//
// It returns what is left then, in bytes: all that can be sized by users is held within parts of it. 0 is no limit.
func limitMemory() int64 {
	limit, err := strconv.ParseInt(os.Getenv(memoryVariable), 10, 64)
	if err == nil && limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 5 * 4)
	}
	if limit = debug.SetMemoryLimit(-1); limit == math.MaxInt64 {
		return 0
	}
	return limit
}
