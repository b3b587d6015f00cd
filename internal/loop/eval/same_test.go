package eval

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// plain compiles a schema with the library alone.
func plain(t testing.TB, schema string) (*jsonschema.Schema, error) {
	t.Helper()
	c := jsonschema.NewCompiler()
	if err := c.AddResource(self, decoded(t, schema)); err != nil {
		t.Fatal(err)
	}
	return c.Compile(self)
}

func decoded(t testing.TB, text string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func compiled(t testing.TB, schema string) *Schema {
	t.Helper()
	s, err := CompileSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatalf("%v\n%.300s", err, schema)
	}
	return s
}

// The meter does types, const, enum and uniqueItems by itself. A text must satisfy a schema under it exactly when it does without.
func TestTheMeterChangesNoVerdict(t *testing.T) {
	verdicts := map[bool]int{}
	for seed := range uint64(3000) {
		g := &generator{rand.New(rand.NewPCG(seed, 7))}
		schema, text := g.document(), g.value(3)
		alone, err := plain(t, schema)
		metered, ours := CompileSchema(json.RawMessage(schema))
		if (err == nil) != (ours == nil) {
			t.Fatalf("seed %d: %v under the meter, without it: %v\nschema %s", seed, ours, err, schema)
		}
		if err != nil {
			continue
		}
		err = alone.Validate(decoded(t, text))
		got, fault := metered.FirstValid([]string{text})
		if (err == nil) != (fault == nil && got == text) {
			t.Fatalf("seed %d: %v under the meter, without it: %v\nschema %s\ntext %s", seed, fault, err, schema, text)
		}
		verdicts[err == nil]++
	}
	if min(verdicts[true], verdicts[false]) < 300 {
		t.Errorf("the schemas decide too little: %v", verdicts)
	}
}

// generator makes schemas and values of few names and few values, so that they have to do with one another.
type generator struct{ *rand.Rand }

func (g *generator) pick(of ...string) string { return of[g.IntN(len(of))] }

func (g *generator) document() string {
	draft := g.pick("", "", "", `"$schema":"http://json-schema.org/draft-07/schema#",`, `"$schema":"https://json-schema.org/draft/2019-09/schema",`,
		`"$schema":"http://json-schema.org/draft-04/schema#",`)
	return fmt.Sprintf(`{%s"definitions":{"x":%s,"y":%s},"properties":{"a":%s,"b":%s},"items":%s}`,
		draft, g.schema(1, false), g.schema(1, false), g.schema(3, true), g.schema(3, true), g.schema(3, true))
}

// schema is a schema with up to three keywords. References lead to what holds none, so nothing leads back to itself.
func (g *generator) schema(depth int, refs bool) string {
	if depth == 0 || g.IntN(12) == 0 {
		return g.pick(`{}`, `{"type":"integer"}`, `{"not":{}}`, `{"const":1}`, `{"type":["string","null"]}`)
	}
	keywords := map[string]string{}
	for range 1 + g.IntN(3) {
		sub := func() string { return g.schema(depth-1, refs) }
		several := func() string { return "[" + sub() + "," + sub() + "]" }
		switch g.IntN(22) {
		case 0:
			keywords["type"] = g.pick(`"integer"`, `"number"`, `"string"`, `"object"`, `"array"`, `["null","boolean","number"]`)
		case 1:
			keywords["enum"] = "[" + g.value(1) + "," + g.value(1) + "]"
		case 2:
			keywords["const"] = g.value(2)
		case 3:
			keywords["uniqueItems"] = "true"
		case 4:
			keywords["properties"] = fmt.Sprintf(`{"a":%s,"c":%s}`, sub(), sub())
		case 5:
			keywords["required"] = g.pick(`["a"]`, `["a","b"]`)
		case 6:
			keywords["additionalProperties"] = g.pick("false", sub())
		case 7:
			keywords["patternProperties"] = fmt.Sprintf(`{"^[ab]$":%s}`, sub())
		case 8:
			keywords["items"] = sub()
		case 9:
			keywords["contains"] = sub()
		case 10:
			keywords["allOf"] = several()
		case 11:
			keywords["anyOf"] = several()
		case 12:
			keywords["oneOf"] = several()
		case 13:
			keywords["not"] = sub()
		case 14:
			keywords["if"], keywords["then"], keywords["else"] = sub(), sub(), sub()
		case 15:
			keywords["minimum"], keywords["multipleOf"] = "0", g.pick("1", "0.5")
		case 16:
			keywords["minLength"], keywords["pattern"] = "1", g.pick(`"a"`, `"^a?b*$"`)
		case 17:
			keywords["unevaluatedProperties"] = g.pick("false", sub())
		case 18:
			keywords["unevaluatedItems"] = g.pick("false", sub())
		case 19:
			keywords["propertyNames"] = g.pick(`{"enum":["a","b"]}`, `{"maxLength":1}`)
		case 20:
			keywords["dependentSchemas"] = fmt.Sprintf(`{"a":%s}`, sub())
		case 21:
			if refs {
				keywords["$ref"] = g.pick(`"#/definitions/x"`, `"#/definitions/y"`)
			}
		}
	}
	var parts []string
	for k, v := range keywords {
		parts = append(parts, fmt.Sprintf("%q:%s", k, v))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (g *generator) value(depth int) string {
	n := 11
	if depth == 0 {
		n = 8
	}
	switch g.IntN(n) {
	case 0, 1, 2:
		return g.pick("0", "1", "1.0", "10e-1", "-1", "0.5", "5E-1", "1e2", "100", "-0", "0.0")
	case 3, 4, 5:
		return g.pick(`"a"`, `"b"`, `"ab"`, `""`, `"1"`)
	case 6:
		return "null"
	case 7:
		return g.pick("true", "false")
	case 8:
		return "[" + strings.Join([]string{g.value(depth - 1), g.value(depth - 1), g.value(depth - 1)}[:g.IntN(4)], ",") + "]"
	}
	var members []string
	for _, name := range []string{"a", "b", "c"} {
		if g.IntN(2) == 0 {
			members = append(members, fmt.Sprintf("%q:%s", name, g.value(depth-1)))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// Values are equal by what they are, not by how they are written or by what their parts run together to.
func TestCanonicalValues(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"numbers by value":                {`[1, 1.0, 10e-1, 100, 0.5]`, `[1.0, 0.1e1, 1, 1E+2, 5e-1]`, true},
		"zeros":                           {`[0, -0, 0.0, 0e5]`, `[-0.0, 0, 0e-3, 0]`, true},
		"signs":                           {`-1`, `1`, false},
		"powers of ten":                   {`10`, `1`, false},
		"a number and its text":           {`1`, `"1"`, false},
		"false and null":                  {`false`, `null`, false},
		"the order of members":            {`{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		"the order of items":              {`[1,2]`, `[2,1]`, false},
		"texts that run together":         {`["a","b"]`, `["a4:b"]`, false},
		"nesting":                         {`[[],[]]`, `[[[]]]`, false},
		"names and values that are texts": {`{"a":"b"}`, `{"a":"b","":""}`, false},
		"a list and an object":            {`[]`, `{}`, false},
	} {
		a, b := string(appendCanonical(nil, decoded(t, c.a))), string(appendCanonical(nil, decoded(t, c.b)))
		if (a == b) != c.same {
			t.Errorf("%s: %s and %s", name, a, b)
		}
	}
}
