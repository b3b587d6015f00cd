package eval

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
)

// maxPredicateSteps bounds one evaluation of a stopWhen expression. A step is one node of the expression evaluated once: about 25
// ns and at most 32 bytes of garbage, which makes 25 ms and 32 MiB in all; 75 ms if all of it are the worst of regular expressions.
//
// cel-go's own limit counts while it evaluates. It does not count constants, logic, conversions or the nesting of lists, looks at
// an operation only once it is over, and takes most of the time itself. An expression has no loops but those over lists and maps,
// whose sizes are known, so what it takes at the worst is known before it is ever evaluated.
const maxPredicateSteps = 1e6

// extent is a bound of a value's size.
type extent struct {
	items   float64 // entries of a list or map
	longest float64 // bytes of the longest text in it
	all     float64 // bytes of all texts in it
}

func (x extent) plus(y extent) extent {
	return extent{x.items + y.items, x.longest + y.longest, x.all + y.all}
}

// item is what a loop over x sees: with the texts of an item as long as they are on the average, since each is seen once.
func (x extent) item() extent {
	n := max(x.items, 1)
	return extent{items: 2, longest: x.longest, all: x.all / n}
}

func (x extent) times(n float64) extent { return extent{x.items * n, x.longest, x.all * n} }

type estimator struct {
	checked *ast.AST
	vars    map[string]extent
	err     error
}

// estimate is the number of steps that an expression takes for the largest turn.
func estimate(checked *ast.AST, limits Limits) (float64, error) {
	e := &estimator{checked: checked, vars: map[string]extent{
		"response":  {longest: float64(limits.Response), all: float64(limits.Response)},
		"usage":     {items: 3},
		"toolCalls": {items: float64(limits.Calls), longest: float64(limits.CallBytes), all: float64(limits.CallBytes)},
	}}
	steps, _ := e.visit(checked.Expr())
	return steps, e.err
}

func (e *estimator) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// visit gives the steps of an expression, and the extent of what it gives.
func (e *estimator) visit(x ast.Expr) (steps float64, size extent) {
	t := e.checked.GetType(x.ID())
	if !flat(t) {
		e.fail("it holds a value of type %s: only simple values, and lists and maps of those, are allowed", t)
	}
	steps, size = e.node(x)
	switch t.Kind() {
	case types.ListKind, types.MapKind:
	case types.StringKind, types.BytesKind:
		size.items = 0
	default:
		size = extent{}
	}
	return steps, size
}

func (e *estimator) node(x ast.Expr) (steps float64, size extent) {
	switch x.Kind() {
	case ast.LiteralKind:
		switch v := x.AsLiteral().(type) {
		case types.String:
			size = text(len(v))
		case types.Bytes:
			size = text(len(v))
		}
		return 1, size
	case ast.IdentKind:
		return 1, e.vars[x.AsIdent()]
	case ast.SelectKind:
		steps, size = e.visit(x.AsSelect().Operand())
		return steps + 1, size
	case ast.CallKind:
		return e.call(x)
	case ast.ListKind:
		for _, item := range x.AsList().Elements() {
			s, of := e.visit(item)
			steps, size.longest, size.all = steps+s, max(size.longest, of.longest), size.all+of.all
		}
		size.items = float64(x.AsList().Size())
		return steps + 1, size
	case ast.MapKind:
		for _, entry := range x.AsMap().Entries() {
			for _, part := range []ast.Expr{entry.AsMapEntry().Key(), entry.AsMapEntry().Value()} {
				s, of := e.visit(part)
				steps, size.longest, size.all = steps+s, max(size.longest, of.longest), size.all+of.all
			}
		}
		size.items = float64(x.AsMap().Size())
		return steps + 1 + size.items, size
	case ast.ComprehensionKind:
		return e.loop(x.AsComprehension())
	default: // stopWhen has no messages
	}
	e.fail("it makes a message, which is not allowed")
	return 0, extent{}
}

func text(n int) extent { return extent{longest: float64(n), all: float64(n)} }

