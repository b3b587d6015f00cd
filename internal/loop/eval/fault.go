package eval

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Bounds of what is told of a text that does not satisfy a schema. The library's own text names every branch that was tried.
const (
	maxFaultLines     = 8
	maxFaultLineBytes = 250
)

// schemaFault is what is wrong with a schema.
func schemaFault(err error) string {
	var invalid *jsonschema.ValidationError
	if meta := (*jsonschema.SchemaValidationError)(nil); errors.As(err, &meta) && errors.As(meta.Err, &invalid) {
		return "it is no JSON Schema: " + faultText(invalid)
	}
	return cut(err.Error(), 1000)
}

// faultText names the first faults, one a line.
func faultText(e *jsonschema.ValidationError) string {
	return strings.Join(faultLines(nil, e), "\n")
}

func faultLines(lines []string, e *jsonschema.ValidationError) []string {
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference: // they only say that something below failed
	case *kind.Format:
		lines = append(lines, faultLine(e, k.Err.Error()))
	case *kind.PropertyNames: // what is below does not know the name
		why := ""
		if below := faultLines(nil, &jsonschema.ValidationError{ErrorKind: &kind.Group{}, Causes: e.Causes}); len(below) > 0 {
			why = strings.TrimPrefix(below[0], "at ''")
		}
		// Nor is it told where: the library writes over the place it keeps.
		return append(lines, cut(fmt.Sprintf("invalid property name %q%s", cut(k.Property, 60), why), maxFaultLineBytes))
	default:
		lines = append(lines, faultLine(e, ""))
	}
	for _, cause := range e.Causes {
		if len(lines) >= maxFaultLines {
			break
		}
		lines = faultLines(lines, cause)
	}
	return lines
}

// faultLine is one fault, in the library's words unless others are given.
func faultLine(e *jsonschema.ValidationError, text string) string {
	if text == "" {
		alone := jsonschema.ValidationError{SchemaURL: e.SchemaURL, InstanceLocation: e.InstanceLocation, ErrorKind: e.ErrorKind}
		return cut(alone.Error(), maxFaultLineBytes)
	}
	path := ""
	for _, token := range e.InstanceLocation {
		path += "/" + token
	}
	return cut(fmt.Sprintf("at '%s': %s", path, text), maxFaultLineBytes)
}

// cut shortens text to at most limit bytes without parting a rune.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
