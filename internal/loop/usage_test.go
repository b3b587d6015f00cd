package loop

import "testing"

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

// Models put JSON into a fenced block; it counts when there is nothing else.
func TestJSONIsTakenOutOfAFence(t *testing.T) {
	for text, want := range map[string]string{"```json\n[1]\n```": "[1]", "```[1]```": "```[1]```", "```\n[1]": "```\n[1]", " [1] ": "[1]"} {
		if got := unfence(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