func (e *estimator) loop(c ast.ComprehensionExpr) (steps float64, size extent) {
	steps, over := e.visit(c.IterRange())
	init, empty := e.visit(c.AccuInit())
	hidden := map[string]extent{c.IterVar(): e.vars[c.IterVar()], c.AccuVar(): e.vars[c.AccuVar()]}
	e.vars[c.IterVar()], e.vars[c.AccuVar()] = over.item(), empty
	condition, _ := e.visit(c.LoopCondition())
	step, added := e.visit(c.LoopStep())
	size = added.times(over.items)
	e.vars[c.AccuVar()] = size
	result, _ := e.visit(c.Result())
	for name, was := range hidden {
		e.vars[name] = was
	}
	return steps + init + over.items*(condition+step+1) + result, size
}

func (e *estimator) call(x ast.Expr) (steps float64, size extent) {
	c := x.AsCall()
	args := c.Args()
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	sizes := make([]extent, len(args))
	var sum extent
	for i, arg := range args {
		var s float64
		s, sizes[i] = e.visit(arg)
		steps, sum = steps+s, sum.plus(sizes[i])
	}
	steps += 1 + sum.items
	switch c.FunctionName() {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		operators.In, operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse,
		overloads.StartsWith, overloads.EndsWith:
		return steps + sum.all/400, extent{}
	case operators.Conditional: // either branch, in a loop now this and now that
		return steps - sum.items, sizes[1].plus(sizes[2])
	case operators.Index:
		return steps - sum.items + sizes[1].all/400, extent{items: 2, longest: sizes[0].longest, all: 2 * sizes[0].longest}
	case operators.Add:
		if e.checked.GetType(x.ID()).Kind() != types.ListKind {
			return steps + sum.all/32, sum
		}
		if args[0].Kind() != ast.IdentKind || args[0].AsIdent() != parser.HiddenAccumulatorName {
			e.fail("it adds lists, which is not allowed")
		}
		return steps - sum.items, sum // a loop that makes a list
	case overloads.Size:
		if sum.items > 0 {
			return steps - sum.items, extent{}
		}
		return steps + sum.all/8, extent{} // of a text, which may be taken apart into its characters
	case overloads.Contains:
		return steps + sum.all/20, extent{}
	case overloads.Matches:
		return steps + e.pattern(args[1])*(sizes[0].all+1)/15, extent{}
	}
	if len(args) > 1 && strings.HasPrefix(c.FunctionName(), "get") {
		e.fail("it names a time zone, which is not allowed: times are in UTC") // the library would look for its file
	}
	return steps + sum.all/8, text(64).plus(extent{longest: sum.longest, all: sum.all})
}

// pattern is the number of instructions of a regular expression.
func (e *estimator) pattern(x ast.Expr) float64 {
	literal, is := types.String(""), false
	if x.Kind() == ast.LiteralKind {
		literal, is = x.AsLiteral().(types.String)
	}
	if !is {
		e.fail("the argument of matches is no literal: write the regular expression itself")
		return 0
	}
	size, err := patternSize(string(literal))
	if err != nil {
		e.fail("the argument of matches: %w", err)
	}
	return float64(size)
}

// flat tells whether a type is a simple one, a list or map of those, or that of toolCalls. Lists within lists could share parts,
// and be larger by far than what made them.
func flat(t *types.Type) bool {
	params := t.Parameters()
	switch t.Kind() {
	case types.ListKind:
		return simple(params[0]) || params[0].Kind() == types.MapKind && flat(params[0])
	case types.MapKind:
		return simple(params[0]) && simple(params[1])
	default:
		return simple(t)
	}
}

func simple(t *types.Type) bool {
	switch t.Kind() {
	case types.BoolKind, types.BytesKind, types.DoubleKind, types.DurationKind, types.IntKind, types.NullTypeKind, types.StringKind,
		types.TimestampKind, types.TypeKind, types.UintKind:
		return true
	default:
		return false
	}
}
