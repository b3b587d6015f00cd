// Package glob matches tool names against the patterns that users write in toolsets and tasks.
//
// The syntax is that of path.Match: * is any run of characters, ? is one, [a-z] is a class and \ takes a special meaning
// away. Unlike there, * also runs over a slash: tool names are flat, and "*" has to mean every tool.
package glob

import (
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

// Any tells whether one of the patterns matches the whole name. A malformed pattern matches nothing: Check first.
func Any(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(flat(p), flat(name)); ok && err == nil {
			return true
		}
	}
	return false
}
