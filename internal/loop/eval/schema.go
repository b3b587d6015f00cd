package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of a schema. Within them compiling takes 150 ms and 64 MiB of garbage at the worst, once for each edit of a task.
const (
	maxSchemaBytes = 64 << 10
	maxSchemaDepth = 64
	maxSubschemas  = 1000
	maxBooleans    = 2000 // which are subschemas, too
	// maxReferred bounds the places that references lead to, maxOutside the objects in those that are not where JSON Schema has
	// subschemas: the library checks them one by one, however they overlap.
	maxReferred = 300
	maxOutside  = 8000
)

// Bounds of what a schema is held against.
const (
	MaxJSONBytes = 32 << 10
	maxJSONDepth = 64
	maxDigits    = 400 // the longest float64 has 325
)

// Schema is a compiled output schema. It is safe for concurrent use.
type Schema struct {
	// Raw is the schema's text, Digest tells it from others: not from one that is only written otherwise.
	Raw    json.RawMessage
	Digest string
	mu     sync.Mutex // guards meter
	meter  meter
	schema *jsonschema.Schema
}

// noLoader refuses references to other documents: a task must not make the operator read files or URLs.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s, but references outside the schema are not followed", url)
}

const self = "schema:///output"

// CompileSchema compiles a JSON Schema (draft 2020-12 unless it says otherwise). The error is one sentence for the user, without
// its end.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(raw), maxSchemaBytes)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	switch is := shapeOf(doc); {
	case is.depth > maxSchemaDepth:
		return nil, fmt.Errorf("it is nested %d levels deep, at most %d are allowed: move parts to $defs", is.depth, maxSchemaDepth)
	case is.objects > maxSubschemas:
		return nil, fmt.Errorf("it has %d objects, at most %d are allowed", is.objects, maxSubschemas)
	case is.booleans > maxBooleans:
		return nil, fmt.Errorf("it says true or false %d times, at most %d are allowed", is.booleans, maxBooleans)
	case is.digits > maxDigits:
		return nil, fmt.Errorf("it has a number of %d digits, at most %d are allowed", is.digits, maxDigits)
	case listWork(doc) > maxListWork:
		return nil, errors.New("its enum lists too many arrays and objects: list fewer, or simple values")
	}
	s := &Schema{Raw: raw, Digest: digest(appendCanonical(nil, doc))}
	if err := s.compile(doc); err != nil {
		return nil, errors.New(strings.ReplaceAll(schemaFault(err), self, "the schema"))
	}
	return s, nil
}

func (s *Schema) compile(doc any) error {
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine((&patterns{known: map[string]*pattern{}}).compile)
	if err := c.AddResource(self, doc); err != nil {
		return err
	}
	// Nothing has this path, so this only loads the schema and holds it against its own meta-schema.
	var loaded *jsonschema.InvalidJsonPointerError
	if _, err := c.Compile(self + "#/~2"); !errors.As(err, &loaded) {
		return err
	}
	parts := parts{referred: map[*jsonschema.Schema]bool{}}
	c.RegisterVocabulary(parts.vocabulary())
	c.AssertVocabs()
	var err error
	if s.schema, err = c.Compile(self); err != nil {
		return err
	}
	chain, err := parts.unfold()
	if err != nil {
		return err
	}
	s.meter.chain = chain
	parts.count(&s.meter)
	return nil
}

// ErrTooMuchWork: to hold a JSON text against the schema takes more work than is allowed. The schema is to blame: sizes that a
// model answers for have bounds of their own.
var ErrTooMuchWork = errors.New("it takes too much work to hold a result against it: use fewer allOf, anyOf, oneOf and $ref that look at the same value, shorter regular expressions, and maxItems")

// FirstValid gives the first of the texts that is JSON and satisfies the schema. The error is ErrTooMuchWork, or says in one or
// more lines what is wrong with the first one that is JSON; nil without a text means that none is.
//
// All texts together take at most maxSteps and maxMatching.
func (s *Schema) FirstValid(texts []string) (text string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter.reset()
	for _, t := range texts {
		if !json.Valid([]byte(t)) {
			continue
		}
		fault := s.fault(t)
		if fault == nil || errors.Is(fault, ErrTooMuchWork) {
			return t, fault
		}
		if err == nil {
			err = fault
		}
	}
	return "", err
}

// fault tells what is wrong with a JSON text.
func (s *Schema) fault(text string) (err error) {
	if len(text) > MaxJSONBytes {
		return fmt.Errorf("the JSON has %d bytes, at most %d are kept: make it shorter", len(text), MaxJSONBytes)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	is := shapeOf(doc)
	switch {
	case is.depth > maxJSONDepth:
		return fmt.Errorf("the JSON is nested %d levels deep, at most %d are taken: make it flatter", is.depth, maxJSONDepth)
	case is.digits > maxDigits:
		return fmt.Errorf("the JSON has a number of more than %d digits: write it as a string, or round it", maxDigits)
	}
	defer func() {
		if recover() != nil { // nothing is known to get here; a library that fails must not fail more than this
			err = ErrTooMuchWork
		}
	}()
	s.meter.begin(is)
	err = s.schema.Validate(doc)
	if s.meter.spent() {
		return ErrTooMuchWork
	}
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		return errors.New(faultText(invalid))
	}
	return err
}
