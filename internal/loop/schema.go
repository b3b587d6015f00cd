package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a compiled output schema.
type Schema struct {
	raw    json.RawMessage
	schema *jsonschema.Schema
}

// noLoader refuses references to other documents: a task must not make the operator read files or URLs.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s, but references outside the schema are not followed", url)
}

// CompileSchema compiles a JSON Schema (draft 2020-12 unless it says otherwise).
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	const self = "schema:///output"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(self, doc); err != nil {
		return nil, err
	}
	schema, err := c.Compile(self)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(cutAt(err.Error(), 1000), self, "the schema"))
	}
	return &Schema{raw: raw, schema: schema}, nil
}

// Validate tells what in the JSON text does not satisfy the schema.
func (s *Schema) Validate(text string) (err error) {
	defer func() {
		if recover() != nil { // the library does not survive every number, such as 1e1000001
			err = errors.New("it holds a value that cannot be checked, such as a number that is far too large")
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	err = s.schema.Validate(doc)
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return err
	}
	lines := strings.Split(ve.Error(), "\n")
	if len(lines) > 1 {
		lines = lines[1:] // the first names only the schema
	}
	return errors.New(strings.TrimSpace(strings.Join(lines, "\n")))
}
