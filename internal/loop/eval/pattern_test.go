package eval

import (
	"regexp/syntax"
	"strings"
	"testing"
)

// The bound of an expression's instructions is one, and not far above what it compiles to.
func TestPatternSizeIsABound(t *testing.T) {
	for _, text := range []string{
		``, `a`, `done`, `(?i)done`, `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, `(a|b|cd)*`, `a{3,}`, `a{2,5}?`, `(?:a{0,30}){30}b`, `x{1000}`,
		`^(19|20)\d\d-\d\d-\d\dT[0-2]\d:[0-5]\d(Z|[+-]\d\d:\d\d)$`, `\bword\b|^$|.+`, `(?P<name>a+)(b?)`, `[^\pL\pN]{1,20}`, `((((a*)*)*)*)`, `(a{10}b{10}){10}`,
	} {
		size, err := patternSize(text)
		if err != nil {
			t.Fatal(err)
		}
		re, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if size < len(prog.Inst) || size > 2*len(prog.Inst)+4 {
			t.Errorf("%q compiles to %d instructions, the bound is %d", text, len(prog.Inst), size)
		}
	}
}

func TestPatternsHaveBounds(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"wrong":           {`(`, "missing closing"},
		"long":            {strings.Repeat("a", maxPatternBytes+1), "4097 bytes, at most 4096"},
		"unfolds":         {strings.Repeat("x{1000}", 500), "at most 5000 are allowed"},
		"nests":           {`((x{10}){10}){11}`, "invalid repeat count"},
		"ordinary":        {`^[a-z]{1,63}$`, ""},
		"as long as most": {strings.Repeat("a", maxPatternBytes), ""},
	} {
		if _, err := compilePattern(c.text); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.200v, want %q", name, err, c.want)
		}
	}
}
