package eval

import (
	"fmt"
	"strings"
	"testing"
)

// limits are those of the loop.
var limits = Limits{Response: 130 << 10, Calls: 64, CallBytes: 196 << 10}

func loopOf(n int) string { return "[" + lots(n, "1") + "]" }

// A wrong expression is refused before the task starts, in words that say what to write.
func TestStopWhenIsRefusedBeforeTheStart(t *testing.T) {
	for name, c := range map[string]struct{ expr, want string }{
		"syntax":                       {`iteration >`, "column"},
		"an unknown variable":          {`turn > 3`, "undeclared reference"},
		"a wrong type":                 {`response > 3`, "no matching overload"},
		"no bool":                      {`iteration`, "must give bool"},
		"a dynamic value":              {`dyn(iteration)`, "must give bool"},
		"a dynamic value within":       {`dyn(iteration) == 3`, "type dyn"},
		"a misspelt key":               {`usage.tokens > 3`, "no such key"},
		"always out of bounds":         {`toolCalls[99].name == "x"`, "out of bounds"},
		"a wrong pattern":              {`response.matches("(")`, "missing closing"},
		"a pattern that is made":       {`response.matches(toolCalls[0].name)`, "no literal"},
		"a pattern that unfolds":       {`response.matches("` + strings.Repeat("x{1000}", 500) + `")`, "instructions"},
		"too long":                     {`response == "` + strings.Repeat("a", maxExpression) + `"`, "size"},
		"too deep":                     {strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), "recursion"},
		"lists within lists":           {`[[1]].size() == 1`, "list(list(int))"},
		"lists of mixed types":         {`[1, "a"].size() == 2`, "list(dyn)"},
		"a list that grows":            {`([1] + [2]).size() == 2`, "adds lists"},
		"a message":                    {`google.protobuf.Duration{seconds: 1} > duration("1s")`, "message"},
		"a time zone":                  {`timestamp("2026-01-01T00:00:00Z").getHours("Europe/Berlin") > 3`, "time zone"},
		"loops within loops":           {`toolCalls.all(a, toolCalls.all(b, toolCalls.all(c, toolCalls.all(d, a.name + b.name + c.name + d.name != "x"))))`, "costs too much"},
		"loops over literals":          {fmt.Sprintf("%s.all(a, %s.all(b, %s.all(c, a+b+c > 0)))", loopOf(100), loopOf(100), loopOf(100)), "costs too much"},
		"long texts again and again":   {loopOf(500) + `.all(a, response.contains("x"))`, "costs too much"},
		"long texts that are measured": {loopOf(900) + `.all(a, response.size() > 0)`, "costs too much"},
		"long texts that are made":     {loopOf(75) + `.all(a, (response + response).contains("x"))`, "costs too much"},
		"a list of long texts":         {`[1, 2].all(a, toolCalls.map(c, c.name + response).all(r, r.contains("x")))`, "costs too much"},
		"texts that are parsed again":  {loopOf(100) + `.exists(a, timestamp(response) > timestamp("2026-01-01T00:00:00Z"))`, "costs too much"},
		"a pattern for long texts":     {`response.matches("(a|b|ab|ba|aab|abb|a*b*){30}c")`, "costs too much"},

		"a key of calls":             {`toolCalls.size() > 0 && toolCalls[0].args == ""`, ""}, // true or false for most turns
		"fit for some turns":         {`toolCalls[0].name == "look"`, ""},
		"fit for numbers":            {`int(response) > 3 || double(response) > 3.0`, ""},
		"fit for times":              {`timestamp(response) > timestamp("2026-01-01T00:00:00Z")`, ""},
		"ordinary":                   {`iteration >= 3 && usage.totalTokens > 1000 && response.matches("(?i)done")`, ""},
		"a pattern for arguments":    {`toolCalls.exists(c, c.arguments.matches("foo.*bar"))`, ""},
		"a pattern of many branches": {`response.matches("^(done|finished|complete(d)?|all tests pass(ed)?)[.!]?$")`, ""},
		"each call with each":        {`toolCalls.exists(a, toolCalls.exists_one(b, a.arguments == b.arguments && a.name == b.name))`, ""},
		"names of calls":             {`toolCalls.map(c, c.name) == ["a", "b"] || toolCalls.all(c, c.name in ["a", "b"])`, ""},
		"chosen calls":               {`toolCalls.filter(c, c.name == "deploy" && c.arguments.contains("prod")).size() >= 2`, ""},
		"no calls":                   {`toolCalls == [] || !has(usage.inputTokens) || usage.all(k, usage[k] > 0)`, ""},
		"texts":                      {`string(iteration) + response == "3x" && response.size() > 100 && response.startsWith("x")`, ""},
		"a time's parts":             {`timestamp(response).getFullYear() == 2026`, ""},
		"either":                     {`response.contains("a") ? iteration > 2 : iteration > 5`, ""},
	} {
		p, err := CompilePredicate(c.expr, limits)
		switch {
		case c.want == "" && (err != nil || p == nil):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || p != nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 700):
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// What an expression says of a turn.
func TestWhatStopWhenSays(t *testing.T) {
	turn := Turn{
		Response: "42 is the answer", Iteration: 3, Usage: Usage{Input: 20, Output: 5, Total: 26},
		ToolCalls: []Call{{Name: "look", Arguments: `{"at":"x"}`}, {Name: "look"}},
	}
	for name, c := range map[string]struct {
		expr string
		want bool
		err  string
	}{
		"the response":                 {`response.contains("42") && response.matches("^4.*r$")`, true, ""},
		"the iteration":                {`iteration == 3`, true, ""},
		"usage":                        {`usage == {"inputTokens": 20, "outputTokens": 5, "totalTokens": 26}`, true, ""},
		"calls":                        {`toolCalls.map(c, c.name) == ["look", "look"] && toolCalls[0].arguments == '{"at":"x"}'`, true, ""},
		"false":                        {`iteration > 3`, false, ""},
		"what it cannot say of a turn": {`toolCalls[5].name == "look"`, false, "index out of bounds"},
		"a number that is none":        {`int(response) > 3`, false, "conversion"},
	} {
		p, err := CompilePredicate(c.expr, limits)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := p.Eval(turn)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	p, err := CompilePredicate(`usage[response] > 3 || true`, limits)
	if err != nil {
		t.Fatal(err)
	}
	turn.Response = strings.Repeat("x", limits.Response)
	if _, err := p.Eval(turn); err != nil {
		t.Error(err)
	}
}

// The largest expressions that are allowed, over the largest turn, take what is stated.
func TestNoExpressionTakesMoreThanIsStated(t *testing.T) {
	needle := strings.Repeat("a", 35) + "b" + strings.Repeat("a", 35)
	turn := Turn{Response: strings.Repeat("a", limits.Response), Iteration: 3}
	for range limits.Calls {
		turn.ToolCalls = append(turn.ToolCalls, Call{Name: "look", Arguments: strings.Repeat("x", limits.CallBytes/limits.Calls-4)})
	}
	// Each is repeated as often as is allowed.
	for name, body := range map[string]string{
		"arithmetic":          `[1,1,1,1,1,1,1,1,1,1].all(b, a+b > 0)`,
		"constants":           strings.Repeat("true && ", 300) + "true",
		"branches":            strings.Repeat("(true ? ", 60) + "true" + strings.Repeat(" : false)", 60),
		"lists":               loopOf(500) + `.size() > 0`,
		"maps":                `{` + list(100, func(i int) string { return fmt.Sprintf("%d:1", i) }) + `}.size() > 0`,
		"finding":             `!(2 in ` + loopOf(300) + `)`,
		"lists that are made": `toolCalls.filter(b, b.name != "x").map(b, b.name).size() > 0`,
		"long texts made":     `(response + response).size() > 0`,
		"short texts made":    `["a","b","c","d"].map(s, s+s).map(s, s+s).size() > 0`,
		"searching":           `!response.contains("` + needle + `")`,
		"counting":            `response.size() > 0`,
		"comparing":           `response + "a" != response + "b"`,
		"comparing calls":     `toolCalls.all(b, toolCalls[1].arguments == b.arguments)`,
		"converting":          `string(bytes(response)) == response`,
		"parsing numbers":     `(int(response) > 3 || true)`,
		"parsing times":       `(timestamp(response) > timestamp(response) || true)`,
		"keys":                `!(response in {"a": 1})`,
		"matching":            `!response.matches("(.*a){10}b")`,
		"matching calls":      `!toolCalls.exists(c, c.arguments.matches("(x|xx|x*){3}b"))`,
		"matching texts":      `!"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".matches("(?:a{0,20}){20}b")`,
	} {
		t.Run(name, func(t *testing.T) {
			var p *Predicate
			for times := 1000; p == nil && times > 0; times = times * 9 / 10 {
				if len(body)+2*times < maxExpression {
					p, _ = CompilePredicate(loopOf(times)+".all(a, "+body+")", limits)
				}
			}
			if p == nil {
				t.Fatal("it is not even allowed once")
			}
			if garbage := cost(t, func() {
				if hit, err := p.Eval(turn); !hit {
					t.Errorf("it stopped early: %v", err)
				}
			}); garbage > mostGarbage {
				t.Errorf("%d KiB of garbage", garbage>>10)
			}
		})
	}
}

// Compiling an expression has a bound, and what is tried at the start takes no more than two evaluations.
func TestCompilingAnExpressionTakesNoMoreThanIsStated(t *testing.T) {
	fill := func(unit, end string) string { return strings.Repeat(unit, (maxExpression-len(end))/len(unit)) + end }
	slow := func(expr string) string { // fails for each turn that is tried, after all allowed steps
		return loopOf(100) + `.all(a, [1,1,1,1,1,1,1,1,1,1].all(b, ` + loopOf(75) + `.all(c, a+b+c > 0))) && ` + expr
	}
	for name, expr := range map[string]string{
		"parentheses":        fill("(", "true"),
		"signs":              fill("-", "1 == 1"),
		"negations":          fill("!", "true"),
		"choices":            fill("true?true:", "true"),
		"sums":               fill("1+", "1 == 1"),
		"and":                fill("true&&", "true"),
		"comparisons":        fill("true==", "true"),
		"loops":              fill("[1].all(a,", "true"),
		"loops that end":     strings.Repeat("[1].exists_one(a,", 120) + "true" + strings.Repeat(")", 120),
		"loops of loops":     "[1]" + strings.Repeat(".map(a, a)", 80) + " == [1]",
		"a list":             "1 in [" + fill("1,", "1]")[:maxExpression-20] + "]",
		"fields":             "usage" + strings.Repeat(".a", 200) + " > 1",
		"a wrong expression": fill("(]", ""),
		"unknown names":      fill("x&&", "x"),
		"patterns":           fill(`response.matches('[^\\pL\\pN][^\\pL\\pN]')||`, "true"),
		"a pattern":          `response.matches('` + fill(`[^\\pL\\pN]`, "")[:4000] + `')`,
		"all that is tried":  slow(`toolCalls[99].name == "x"`),
	} {
		t.Run(name, func(t *testing.T) {
			if garbage := cost(t, func() { _, _ = CompilePredicate(expr, limits) }); garbage > 2*mostGarbage {
				t.Errorf("%d KiB of garbage", garbage>>10)
			}
		})
	}
	if p, err := CompilePredicate(slow(`toolCalls[99].name == "x"`), limits); p == nil {
		t.Errorf("what takes too long to try is not believed: %v", err)
	}
}
