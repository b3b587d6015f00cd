// Package glob matches tool names against the patterns that users write in toolsets and tasks.
//
// The syntax is that of path.Match: * is any run of characters, ? is one, [a-z] is a class and \ takes a special meaning
// away. Unlike there, * also runs over a slash: tool names are flat, and "*" has to mean every tool.
package glob

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// flat hides slashes from path.Match. No tool name holds a NUL byte.
func flat(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

// Check tells whether every pattern is well formed. The error names the first that is not.
func Check(patterns ...string) error {
	for _, p := range patterns {
		if _, err := path.Match(flat(p), ""); err != nil {
			return fmt.Errorf(`glob %q cannot be parsed: write a class as [a-z], and \[ or \\ for a [ or \ itself`, p)
		}
	}
	return nil
}

// MaxWork bounds what one Matcher compares, in bytes of pattern against bytes of name: 50 ms at the worst. A user writes the
// patterns, and may write the server that names the tools as well.
const MaxWork = 20_000_000

// Matcher matches names, up to MaxWork. The zero value is ready. It is not safe for concurrent use.
type Matcher struct{ work int }

// Any tells whether one of the patterns matches the whole name. A malformed pattern matches nothing: Check first. Once the
// work is used up nothing matches any more: ask Err before the matches are used.
func (m *Matcher) Any(patterns []string, name string) bool {
	name = flat(name)
	for _, p := range patterns {
		if m.work += work(p, name); m.work > MaxWork {
			return false
		}
		if ok, err := path.Match(flat(p), name); ok && err == nil {
			return true
		}
	}
	return false
}

// Err tells whether the work was used up.
func (m *Matcher) Err() error {
	if m.work > MaxWork {
		return errors.New("comparing the globs with all tools takes too long: write fewer, or begin them with the first letters of a tool's name instead of *")
	}
	return nil
}

// work is what path.Match compares at the most: what comes after a star, at each place of the name.
func work(pattern, name string) int {
	_, rest, _ := strings.Cut(pattern, "*")
	return len(pattern) + len(name)*len(strings.TrimRight(rest, "*"))
}
