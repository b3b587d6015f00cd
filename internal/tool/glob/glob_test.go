package glob

import (
	"strconv"
	"strings"
	"testing"
)

func TestAny(t *testing.T) {
	tests := map[string]struct {
		reason   string
		patterns []string
		name     string
		want     bool
	}{
		"StarIsEverything":      {"* has to mean every tool, slashes included", []string{"*"}, "files/read.all", true},
		"StarWithinAName":       {"a run of characters", []string{"get_*"}, "get_user", true},
		"WholeNameOnly":         {"a pattern is not a prefix", []string{"get"}, "get_user", false},
		"QuestionMarkIsOne":     {"? is exactly one character", []string{"v?"}, "v12", false},
		"Class":                 {"[a-z] is one of a class", []string{"tool[0-9]"}, "tool7", true},
		"Escape":                {"a backslash takes the meaning away", []string{`a\*`}, "ab", false},
		"SecondPatternMatches":  {"any of them is enough", []string{"x", "get_*"}, "get_user", true},
		"NoPatterns":            {"an empty list matches nothing", nil, "get_user", false},
		"MalformedMatchesNone":  {"a broken pattern is never a match", []string{"["}, "[", false},
		"SlashMatchesItself":    {"a slash in the pattern is a slash", []string{"files/*"}, "files/read", true},
		"SlashIsNoOtherLetter":  {"and nothing else", []string{"files/*"}, "files.read", false},
		"CaseCounts":            {"tool names differ by case", []string{"Get"}, "get", false},
		"EmptyNameOnlyWithStar": {"the empty name is a name", []string{"*"}, "", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Any(tc.patterns, tc.name); got != tc.want {
				t.Errorf("%s: Any(%q, %q) = %v", tc.reason, tc.patterns, tc.name, got)
			}
		})
	}
}

func TestCheckNamesTheBadPattern(t *testing.T) {
	if err := Check("*", "get_[a-z]*"); err != nil {
		t.Errorf("well-formed patterns: %v", err)
	}
	for _, bad := range []string{"[", "a[b", `a\`, "x/[a"} {
		if err := Check("*", bad); err == nil || !strings.Contains(err.Error(), strconv.Quote(bad)) {
			t.Errorf("Check(%q) does not name it: %v", bad, err)
		}
	}
}
