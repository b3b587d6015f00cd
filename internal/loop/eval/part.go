package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// part is one subschema under the meter: what it costs, and what is done here rather than by the library.
type part struct {
	*meter
	direct, perMember, perItem int // taken in any case, for each member of an object, for each item of an array
	names, text                int // instructions of the regular expressions for names of members, and for a text
	length, number, dynamic    bool
	format                     *jsonschema.Format
	// The library does these before it calls the format, or in more than linear time.
	types  []string
	equal  map[string]bool // the values of enum or const
	wanted string
	unique bool
}

func newPart(m *meter, s *jsonschema.Schema) *part {
	p := &part{
		meter:     m,
		direct:    1 + len(sameValue(s, nil)) + listed(s)/4,
		perMember: 1 + len(s.PatternProperties) + present(s.PropertyNames, s.UnevaluatedProperties),
		perItem:   1 + present(s.Contains, s.UnevaluatedItems),
		length:    s.MinLength != nil || s.MaxLength != nil,
		number:    s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil,
		dynamic:   s.DynamicRef != nil || s.RecursiveRef != nil,
		format:    s.Format,
		unique:    s.UniqueItems,
	}
	for re := range s.PatternProperties {
		p.names += re.(*pattern).size
	}
	if s.Pattern != nil {
		p.text = s.Pattern.(*pattern).size
	}
	if s.Types != nil {
		p.types = s.Types.ToStrings()
	}
	if s.Enum != nil {
		p.allow(s.Enum.Values)
	}
	if s.Const != nil {
		p.allow([]any{*s.Const})
	}
	return p
}

// allow admits no values but these, of those that were admitted before.
func (p *part) allow(values []any) {
	before := p.equal
	p.equal = map[string]bool{}
	for _, v := range values {
		key := string(appendCanonical(nil, v))
		p.equal[key] = before == nil || before[key]
	}
	text, _ := json.Marshal(values)
	p.wanted = cut(string(text), maxFaultLineBytes)
}

func present(schemas ...*jsonschema.Schema) (n int) {
	for _, s := range schemas {
		if s != nil {
			n++
		}
	}
	return n
}

// listed is the number of names that an object may be searched for.
func listed(s *jsonschema.Schema) int {
	n := len(s.Required)
	for _, names := range s.DependentRequired {
		n += 1 + len(names)
	}
	for _, names := range s.Dependencies {
		if names, is := names.([]string); is {
			n += 1 + len(names)
		}
	}
	return n
}

var errSpent = errors.New("no work is left")

// typeFault is put into words only when it is told: most are of branches that nobody hears of.
type typeFault struct {
	got  string
	want []string
}

func (f typeFault) Error() string { return "got " + f.got + ", want " + strings.Join(f.want, " or ") }

// check is called with each value that the subschema is held against, before the library goes on.
func (p *part) check(v any) error {
	if !p.spend(p.cost(v)) {
		return errSpent
	}
	if kind := kindOf(v); len(p.types) > 0 && !slices.Contains(p.types, kind) && (kind != "integer" || !slices.Contains(p.types, "number")) {
		return typeFault{got: kind, want: p.types}
	}
	if err := p.checkEqual(v); err != nil || p.format == nil {
		return err
	}
	text, is := v.(string)
	if is && p.format.Name == "regex" {
		return p.checkPattern(text)
	}
	if err := p.format.Validate(v); err != nil {
		return fmt.Errorf("is no %s: %w", p.format.Name, err)
	}
	return nil
}

// cost is the work that is done from here on directly, and that of the keywords that are no subschemas.
func (p *part) cost(v any) (steps, matching int) {
	steps = p.direct
	if p.dynamic {
		steps += p.chain * p.depth / 16 // all that is under way is searched for the anchor
	}
	switch v := v.(type) {
	case map[string]any:
		steps += len(v)*p.perMember + p.noted(len(v))
		for name, member := range v {
			if p.names == 0 && !p.unevaluated {
				break
			}
			steps += p.noted(members(member))
			matching += p.names * (len(name) + 1)
		}
	case []any:
		steps += len(v)*p.perItem + p.noted(len(v))
		for _, item := range v {
			if !p.unevaluated {
				break
			}
			steps += p.noted(members(item))
		}
	case string:
		matching = p.text * (len(v) + 1)
		if p.length {
			steps += len(v) / 160 // the library copies it to count its characters
		}
		if p.format != nil {
			steps += len(v) / 24
		}
	case json.Number:
		if p.number {
			steps += 5
		}
	}
	return steps, matching
}

// noted is the number of steps that it takes to note so many members as not evaluated yet, for each subschema in turn.
func (p *part) noted(members int) int {
	if !p.unevaluated {
		return 0
	}
	return members * p.direct / 4
}

func members(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// checkEqual stands in for const, enum and uniqueItems.
func (p *part) checkEqual(v any) error {
	if p.equal != nil {
		p.buf = appendCanonical(p.buf[:0], v)
		if !p.spend(len(p.buf)/12, 0) {
			return errSpent
		}
		if !p.equal[string(p.buf)] {
			return fmt.Errorf("want one of %s", p.wanted)
		}
	}
	items, is := v.([]any)
	if !p.unique || !is {
		return nil
	}
	seen := make(map[string]int, len(items))
	for i, item := range items {
		p.buf = appendCanonical(p.buf[:0], item)
		if !p.spend(1+len(p.buf)/12, 0) {
			return errSpent
		}
		if first, found := seen[string(p.buf)]; found {
			return fmt.Errorf("items %d and %d are equal", first, i)
		}
		seen[string(p.buf)] = i
	}
	return nil
}

// checkPattern stands in for format regex: the library would compile what a model wrote.
func (p *part) checkPattern(text string) error {
	if !p.spend(0, 1000*min(len(text), maxPatternBytes)) {
		return errSpent
	}
	_, err := patternSize(text)
	return err
}
