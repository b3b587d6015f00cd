package eval

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// appendCanonical writes a JSON value such that two values are equal, as JSON Schema sees it, when what is written is. Numbers
// are equal by value: 1, 1.0 and 10e-1.
func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendText(append(b, 's'), v)
	case json.Number:
		return append(appendNumber(b, string(v)), ';')
	case []any:
		b = append(b, '[')
		for _, item := range v {
			b = appendCanonical(b, item)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			b = appendCanonical(appendText(b, name), v[name])
		}
		return append(b, '}')
	case bool:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	}
	return append(b, 'n')
}

// appendText writes a text after its length, so that no text reads like the end of another.
func appendText(b []byte, s string) []byte {
	return append(append(strconv.AppendInt(b, int64(len(s)), 10), ':'), s...)
}

// appendNumber writes a JSON number as its digits and the power of ten.
func appendNumber(b []byte, n string) []byte {
	n, negative := strings.CutPrefix(n, "-")
	digits, exp := decimal(n)
	if digits == "" {
		return append(b, '0')
	}
	if negative {
		b = append(b, '-')
	}
	return strconv.AppendInt(append(append(b, digits...), 'e'), int64(exp), 10)
}

// decimal gives a JSON number without sign as digits, with no zero at either end, and the power of ten: none for zero.
func decimal(n string) (digits string, exp int) {
	mantissa, exp := splitNumber(n)
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	return short, exp - len(fraction) + len(digits) - len(short)
}

// kindOf is the JSON Schema type of a value: integer also for 1.0 and 10e-1.
func kindOf(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if digits, exp := decimal(strings.TrimPrefix(string(v), "-")); digits == "" || exp >= 0 {
			return "integer"
		}
		return "number"
	}
	return "null"
}
