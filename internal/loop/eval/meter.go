package eval

import (
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of what it takes to hold all JSON texts of one reply against a schema.
//
// A step is one subschema held against one value: at most half a microsecond and 340 bytes of garbage, which makes 50 ms and 33
// MiB in all. An ordinary schema takes three steps for each value. Matching a regular expression is counted apart, by its
// instructions times the bytes of the text, at most 5 ns each: that is what it takes at the worst, and few come near it.
const (
	maxSteps    = 100_000
	maxMatching = 5_000_000
)

// meter counts the work of one evaluation.
//
// The library has no such thing, but it calls a subschema's format before it goes on from it: there the steps that it is about
// to take from here are taken off. Once none is left every subschema fails at once, so the work that is then still begun was
// counted before.
type meter struct {
	steps, matching int // that are left
	chain           int // the longest chain of subschemas that look at the same value
	// unevaluated: some part has unevaluatedProperties or unevaluatedItems, for which the library notes every member.
	unevaluated bool
	// weight is what a step costs for the value in hand: faults carry the path, and numbers are kept digit by digit.
	weight int
	depth  int
	buf    []byte
}

func (m *meter) reset() { m.steps, m.matching = maxSteps, maxMatching }

// begin makes the meter ready for a value of this shape.
func (m *meter) begin(is shape) {
	m.depth = is.depth
	m.weight = 1 + is.depth/24 + is.digits/100
	m.spend(1+is.objects/4, 0)
}

// spend takes work off, and tells whether there was that much.
func (m *meter) spend(steps, matching int) bool {
	m.steps -= min(steps, maxSteps+1) * m.weight
	m.matching -= min(matching, maxMatching+1)
	return !m.spent()
}

func (m *meter) spent() bool { return m.steps < 0 || m.matching < 0 }

// count puts every part under the meter.
func (p *parts) count(m *meter) {
	for _, s := range p.all {
		m.unevaluated = m.unevaluated || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil
		s.Format = &jsonschema.Format{Validate: newPart(m, s).check}
		s.Types, s.Enum, s.Const, s.UniqueItems = nil, nil, nil, false
	}
}
