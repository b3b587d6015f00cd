package eval

import (
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of what a schema unfolds to: how many subschemas one value is held against at the most, when all references and
// branches are followed, and how long a chain of them is.
const (
	maxUnfolded = 5000
	maxChain    = 64
)

// parts are the subschemas of a schema that is being compiled, those of the documents it refers to included.
type parts struct {
	all      []*jsonschema.Schema
	referred map[*jsonschema.Schema]bool
	outside  int // objects
}

// vocabulary has no keywords. It is how the library tells of each part that it compiles, and, by its Schema, of each place
// outside the known ones that it has to check first.
func (p *parts) vocabulary() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: "urn:parts",
		Schema: &jsonschema.Schema{Format: &jsonschema.Format{Validate: func(v any) error {
			if p.outside += shapeOf(v).objects; p.outside > maxOutside {
				return fmt.Errorf("the places that its references lead to hold more than %d objects in all: move them to $defs", maxOutside)
			}
			return nil
		}}},
		Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			return nil, p.add(ctx.Enqueue(nil))
		},
	}
}

func (p *parts) add(s *jsonschema.Schema) error {
	p.all = append(p.all, s)
	p.referred[s.Ref], p.referred[s.RecursiveRef] = true, true
	if s.DynamicRef != nil {
		p.referred[s.DynamicRef.Ref] = true
	}
	switch {
	case len(p.all) > 2*maxSubschemas: // some are of a meta-schema that it refers to
		return fmt.Errorf("it has more than %d subschemas", 2*maxSubschemas)
	case len(p.referred) > maxReferred:
		return fmt.Errorf("its references lead to more than %d places", maxReferred)
	}
	return nil
}

// unfolding is how many subschemas a value is held against by one, itself included, and the longest chain of them.
type unfolding struct{ all, chain int }

// unfold follows all references and branches that look at the same value.
func (p *parts) unfold() (chain int, err error) {
	anchors := map[string][]*jsonschema.Schema{}
	for _, s := range p.all {
		anchors[s.DynamicAnchor] = append(anchors[s.DynamicAnchor], s)
		if s.RecursiveAnchor {
			anchors[recursive] = append(anchors[recursive], s)
		}
	}
	known := map[*jsonschema.Schema]*unfolding{}
	var visit func(s *jsonschema.Schema) (*unfolding, error)
	visit = func(s *jsonschema.Schema) (*unfolding, error) {
		if u, ok := known[s]; ok {
			if u == nil {
				return nil, fmt.Errorf("its part %s leads back to itself at the same value, so nothing can satisfy it", place(s))
			}
			return u, nil
		}
		known[s] = nil
		u := &unfolding{all: 1, chain: 1}
		for _, next := range sameValue(s, anchors) {
			below, err := visit(next)
			if err != nil {
				return nil, err
			}
			u.all, u.chain = u.all+below.all, max(u.chain, below.chain+1)
			if u.all > maxUnfolded {
				return nil, fmt.Errorf("its part %s unfolds to more than %d subschemas that look at the same value: use fewer allOf, anyOf, oneOf and $ref below it", place(s), maxUnfolded)
			}
			if u.chain > maxChain {
				return nil, fmt.Errorf("its part %s unfolds to a chain of more than %d subschemas that look at the same value: use fewer allOf, anyOf, oneOf and $ref below it", place(s), maxChain)
			}
		}
		known[s] = u
		return u, nil
	}
	for _, s := range p.all {
		u, err := visit(s)
		if err != nil {
			return 0, err
		}
		chain = max(chain, u.chain)
	}
	return chain, nil
}

// place is where a part stands in the schema.
func place(s *jsonschema.Schema) string {
	return cut(strings.TrimPrefix(s.Location, self), 200)
}

// recursive stands for $recursiveAnchor, which has no name.
const recursive = "$recursiveAnchor"

// sameValue are the subschemas that s holds its own value against. What a dynamic reference leads to depends on where it is
// reached from, so it may lead to all anchors of its name.
func sameValue(s *jsonschema.Schema, anchors map[string][]*jsonschema.Schema) []*jsonschema.Schema {
	if s.Ref != nil && s.DraftVersion < 2019 {
		return []*jsonschema.Schema{s.Ref} // what stands beside it is ignored
	}
	var out []*jsonschema.Schema
	for _, one := range []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else} {
		if one != nil {
			out = append(out, one)
		}
	}
	for _, several := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		out = append(out, several...)
	}
	for _, one := range s.DependentSchemas {
		out = append(out, one)
	}
	for _, one := range s.Dependencies {
		if one, is := one.(*jsonschema.Schema); is {
			out = append(out, one)
		}
	}
	if s.RecursiveRef != nil {
		out = append(out, anchors[recursive]...)
	}
	if d := s.DynamicRef; d != nil {
		out = append(out, d.Ref)
		if d.Anchor != "" {
			out = append(out, anchors[d.Anchor]...)
		}
	}
	return out
}
