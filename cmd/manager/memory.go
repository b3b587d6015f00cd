package main

import (
	"os"
	"runtime/debug"
	"strconv"
)

// memoryVariable holds the bytes that the container may take. The chart sets it.
const memoryVariable = "MEMORY_LIMIT"

// limitMemory lets the collector work harder before the container's limit is reached, instead of the kernel killing the process. A
// fifth is left to what the runtime does not count or cannot give back in time. GOMEMLIMIT, if it is set, holds instead.
func limitMemory() {
	limit, err := strconv.ParseInt(os.Getenv(memoryVariable), 10, 64)
	if err != nil || limit <= 0 || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(limit / 5 * 4)
}
