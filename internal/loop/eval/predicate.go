package eval

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/interpreter"
)

// Turn is what a stopWhen expression is evaluated over.
type Turn struct {
	Response  string
	Iteration int64
	Usage     Usage
	ToolCalls []Call
}

// Usage counts the task's tokens, those of the turn included.
type Usage struct{ Input, Output, Total int64 }

// Call is a tool call of the turn.
type Call struct{ Name, Arguments string }

// Limits are the largest values that a Turn has: bytes of its response, its calls, and bytes of all their names and arguments
// together.
type Limits struct{ Response, Calls, CallBytes int }

// Predicate is a compiled stopWhen expression. It is safe for concurrent use.
type Predicate struct {
	// Digest is the digest of the expression.
	Digest  string
	program cel.Program
}

// maxExpression is the longest expression, in code points. Compiling one takes 60 ms at the worst.
const maxExpression = 4096

var predicateEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.Variable("response", cel.StringType),
		cel.Variable("iteration", cel.IntType),
		cel.Variable("usage", cel.MapType(cel.StringType, cel.IntType)),
		cel.Variable("toolCalls", cel.ListType(cel.MapType(cel.StringType, cel.StringType))),
	)
})

// CompilePredicate compiles a CEL expression over response, iteration, usage and toolCalls that gives a bool. An expression is
// refused if some turn within limits could make it take more than maxPredicateSteps. The error is one sentence for the user,
// without its end.
func CompilePredicate(expr string, limits Limits) (*Predicate, error) {
	env, err := predicateEnv()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expr)
	if issues != nil && issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, fmt.Errorf("at line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, cut(first.Message, 500))
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("it gives %s, but must give bool: compare it with something, such as iteration >= 3", ast.OutputType())
	}
	steps, err := estimate(ast.NativeRep(), limits)
	if err != nil {
		return nil, err
	}
	if steps > maxPredicateSteps {
		return nil, fmt.Errorf("it costs too much: %.3g steps for the largest turn, at most %.3g are allowed: use fewer loops within one another, and shorter regular expressions", steps, float64(maxPredicateSteps))
	}
	// Patterns are compiled here, and never again.
	program, err := env.Program(ast, cel.OptimizeRegex(interpreter.MatchesRegexOptimization))
	if err != nil {
		return nil, err
	}
	p := &Predicate{Digest: digest([]byte(expr)), program: program}
	if err := p.try(steps, limits); err != nil {
		return nil, err
	}
	return p, nil
}

// try finds what compiling does not, such as a misspelt key of usage: what can be evaluated for no turn at all is wrong. The numbers
// are such as a turn has: no usage is zero, and not every iteration is the first. It takes the steps of two evaluations at most.
func (p *Predicate) try(steps float64, limits Limits) error {
	var err error
	left := 2 * maxPredicateSteps
	for _, response := range []string{"", "0", "1.5", "true", "{}", "2026-01-01T00:00:00Z", "1s"} {
		for _, calls := range []int{limits.Calls, 1, 0} {
			if left -= steps; left < 0 {
				return nil // it is believed
			}
			if _, err = p.Eval(Turn{Response: response, Iteration: 2, Usage: Usage{Input: 2, Output: 1, Total: 3}, ToolCalls: make([]Call, calls)}); err == nil {
				return nil
			}
		}
	}
	return err
}

// Eval tells whether the expression is true for a turn. The error says why it is neither true nor false, such as the name of the
// first call where there is none.
func (p *Predicate) Eval(t Turn) (bool, error) {
	calls := make([]map[string]string, 0, len(t.ToolCalls))
	for _, c := range t.ToolCalls {
		calls = append(calls, map[string]string{"name": c.Name, "arguments": c.Arguments})
	}
	out, _, err := p.program.Eval(map[string]any{
		"response":  t.Response,
		"iteration": t.Iteration,
		"usage":     map[string]int64{"inputTokens": t.Usage.Input, "outputTokens": t.Usage.Output, "totalTokens": t.Usage.Total},
		"toolCalls": calls,
	})
	if err != nil {
		return false, errors.New(cut(err.Error(), 300))
	}
	hit, ok := out.Value().(bool)
	return ok && hit, nil
}
