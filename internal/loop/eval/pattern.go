package eval

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of regular expressions. Go's engine looks at each character once for each instruction, 5 ns at the worst, whatever
// the expression; what is bounded here is how many instructions a short text unfolds to, as x{1000} does.
const (
	maxPatternBytes = 4096
	maxPatternSize  = 5000
)

// pattern is a regular expression and the number of its instructions.
type pattern struct {
	*regexp.Regexp
	size int
}

func compilePattern(text string) (*pattern, error) {
	size, err := patternSize(text)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	return &pattern{Regexp: re, size: size}, err
}

// patternSize is a bound of the instructions that a regular expression compiles to. It does not compile it.
func patternSize(text string) (int, error) {
	if len(text) > maxPatternBytes {
		return 0, fmt.Errorf("a regular expression has %d bytes, at most %d are allowed", len(text), maxPatternBytes)
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	size := instructions(re) + 2
	if size > maxPatternSize {
		return 0, fmt.Errorf("the regular expression %.40q unfolds to %d instructions, at most %d are allowed: repeat less in it, such as x{1000}", text, size, maxPatternSize)
	}
	return size, nil
}

// instructions counts what an expression compiles to, repetitions unfolded. The parser allows 1000 repetitions, nested ones
// multiplied, so nothing here overflows.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpConcat:
		return n
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCapture:
		return n + 2
	case syntax.OpAlternate:
		return n + len(re.Sub)
	case syntax.OpStar:
		return n + 2
	case syntax.OpRepeat:
		if re.Max < 0 {
			return n*max(re.Min, 1) + 2
		}
		return (n+1)*re.Max - re.Min + 1
	default:
		return n + 1
	}
}

// patterns compiles the expressions of one schema, each once: the library asks for each at least twice.
type patterns struct {
	known       map[string]*pattern
	bytes, size int
}

// compile implements jsonschema.RegexpEngine. All expressions of a schema together have the bounds of one.
func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if known, ok := p.known[text]; ok {
		return known, nil
	}
	if p.bytes += len(text); p.bytes > maxPatternBytes {
		return nil, fmt.Errorf("the schema's regular expressions have more than %d bytes together", maxPatternBytes)
	}
	re, err := compilePattern(text)
	if err != nil {
		return nil, err
	}
	if p.size += re.size; p.size > maxPatternSize {
		return nil, fmt.Errorf("the schema's regular expressions unfold to more than %d instructions together", maxPatternSize)
	}
	p.known[text] = re
	return re, nil
}
