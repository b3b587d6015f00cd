package eval

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// What one evaluation may leave as garbage, and when a test gives up on one. It takes 50 ms where nothing else runs.
const (
	mostGarbage = 36 << 20
	hang        = 5 * time.Second
)

// cost runs f and gives the garbage it makes in bytes. It fails the test when f takes as long as something that hangs.
func cost(t *testing.T, f func()) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	if took := time.Since(start); took > hang {
		t.Errorf("it took %s", took)
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func list(n int, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, ",")
}

func lots(n int, s string) string { return list(n, func(int) string { return s }) }

func nested(n int, open, inner, end string) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

// forests are all ways to nest so many pairs of brackets.
func forests(pairs int) []string {
	if pairs == 0 {
		return []string{""}
	}
	var out []string
	for k := range pairs {
		for _, inner := range forests(k) {
			for _, rest := range forests(pairs - 1 - k) {
				out = append(out, strings.TrimSuffix("["+inner+"],"+rest, ","))
			}
		}
	}
	return out
}

// alike are values that the library takes to be equal until it has looked at all of them, number by number.
func alike(n int) string {
	ways := forests(9)
	return list(n, func(i int) string { return "[1,1,1,1," + ways[i] + "]" })
}

// worst are schemas and texts of the largest size, each the worst that one keyword can be made to do.
func worst() map[string]struct{ schema, text string } {
	ones := "[" + lots(16_000, "1") + "]"
	members := "{" + list(2900, func(i int) string { return fmt.Sprintf(`"%d":1`, 1000+i) }) + "}"
	objects := nested(60, `{"a":`, "1", "}")
	long := `"` + strings.Repeat("a", 32_000) + `"`
	huge := "[" + lots(5400, "1e308") + "]"
	draft7 := `{"$schema":"http://json-schema.org/draft-07/schema",`
	return map[string]struct{ schema, text string }{
		"each level twice":                {`{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, objects},
		"each level twice, failing":       {`{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["x"]},{"properties":{"a":{"$ref":"#"}},"required":["y"]}],"required":["z"]}`, objects},
		"each level twice, asked whether": {`{"not":{"$ref":"#/$defs/x"},"$defs":{"x":{"dependencies":{"a":{"properties":{"a":{"$ref":"#/$defs/x"}}},"b":{"properties":{"a":{"$ref":"#/$defs/x"}}}},"properties":{"b":{"type":"string"}}}}}`, nested(60, `{"b":1,"a":`, "1", "}")},
		"each level by an anchor":         {`{"$dynamicAnchor":"n","properties":{"a":` + nested(25, `{"allOf":[`, `{"$dynamicRef":"#n"},{"$dynamicRef":"#n"}`, "]}") + `}}`, objects},
		"an anchor of another document":   {`{"$id":"https://a/x","$defs":{"n":{"$dynamicAnchor":"n","properties":{"a":{"allOf":[{"$ref":"y#/$defs/go"},{"$ref":"y#/$defs/go"}]}}},"y":{"$id":"https://a/y","$defs":{"go":{"$dynamicRef":"#n"},"n":{"$dynamicAnchor":"n"}}}},"$ref":"y#/$defs/go"}`, objects},
		"if, then and else":               {`{"if":{"properties":{"a":{"$ref":"#"}}},"then":{"properties":{"a":{"$ref":"#"}}},"else":{"properties":{"a":{"$ref":"#"}}}}`, objects},
		"long chains":                     {`{"type":"object","properties":{"a":` + nested(28, `{"anyOf":[`, `{"$ref":"#"},{"$ref":"#"}`, "]}") + `}}`, objects},
		"many for each":                   {`{"items":{"allOf":[` + lots(240, `{"anyOf":[{"not":{}},{"maximum":5}]}`) + `]}}`, ones},
		"many types":                      {`{"items":{"anyOf":[` + lots(900, `{"type":["string","array","object","null","boolean"]}`) + `]}}`, ones},
		"many types far down":             {nested(31, `{"items":`, `{"anyOf":[`+lots(900, `{"type":"string"}`)+`]}`, "}"), nested(30, "[", ones[:31_900]+"]", "]")},
		"true and false":                  {`{"items":{"anyOf":[` + lots(1900, "false") + `,true]}}`, ones},
		"one of many":                     {`{"items":{"oneOf":[` + lots(300, `{"oneOf":[{},{}]}`) + `]}}`, ones},
		"required":                        {`{"items":{"anyOf":[` + lots(900, `{"$ref":"#/$defs/r"}`) + `]},"$defs":{"r":{"required":[` + list(4000, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `]}}}`, "[" + lots(10_000, "{}") + "]"},
		"unevaluated properties":          {`{"unevaluatedProperties":false,"allOf":[` + lots(240, `{"allOf":[{"allOf":[{"properties":{"x":true}}]}]}`) + `]}`, members},
		"unevaluated items":               {`{"allOf":[` + lots(400, `{"unevaluatedItems":{"type":"string"}}`) + `]}`, ones},
		"additional properties":           {`{"allOf":[` + lots(900, `{"additionalProperties":false}`) + `]}`, members},
		"names of properties":             {`{"allOf":[` + lots(450, `{"propertyNames":{"minLength":9}}`) + `]}`, members},
		"patterns of names":               {`{"patternProperties":{` + list(20, func(i int) string { return fmt.Sprintf(`"(.*1){%d}b":{"type":"string"}`, i+2) }) + `}}`, `{"` + strings.Repeat("1", 32_000) + `":1}`},
		"a pattern on a long text":        {`{"allOf":[` + lots(900, `{"pattern":"(?:a{0,20}){10}b"}`) + `]}`, long},
		"a pattern on many texts":         {`{"items":{"allOf":[` + lots(900, `{"pattern":"(?:a{0,9}){9}b"}`) + `]}}`, "[" + lots(1200, `"aaaaaaaaaaaaaaaaaaaaaaa"`) + "]"},
		"lengths":                         {`{"allOf":[` + lots(900, `{"minLength":1,"maxLength":5}`) + `]}`, long},
		"a long enum":                     {`{"allOf":[` + lots(900, `{"$ref":"#/$defs/e"}`) + `],"$defs":{"e":{"enum":[` + list(8000, func(i int) string { return fmt.Sprint(i) }) + `]}}}`, ones},
		"a const and a long text":         {`{"allOf":[` + lots(450, `{"not":{"const":5}}`) + `]}`, long},
		"equal items":                     {`{"allOf":[` + lots(900, `{"uniqueItems":true}`) + `]}`, "[" + alike(960) + "]"},
		"equal items that are long":       {`{"allOf":[` + lots(900, `{"uniqueItems":true}`) + `]}`, "[" + long[:16_000] + `",` + long[:15_999] + `b"]`},
		"contains":                        {`{"allOf":[` + lots(400, `{"contains":{"type":"string"},"minContains":3}`) + `]}`, ones},
		"large numbers":                   {`{"items":{"allOf":[` + lots(400, `{"type":"number","minimum":0,"maximum":1e309,"exclusiveMinimum":-1,"multipleOf":3e-300}`) + `]}}`, huge},
		"large integers":                  {`{"items":{"allOf":[` + lots(900, `{"type":"integer"}`) + `]}}`, huge},
		"formats":                         {draft7 + `"allOf":[` + lots(450, `{"format":"uri-template"}`) + "," + lots(450, `{"format":"ipv4"}`) + `]}`, `"` + strings.Repeat("{a}/%20.", 4000) + `"`},
		"the format regex":                {draft7 + `"items":{"format":"regex"}}`, `["` + strings.Repeat(`[^\\pL\\pN]`, 400) + `"` + strings.Repeat(`,"`+strings.Repeat(`[^\\pL\\pN]`, 40)+`"`, 60) + "]"},
	}
}

// No text that a model writes and no schema that a user writes takes more than is stated, whichever way it is wasted.
func TestNothingTakesMoreThanIsStated(t *testing.T) {
	for name, c := range worst() {
		t.Run(name, func(t *testing.T) {
			if is := shapeOf(decoded(t, c.text)); len(c.text) > MaxJSONBytes || len(c.text) < MaxJSONBytes*3/4 && is.depth < maxJSONDepth-4 {
				t.Fatalf("the text has %d bytes and %d levels, so it is not the worst one", len(c.text), is.depth)
			}
			s := compiled(t, c.schema)
			var err error
			if garbage := cost(t, func() { _, err = s.FirstValid([]string{c.text}) }); garbage > mostGarbage {
				t.Errorf("%d KiB of garbage", garbage>>10)
			}
			if !errors.Is(err, ErrTooMuchWork) {
				t.Errorf("it ended otherwise, so it is not the worst one: %+v: %v", s.meter, err)
			}
		})
	}
}

// A reply may have hundreds of texts. They have one bound together, and what is left of a reply is no debt of the next.
func TestAllTextsOfAReplyHaveOneBound(t *testing.T) {
	s := compiled(t, `{"not":{"items":{"anyOf":[`+lots(40, `{"type":"string"}`)+`]}}}`)
	text := "[" + lots(1000, `""`) + "]"
	one := func() int {
		if _, err := s.FirstValid([]string{text}); err == nil || errors.Is(err, ErrTooMuchWork) {
			t.Fatal(err)
		}
		return maxSteps - s.meter.steps
	}
	steps := one()
	if again := one(); again != steps {
		t.Errorf("%d steps, then %d", steps, again)
	}
	if _, err := s.FirstValid(strings.Split(lots(500, text[:1])+strings.Repeat("\n"+text, maxSteps/steps+1), "\n")[1:]); !errors.Is(err, ErrTooMuchWork) {
		t.Errorf("%d texts of %d steps: %v", maxSteps/steps+1, steps, err)
	}
}

// What ordinary results take must stay far below the bound.
func TestOrdinaryResultsAreFarFromTheBound(t *testing.T) {
	item := `{"id":%d,"name":"service-%d","status":"ok","tags":["a","b"],"at":"2026-01-05T09:00:00Z","score":0.5}`
	results := `{"items":[` + list(300, func(i int) string { return fmt.Sprintf(item, i, i) }) + `]}`
	kind := func(i int) string {
		return fmt.Sprintf(`{"type":"object","required":["id","status"],"properties":{"id":{"type":"integer"},"name":{"type":"string","pattern":"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"},"status":{"const":"%s"},"score":{"type":"number","minimum":0},"tags":{"type":"array","uniqueItems":true,"items":{"type":"string"}}}}`, []string{"ok", "failed", "late", "lost"}[i%4])
	}
	for name, c := range map[string]struct {
		schema, text string
		share        float64
	}{
		"a list of 300 objects":                 {`{"type":"object","properties":{"items":{"type":"array","items":` + kind(0) + `}}}`, results, 0.25},
		"a list of 300 objects of four kinds":   {`{"type":"object","properties":{"items":{"type":"array","items":{"anyOf":[` + list(4, func(i int) string { return kind(3 - i) }) + `]}}}}`, results, 0.5},
		"16,000 numbers":                        {`{"items":{"type":"integer"}}`, "[" + lots(16_000, "1") + "]", 0.5},
		"2,000 names of which none comes twice": {`{"uniqueItems":true,"items":{"type":"string"}}`, "[" + list(2000, func(i int) string { return fmt.Sprintf(`"name-%d"`, i) }) + "]", 0.15},
		"a tree":                                {`{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}`, nested(12, `{"left":`, `{"left":{},"right":{}}`, `,"right":{"left":{},"right":{}}}`), 0.01},
	} {
		s := compiled(t, c.schema)
		if _, err := s.FirstValid([]string{c.text}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		used := max(float64(maxSteps-s.meter.steps)/maxSteps, float64(maxMatching-s.meter.matching)/maxMatching)
		if used > c.share {
			t.Errorf("%s takes %.2f of the bound, more than %.2f", name, used, c.share)
		}
	}
}
