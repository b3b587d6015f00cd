package loop

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/interpreter"
)

// Predicate is a compiled stopWhen expression.
type Predicate struct {
	program cel.Program
}

// predicateCost bounds one evaluation, in cel-go's units of cost: about a tenth of a second at the most.
const predicateCost = 1_000_000

var predicateEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("response", cel.StringType),
		cel.Variable("iteration", cel.IntType),
		cel.Variable("usage", cel.MapType(cel.StringType, cel.IntType)),
		cel.Variable("toolCalls", cel.ListType(cel.MapType(cel.StringType, cel.StringType))),
	)
})

// CompilePredicate compiles a CEL expression over response, iteration, usage and toolCalls that gives a bool. The error is one sentence for the user.
func CompilePredicate(expr string) (*Predicate, error) {
	env, err := predicateEnv()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expr)
	if issues != nil && issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, fmt.Errorf("at line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, first.Message)
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("it gives %s, but must give bool: compare it with something, such as iteration >= 3", ast.OutputType())
	}
	program, err := env.Program(ast, cel.CostLimit(predicateCost))
	if err != nil {
		return nil, err
	}
	p := &Predicate{program: program}
	if err := p.try(); err != nil {
		return nil, err
	}
	return p, nil
}

// try finds what compiling does not, such as a misspelt key of usage: what can be evaluated for no turn at all is wrong. The numbers
// are such as a turn has: no usage is zero, and not every iteration is the first.
func (p *Predicate) try() error {
	var err error
	for _, response := range []string{"", "0", "1.5", "true", "{}", "2026-01-01T00:00:00Z", "1s"} {
		for _, calls := range []int{0, 1, maxReplyCalls} {
			_, err = p.eval(predicateVars(response, 2, Usage{InputTokens: 2, OutputTokens: 1}, make([]ToolCall, calls)))
			if err == nil || errors.Is(err, errPredicateCost) {
				return err
			}
		}
	}
	return err
}

var errPredicateCost = errors.New("it costs too much to evaluate: make it simpler")

// Eval tells whether the expression is true for a turn. What it cannot say of this turn, such as the name of the first call
// where there is none, is not true; only an expression that costs too much is an error.
func (p *Predicate) Eval(vars map[string]any) (bool, error) {
	hit, err := p.eval(vars)
	if errors.Is(err, errPredicateCost) {
		return false, err
	}
	return hit, nil
}

func (p *Predicate) eval(vars map[string]any) (bool, error) {
	out, _, err := p.program.Eval(vars)
	if cost := (interpreter.EvalCancelledError{}); errors.As(err, &cost) {
		return false, errPredicateCost
	}
	if err != nil {
		return false, errors.New(cutAt(err.Error(), 300))
	}
	hit, ok := out.Value().(bool)
	return ok && hit, nil
}

func predicateInput(s *State) map[string]any {
	r := &s.turn.reply
	return predicateVars(joinTexts(r.Texts()), s.Iterations, s.Usage, r.ToolCalls)
}

func predicateVars(response string, iteration int64, usage Usage, toolCalls []ToolCall) map[string]any {
	calls := make([]map[string]string, 0, len(toolCalls))
	for _, c := range toolCalls {
		calls = append(calls, map[string]string{"name": c.Name, "arguments": c.Arguments})
	}
	return map[string]any{
		"response":  response,
		"iteration": iteration,
		"usage": map[string]int64{
			"inputTokens": usage.InputTokens, "outputTokens": usage.OutputTokens, "totalTokens": usage.Total(),
		},
		"toolCalls": calls,
	}
}
