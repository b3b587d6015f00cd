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
			if got := new(Matcher).Any(tc.patterns, tc.name); got != tc.want {
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

// The worst patterns against the longest names: some comparisons are made, and then none.
func TestMatchingHasABound(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, pattern, name string
		most                  int
	}{
		"OneStar":   {"each place of the name is tried", "*" + strings.Repeat("a", 254) + "b", strings.Repeat("a", 256), 400},
		"Classes":   {"a class is read again at each place", "*" + strings.Repeat("[bcdfghijkla]", 19), strings.Repeat("a", 256), 400},
		"ManyStars": {"each star tries", strings.Repeat("*a", 127) + "b", strings.Repeat("a", 256), 400},
		"LongName":  {"a name is as long as a server likes", "*ab", strings.Repeat("a", 8<<20), 2},
		"NoStar":    {"a pattern is read to its end", strings.Repeat("a", 256), strings.Repeat("a", 255), 80_000},
	} {
		t.Run(name, func(t *testing.T) {
			var m Matcher
			n := 0
			for ; m.Err() == nil && n <= tc.most; n++ {
				m.Any([]string{tc.pattern}, tc.name)
			}
			if n > tc.most {
				t.Errorf("%s: after %d comparisons the work is not used up", tc.reason, n)
			}
			if m.Any([]string{"*"}, "x") {
				t.Error("it matches after its work was used up")
			}
		})
	}
}

// Many patterns and many tools are no trouble as long as they are such as people write.
func TestOrdinaryGlobsAreFarFromTheBound(t *testing.T) {
	var m Matcher
	for tool := range 500 {
		for pattern := range 64 {
			m.Any([]string{"files_" + strconv.Itoa(pattern) + "_*", "*_delete"}, "files_read_number_"+strconv.Itoa(tool))
		}
	}
	if m.work > MaxWork/2 {
		t.Errorf("%d of %d", m.work, MaxWork)
	}
}

func BenchmarkWorstGlobs(b *testing.B) {
	for b.Loop() {
		for m := (Matcher{}); m.Err() == nil; {
			m.Any([]string{"*" + strings.Repeat("[bcdfghijkla]", 19)}, strings.Repeat("a", 256))
		}
	}
}
