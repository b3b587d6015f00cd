package eval

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// shape is what of a JSON value decides what it costs to look at: how deep it is nested, how many objects and booleans are in
// it, and how many digits its longest number has when it is written out.
type shape struct{ depth, objects, booleans, digits int }

func shapeOf(v any) shape {
	var s shape
	s.add(v, 1)
	return s
}

func (s *shape) add(v any, depth int) {
	s.depth = max(s.depth, depth)
	switch v := v.(type) {
	case map[string]any:
		s.objects++
		for _, member := range v {
			s.add(member, depth+1)
		}
	case []any:
		for _, item := range v {
			s.add(item, depth+1)
		}
	case bool:
		s.booleans++
	case json.Number:
		mantissa, exp := splitNumber(string(v))
		s.digits = max(s.digits, len(mantissa)+max(exp, -exp))
	}
}

// splitNumber parts a JSON number at its exponent. An exponent that fits no int becomes one that is far too large.
func splitNumber(n string) (mantissa string, exp int) {
	i := strings.IndexAny(n, "eE")
	if i < 0 {
		return n, 0
	}
	exp, err := strconv.Atoi(n[i+1:])
	if err != nil {
		exp = math.MaxInt32
	}
	return n[:i], exp
}

// maxListWork bounds, for all lists whose items a meta-schema wants to differ, the arrays and objects in each times the values in
// those: the library compares each with each, one value after the other.
const maxListWork = 10_000

// listWork is what it takes to look for equal items in such lists.
func listWork(v any) (work int) {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			work += listWork(member)
			switch key {
			case "enum", "required", "type":
				work += compareAll(member)
			case "dependencies", "dependentRequired":
				of, _ := member.(map[string]any)
				for _, list := range of {
					work += compareAll(list)
				}
			}
		}
	case []any:
		for _, item := range v {
			work += listWork(item)
		}
	}
	return work
}

func compareAll(v any) int {
	list, _ := v.([]any)
	nested, values := 0, 0
	for _, item := range list {
		switch item.(type) {
		case []any, map[string]any:
			nested++
			values += valuesIn(item)
		}
	}
	return nested * values
}

func valuesIn(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			n += valuesIn(member)
		}
	case []any:
		for _, item := range v {
			n += valuesIn(item)
		}
	}
	return n
}
