package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// doubling looks at one value twice as often with each level, as nested allOf and $ref can.
func doubling(levels int) string {
	return `{"$ref":"#/$defs/0","$defs":{` + list(levels, func(i int) string {
		return fmt.Sprintf(`"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]}`, i, i+1, i+1)
	}) + fmt.Sprintf(`,"%d":{"type":"string"}}}`, levels)
}

// A schema that cannot be used is refused before the task starts, with the bound that it passes, and none makes the operator
// read anything.
func TestASchemaIsRefusedBeforeTheStart(t *testing.T) {
	for name, c := range map[string]struct{ schema, want string }{
		"ordinary":                       {`{"type":"object","$defs":{"n":{"type":"integer"}},"properties":{"n":{"$ref":"#/$defs/n"}}}`, ""},
		"OpenAPI's place for schemas":    {`{"$ref":"#/components/schemas/n","components":{"schemas":{"n":{"type":"integer"}}}}`, ""},
		"parts with ids of their own":    {`{"$defs":{"n":{"$id":"Node","properties":{"next":{"$ref":"Node"}}}},"$ref":"Node"}`, ""},
		"a schema for schemas":           {`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, ""},
		"no JSON":                        {`{"type":`, "not JSON"},
		"no schema":                      {`{"type": 3}`, "at '/type'"},
		"no schema in a part":            {`{"definitions":{"a":{"type":"strin"}}}`, "at '/definitions/a/type'"},
		"a file":                         {`{"$ref": "file:///etc/passwd"}`, "not followed"},
		"an address":                     {`{"$ref": "http://169.254.169.254/"}`, "not followed"},
		"an address as its dialect":      {`{"$schema": "http://169.254.169.254/"}`, "not followed"},
		"no such part":                   {`{"$ref": "#/$defs/none"}`, "the schema"},
		"too long":                       {`{"title":"` + strings.Repeat("a", maxSchemaBytes) + `"}`, "65548 bytes, at most 65536"},
		"too deep":                       {nested(maxSchemaDepth, `{"not":`, "{}", "}"), "65 levels deep, at most 64"},
		"too many subschemas":            {`{"allOf":[` + lots(maxSubschemas, "{}") + `]}`, "1001 objects, at most 1000"},
		"too many booleans":              {`{"allOf":[` + lots(maxBooleans+1, "true") + `]}`, "2001 times, at most 2000"},
		"a number that is too long":      {`{"maximum":1e999999}`, "digits, at most 400"},
		"a number of too many digits":    {`{"enum":[` + strings.Repeat("1", maxDigits+1) + `]}`, "401 digits"},
		"too many references":            {`{"$defs":{` + list(400, func(i int) string { return fmt.Sprintf(`"%d":{"type":"null"}`, i) }) + `},"anyOf":[` + list(400, func(i int) string { return fmt.Sprintf(`{"$ref":"#/$defs/%d"}`, i) }) + `]}`, "more than 300 places"},
		"it doubles 22 times":            {doubling(22), "unfolds to more than 5000 subschemas"},
		"it doubles 60 times":            {doubling(60), "unfolds to more than 5000 subschemas"},
		"a chain of references":          {`{"$ref":"#/$defs/0","$defs":{` + list(70, func(i int) string { return fmt.Sprintf(`"%d":{"$ref":"#/$defs/%d"}`, i, i+1) }) + `,"70":{"type":"null"}}}`, "a chain of more than 64"},
		"a reference to itself":          {`{"$ref":"#"}`, "part # leads back to itself"},
		"a branch that leads to itself":  {`{"$defs":{"a":{"anyOf":[{"type":"null"},{"not":{"$ref":"#/$defs/a"}}]}},"items":{"$ref":"#/$defs/a"}}`, "leads back to itself"},
		"an anchor that leads to itself": {`{"$dynamicAnchor":"a","if":{"$dynamicRef":"#a"}}`, "leads back to itself"},
		"a wrong pattern":                {`{"pattern":"("}`, "missing closing"},
		"a long pattern":                 {`{"pattern":"` + strings.Repeat("a", maxPatternBytes+1) + `"}`, "more than 4096 bytes"},
		"a pattern that unfolds":         {`{"pattern":"` + strings.Repeat("x{1000}", 6) + `"}`, "instructions, at most 5000"},
		"patterns that unfold":           {`{"allOf":[` + list(4, func(i int) string { return fmt.Sprintf(`{"pattern":"%dx{1000}"}`, i) }) + `,{"patternProperties":{"z{1000}":true}}]}`, "more than 5000 instructions together"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := CompileSchema(json.RawMessage(c.schema))
			if (err == nil) != (c.want == "") || err != nil && (s != nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if err != nil && len(err.Error()) > 2100 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// Compiling has a bound as well, whatever the library makes of a schema. It takes 150 ms where nothing else runs.
func TestCompilingTakesNoMoreThanIsStated(t *testing.T) {
	const most = 64 << 20
	draft7 := `{"$schema":"http://json-schema.org/draft-07/schema#",`
	overlapping := func(levels int) string {
		inner := `{"properties":{` + list(800, func(i int) string { return fmt.Sprintf(`"%d":{"type":["string","array"],"minLength":1}`, i) }) + `}}`
		refs := list(levels, func(i int) string { return `{"$ref":"#/c` + strings.Repeat("/not", levels-i) + `"}` })
		return `"allOf":[` + refs + `],"c":` + nested(levels, `{"not":`, inner, "}") + "}"
	}
	another := `"allOf":[` + list(240, func(i int) string { return fmt.Sprintf(`{"$ref":"#/c/%s0"}`, strings.Repeat("0", i)) }) +
		`],"c":[{"allOf":[` + lots(240, `{"not":{"type":"string"}}`) + `]}]}`
	similar := alike(1950)
	for name, schema := range map[string]string{
		"many properties":                         `{"properties":{` + list(990, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string","minLength":1,"maxLength":20}`, i) }) + `}}`,
		"many ids":                                `{"$defs":{` + list(990, func(i int) string { return fmt.Sprintf(`"p%d":{"$id":"i%d"}`, i, i) }) + `}}`,
		"many anchors":                            `{"$defs":{` + list(490, func(i int) string { return fmt.Sprintf(`"p%d":{"$dynamicAnchor":"a%d"}`, i, i) }) + `},"allOf":[` + list(490, func(i int) string { return fmt.Sprintf(`{"$dynamicRef":"#a%d"}`, i) }) + `]}`,
		"references elsewhere":                    `{"c":[` + lots(900, "true") + `],"allOf":[` + list(900, func(i int) string { return fmt.Sprintf(`{"$ref":"#/c/%d"}`, i) }) + `]}`,
		"references that overlap":                 "{" + overlapping(30),
		"references that overlap, in draft 7":     draft7 + overlapping(50),
		"a place by many names":                   "{" + another,
		"a place by many names, in draft 7":       draft7 + another,
		"a list of what looks alike":              `{"required":[` + similar + `]}`,
		"an enum of what looks alike, in draft 4": `{"$schema":"http://json-schema.org/draft-04/schema#","enum":[` + similar + `]}`,
		"dependencies that look alike":            `{"dependentRequired":{"a":[` + similar + `]}}`,
		"classes of characters":                   `{"pattern":"` + strings.Repeat(`[^\\pL\\pN]`, 409) + `"}`,
		"many patterns":                           `{"allOf":[` + list(900, func(i int) string { return fmt.Sprintf(`{"pattern":"%d"}`, i) }) + `]}`,
		"many faults":                             `{"properties":{` + list(990, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"strig","minLength":-1}`, i) }) + `}}`,
		"many faults far down":                    nested(50, `{"not":`, `{"allOf":[`+lots(900, `{"type":3}`)+`]}`, "}"),
		"many names":                              `{"required":[` + list(9000, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `]}`,
		"large numbers":                           `{"allOf":[` + lots(900, `{"maximum":1e308,"minimum":-1e308,"multipleOf":1e-300}`) + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if len(schema) > maxSchemaBytes || !json.Valid([]byte(schema)) {
				t.Fatalf("%d bytes", len(schema))
			}
			var err error
			if garbage := cost(t, func() { _, err = CompileSchema(json.RawMessage(schema)) }); garbage > most {
				t.Errorf("%d KiB of garbage", garbage>>10)
			}
			if err != nil && len(err.Error()) > 2100 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// What a model is told of its result is for it to correct, so it is one of the result's own faults, and short.
func TestWhatIsWrongWithAResult(t *testing.T) {
	object := `{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":0},"k":{"enum":["a","b"]},"l":{"uniqueItems":true},"p":{"pattern":"^a"},"m":{"propertyNames":{"maxLength":2}},"u":{"anyOf":[{"type":"null"},{"required":["x"]}]}}}`
	for name, c := range map[string]struct{ text, want string }{
		"right":                         {`{"n":1.0,"k":"a","l":[1,"1"],"p":"ab","m":{"ab":1},"u":{"x":1}}`, ""},
		"another type":                  {`{"n":"x"}`, "at '/n': got string, want integer"},
		"nothing where it must be":      {`{}`, "missing property 'n'"},
		"too small":                     {`{"n":-1}`, "minimum: got -1, want 0"},
		"no value of an enum":           {`{"n":1,"k":"c"}`, `at '/k': want one of ["a","b"]`},
		"equal items":                   {`{"n":1,"l":[1,2,1.0]}`, "at '/l': items 0 and 2 are equal"},
		"another text":                  {`{"n":1,"p":"b"}`, "does not match pattern"},
		"a long name":                   {`{"n":1,"m":{"abc":1}}`, `invalid property name "abc": maxLength: got 3, want 2`},
		"no branch fits":                {`{"n":1,"u":{}}`, "at '/u': 'anyOf' failed\nat '/u': got object, want null\nat '/u': missing property 'x'"},
		"a number without end":          {`{"n":1e999999}`, "a number of more than 400 digits"},
		"a number of a thousand":        {`{"n":` + strings.Repeat("1", 1000) + `}`, "a number of more than 400 digits"},
		"the largest number":            {`{"n":1.7976931348623157e308}`, ""},
		"too deep":                      {`{"n":` + nested(maxJSONDepth-1, "[", "1", "]") + `}`, "65 levels deep, at most 64"},
		"far too deep":                  {nested(9000, "[", "", "]"), "9000 levels deep"},
		"too long":                      {`{"n":1,"x":"` + strings.Repeat("a", MaxJSONBytes) + `"}`, "make it shorter"},
		"no JSON":                       {`{"n":`, "-"},
		"more than can be unmarshalled": {nested(11_000, "[", "", "]"), "-"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := compiled(t, object).FirstValid([]string{c.text})
			switch {
			case c.want == "" && (err != nil || text != c.text), c.want == "-" && (err != nil || text != ""):
				t.Errorf("%q, %v", text, err)
			case len(c.want) > 1 && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	s := compiled(t, `{"const":1,"enum":[2]}`)
	for _, text := range []string{"1", "2"} {
		if _, err := s.FirstValid([]string{text}); err == nil {
			t.Errorf("%s is both 1 and 2", text)
		}
	}
}

// A failing schema of many branches must not become a message of many megabytes.
func TestAFaultIsShort(t *testing.T) {
	const most = maxFaultLines * (maxFaultLineBytes + 4)
	long := strings.Repeat("x", 30_000)
	for name, c := range map[string]struct{ schema, text string }{
		"many branches":         {doubling(9), "1"},
		"many kinds":            {`{"items":{"anyOf":[` + lots(200, `{"oneOf":[{"type":"null"},{"required":["x"]}]}`) + `]}}`, "[{},{},{}]"},
		"a long text":           {`{"pattern":"^a{5}$"}`, `"` + long + `"`},
		"a long name":           {`{"propertyNames":{"maxLength":5},"additionalProperties":false}`, `{"` + long + `":1}`},
		"a long path":           {`{"additionalProperties":{"additionalProperties":{"type":"null"}}}`, `{"` + long[:9000] + `":{"` + long[:9000] + `":1}}`},
		"many names":            {`{"required":[` + list(4000, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `]}`, "{}"},
		"many values":           {`{"enum":[` + list(4000, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `]}`, "1"},
		"a text of wide runes":  {`{"pattern":"^a{5}$"}`, `"` + strings.Repeat("世", 9000) + `"`},
		"as many as there were": {`{"minContains":20000,"contains":{}}`, "[" + lots(9000, "1") + "]"},
	} {
		_, err := compiled(t, c.schema).FirstValid([]string{c.text})
		if err == nil || errors.Is(err, ErrTooMuchWork) || len(err.Error()) > most || strings.ToValidUTF8(err.Error(), "?") != err.Error() {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

// The first text that is right counts, and what is wrong is told of the first that is JSON: it is the one that was meant.
func TestTheFirstValidTextCounts(t *testing.T) {
	s := compiled(t, `{"type":"integer"}`)
	for name, c := range map[string]struct {
		texts       []string
		text, fault string
	}{
		"none is JSON":                 {[]string{"", "one", "{"}, "", ""},
		"the second is right":          {[]string{`"one"`, "1", "2"}, "1", ""},
		"none is right":                {[]string{"prose", `"one"`, "null"}, "", "got string"},
		"a long one is not looked at":  {[]string{`"` + strings.Repeat("a", MaxJSONBytes) + `"`, "1"}, "1", ""},
		"nor what is no JSON but long": {[]string{strings.Repeat("a", MaxJSONBytes+1)}, "", ""},
	} {
		text, err := s.FirstValid(c.texts)
		if text != c.text || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// The digest tells an edit of a schema from one that only writes it otherwise.
func TestTheDigestOfASchema(t *testing.T) {
	a := compiled(t, `{"type":"object","required":["a","b"]}`)
	if b := compiled(t, "{ \"required\": [\"a\", \"b\"],\n\"type\": \"object\"}"); b.Digest != a.Digest {
		t.Error("written otherwise")
	}
	if b := compiled(t, `{"type":"object","required":["b","a"]}`); b.Digest == a.Digest {
		t.Error("another one")
	}
}
