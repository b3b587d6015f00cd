package loop

import (
	"encoding/json"
	"strings"
	"testing"
)

// A wrong expression is refused before the task starts, in words that say what to write.
func TestStopWhenIsRefusedBeforeTheStart(t *testing.T) {
	for name, c := range map[string]struct{ expr, want string }{
		"syntax":                {`iteration >`, "column"},
		"an unknown variable":   {`turn > 3`, "undeclared reference"},
		"a wrong type":          {`response > 3`, "no matching overload"},
		"no bool":               {`iteration`, "must give bool"},
		"a dynamic value":       {`dyn(iteration)`, "must give bool"},
		"a misspelt key":        {`usage.tokens > 3`, "no such key"},
		"a key of calls":        {`toolCalls.size() > 0 && toolCalls[0].args == ""`, ""}, // true or false for most turns
		"always out of bounds":  {`toolCalls[99].name == "x"`, "out of bounds"},
		"always too expensive":  {`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))`, "costs too much"},
		"fit for some turns":    {`toolCalls[0].name == "look"`, ""},
		"fit for numbers":       {`int(response) > 3 || double(response) > 3.0`, ""},
		"fit for times":         {`timestamp(response) > timestamp("2026-01-01T00:00:00Z")`, ""},
		"ordinary":              {`iteration >= 3 && usage.totalTokens > 1000 && response.matches("(?i)done")`, ""},
		"a wrong regex by hand": {`response.matches("(")`, "missing closing"},
	} {
		p, err := CompilePredicate(c.expr)
		switch {
		case c.want == "" && (err != nil || p == nil):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || p != nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// A schema that cannot be used is refused before the task starts, and none makes the operator read anything.
func TestOutputSchemaIsRefusedBeforeTheStart(t *testing.T) {
	for name, c := range map[string]struct{ schema, want string }{
		"no JSON":      {`{"type":`, "not JSON"},
		"no schema":    {`{"type": 3}`, "the schema"},
		"a file":       {`{"$ref": "file:///etc/passwd"}`, "not followed"},
		"an address":   {`{"$ref": "http://169.254.169.254/"}`, "not followed"},
		"no reference": {`{"$ref": "#/$defs/none"}`, "the schema"},
		"ordinary":     {`{"type":"object","$defs":{"n":{"type":"integer"}},"properties":{"n":{"$ref":"#/$defs/n"}}}`, ""},
	} {
		_, err := CompileSchema(json.RawMessage(c.schema))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	s, err := CompileSchema(json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{`{"n":1}`: "", `{"n":"x"}`: "integer", `{}`: "n", `{"n":`: "not JSON"} {
		if err := s.Validate(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Output that the status cannot hold is no output: JSON that is cut is none.
func TestOutputThatIsTooLongIsRefused(t *testing.T) {
	schema, err := CompileSchema(json.RawMessage(`{"type":"array"}`))
	if err != nil {
		t.Fatal(err)
	}
	sp := &Spec{Output: schema}
	s := &State{}
	if err := sp.checkOutput(s); err == nil {
		t.Error("there is no reply yet")
	}
	long := `["` + strings.Repeat("a", MaxOutputBytes) + `"]`
	s.turn = &turn{reply: Reply{Blocks: []Block{{Kind: BlockText, Text: long}}}}
	if err := sp.checkOutput(s); err == nil || !strings.Contains(err.Error(), "make it shorter") {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{"```json\n[1]\n```": "[1]", "```[1]```": "```[1]```", "```\n[1]": "```\n[1]", " [1] ": "[1]"} {
		if got := unfence(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// No number that a server sends makes tokens go down or overflow.
func TestTokensOnlyGrow(t *testing.T) {
	const most = 1<<63 - 1
	sum := Usage{}
	for _, u := range []Usage{{InputTokens: most}, {OutputTokens: most, TotalTokens: -5}, {InputTokens: -most, OutputTokens: -1}, {TotalTokens: most}} {
		next := sum.Add(u)
		if next.Total() < sum.Total() || next.InputTokens < sum.InputTokens || next.OutputTokens < sum.OutputTokens {
			t.Errorf("%+v and %+v give %+v", sum, u, next)
		}
		sum = next
	}
	c := calibration{}
	for _, in := range []int64{0, -1, most} {
		c.learn(&ModelReplied{RequestBytes: 100, Reply: Reply{Usage: Usage{InputTokens: in}}})
	}
	c.learn(&ModelReplied{RequestBytes: most, Reply: Reply{Usage: Usage{InputTokens: 1}}})
	if c != (calibration{}) {
		t.Errorf("learned nonsense: %+v", c)
	}
	c.learn(&ModelReplied{RequestBytes: 400, Reply: Reply{Usage: Usage{InputTokens: 100}}})
	for n, want := range map[int64]int64{400: 100, 200: 50, 430: 110, 0: 0} {
		if got := c.estimate(n); got != want {
			t.Errorf("%d bytes are estimated as %d tokens, want %d", n, got, want)
		}
	}
}

// fillUsage estimates what is missing and leaves alone what was reported.
func TestMissingUsageIsEstimated(t *testing.T) {
	for name, c := range map[string]struct {
		reported Usage
		broken   bool
		want     Usage
	}{
		"nothing":                {Usage{}, false, Usage{InputTokens: 100, OutputTokens: 10, TotalTokens: 110, Estimated: true}},
		"all":                    {Usage{InputTokens: 7, OutputTokens: 3, TotalTokens: 12}, false, Usage{InputTokens: 7, OutputTokens: 3, TotalTokens: 12}},
		"the total alone":        {Usage{TotalTokens: 12}, false, Usage{TotalTokens: 12}},
		"no output":              {Usage{InputTokens: 7, TotalTokens: 7}, false, Usage{InputTokens: 7, OutputTokens: 10, TotalTokens: 17, Estimated: true}},
		"no input":               {Usage{OutputTokens: 3}, false, Usage{InputTokens: 100, OutputTokens: 3, TotalTokens: 103, Estimated: true}},
		"negative":               {Usage{InputTokens: -7, OutputTokens: 3, TotalTokens: -4}, false, Usage{InputTokens: 100, OutputTokens: 3, TotalTokens: 103, Estimated: true}},
		"the beginning, broken":  {Usage{InputTokens: 7, OutputTokens: 1}, true, Usage{InputTokens: 7, OutputTokens: 10, TotalTokens: 17, Estimated: true}},
		"more than the estimate": {Usage{InputTokens: 7, OutputTokens: 30}, true, Usage{InputTokens: 7, OutputTokens: 30, TotalTokens: 37}},
	} {
		u := c.reported
		fillUsage(&u, 100, 40, c.broken)
		if u != c.want {
			t.Errorf("%s: %+v, want %+v", name, u, c.want)
		}
	}
}
