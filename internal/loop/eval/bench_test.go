package eval

import (
	"fmt"
	"testing"
)

const orderSchema = `{"type":"object","required":["orders"],"additionalProperties":false,"properties":{"orders":{"type":"array","items":{"$ref":"#/$defs/order"}}},
"$defs":{"order":{"type":"object","required":["id","status","lines"],"properties":{"id":{"type":"integer","minimum":1},"status":{"enum":["open","paid","sent"]},
"mail":{"type":"string","pattern":"^[^@ ]+@[^@ ]+$"},"lines":{"type":"array","minItems":1,"items":{"type":"object","required":["article"],"properties":{"article":{"type":"string","maxLength":40},"number":{"type":"integer"}}}}}}}}`

func orders(n int) string {
	return `{"orders":[` + list(n, func(i int) string {
		return fmt.Sprintf(`{"id":%d,"status":"paid","mail":"a%d@example.com","lines":[{"article":"cup","number":2},{"article":"plate","number":1}]}`, i+1, i)
	}) + `]}`
}

// An ordinary result held against an ordinary schema, with the meter and by the library alone, both with the decoding.
func BenchmarkOrdinarySchema(b *testing.B) {
	for _, n := range []int{1, 200} {
		text := orders(n)
		b.Run(fmt.Sprintf("metered/%d", n), func(b *testing.B) {
			s := compiled(b, orderSchema)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.FirstValid([]string{text}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("library/%d", n), func(b *testing.B) {
			s, err := plain(b, orderSchema)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Validate(decoded(b, text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompileSchema(b *testing.B) {
	b.Run("metered", func(b *testing.B) {
		for b.Loop() {
			compiled(b, orderSchema)
		}
	})
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			if _, err := plain(b, orderSchema); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The worst inputs that there are: what is stated in maxSteps and maxPredicateSteps is what this gives.
func BenchmarkWorstSchema(b *testing.B) {
	for name, c := range worst() {
		b.Run(name, func(b *testing.B) {
			s := compiled(b, c.schema)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.FirstValid([]string{c.text})
			}
		})
	}
}

func BenchmarkOrdinaryStopWhen(b *testing.B) {
	const expr = `iteration >= 3 && toolCalls.exists(c, c.name == "deploy") && response.matches("(?i)done")`
	turn := Turn{Response: orders(10), Iteration: 5, ToolCalls: []Call{{Name: "look"}, {Name: "deploy"}}}
	p, err := CompilePredicate(expr, limits)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Eval(turn); err != nil {
			b.Fatal(err)
		}
	}
}
