package limit_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/limit"
)

func TestARefundDoesNotRefillTheTokens(t *testing.T) {
	l := limit.New(limit.Limits{TokensPerMinute: 6000}, newClock().Now)
	call(t, l, answers(loop.Usage{TotalTokens: 950}))
	m := answers(loop.Usage{TotalTokens: 1})
	made := 0
	for made < 100 && call(t, l, m) == nil {
		made++
	}
	if made != 50 {
		t.Errorf("%d calls of one token, want the 50 that were left", made)
	}
}

func TestAChangeOfLimitsKeepsWhatWasSpent(t *testing.T) {
	cases := map[string]struct {
		from, to limit.Limits
		usage    int64
		before   int
		// after is how many calls go at once after the change, and wait what the next one is told.
		after int
		wait  time.Duration
	}{
		"more requests": {limit.Limits{RequestsPerMinute: 60}, limit.Limits{RequestsPerMinute: 120}, 0, 10, 0, time.Second / 2},
		"less requests": {limit.Limits{RequestsPerMinute: 60}, limit.Limits{RequestsPerMinute: 6}, 0, 0, 1, 10 * time.Second},
		"more tokens":   {limit.Limits{TokensPerMinute: 6000}, limit.Limits{TokensPerMinute: 12_000}, 3000, 1, 0, 10*time.Second + 5*time.Millisecond},
		"less tokens":   {limit.Limits{TokensPerMinute: 6000}, limit.Limits{TokensPerMinute: 600}, 100, 0, 1, 100 * time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := limit.New(c.from, newClock().Now)
			m := answers(loop.Usage{TotalTokens: c.usage})
			for range c.before {
				if wait := call(t, l, m); wait != nil {
					t.Fatal(wait)
				}
			}
			l.SetLimits(c.to)
			for range c.after {
				if wait := call(t, l, m); wait != nil {
					t.Fatal(wait)
				}
			}
			if wait := call(t, l, m); wait == nil || (wait.After-c.wait).Abs() > time.Millisecond {
				t.Errorf("got %+v, want a wait of %v", wait, c.wait)
			}
		})
	}
}

func TestAFailedCallIsBookedOnceSomethingCameBack(t *testing.T) {
	for name, c := range map[string]struct {
		received int
		waits    bool
	}{"nothing": {0, false}, "some bytes": {40, true}} {
		t.Run(name, func(t *testing.T) {
			l := limit.New(limit.Limits{TokensPerMinute: 6000}, newClock().Now)
			m := loop.ModelFunc(func(_ context.Context, _ *loop.Request, onBytes func(int)) (*loop.Reply, error) {
				onBytes(c.received)
				return nil, &loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true}
			})
			ticket, _ := l.Take("task", 5000)
			_, _ = ticket.Wrap(m).Generate(t.Context(), &loop.Request{System: strings.Repeat("x", 20_000)}, func(int) {})
			if wait := call(t, l, m); (wait != nil) != c.waits {
				t.Errorf("the next call: %+v", wait)
			}
		})
	}
}

func TestOnlyARateThatPassesHoldsEveryTask(t *testing.T) {
	for name, err := range map[string]*loop.ModelError{
		"unavailable":     {Cause: loop.CauseModelUnavailable, Retry: true, RetryAfter: 7 * time.Second},
		"quota exhausted": {Cause: loop.CauseModelRateLimited, RetryAfter: 7 * time.Second},
	} {
		l := limit.New(limit.Limits{}, newClock().Now)
		call(t, l, fails(err))
		if wait := call(t, l, answers(loop.Usage{})); wait != nil {
			t.Errorf("%s: another call waits, %v", name, wait)
		}
	}
}

func TestACallComesThroughAsItIs(t *testing.T) {
	reply, broken := &loop.Reply{}, errors.New("broken")
	ticket, _ := limit.New(limit.Limits{}, newClock().Now).Take("task", 1)
	m := ticket.Wrap(loop.ModelFunc(func(_ context.Context, _ *loop.Request, onBytes func(int)) (*loop.Reply, error) {
		onBytes(3)
		onBytes(4)
		return reply, broken
	}))
	bytes := 0
	got, err := m.Generate(t.Context(), &loop.Request{}, func(n int) { bytes += n })
	if got != reply || !errors.Is(err, broken) || bytes != 7 {
		t.Errorf("got %v, %v, %d bytes", got, err, bytes)
	}
}

func TestTokensAreGuessedFromAllOfARequest(t *testing.T) {
	text := strings.Repeat("x", 400)
	message := func(m loop.Message) *loop.Request { return &loop.Request{Messages: []loop.Message{m, m}} }
	cases := map[string]struct {
		req   *loop.Request
		input int
	}{
		"nothing":       {&loop.Request{}, 1},
		"system":        {&loop.Request{System: text}, 101},
		"output schema": {&loop.Request{OutputSchema: json.RawMessage(text)}, 101},
		"text":          {message(loop.Message{Blocks: []loop.Block{{Text: text}, {Text: text}}}), 401},
		"calls":         {message(loop.Message{ToolCalls: []loop.ToolCall{{Name: text, Arguments: text}}}), 401},
		"results":       {message(loop.Message{ToolResults: []loop.ToolResult{{Content: text}}}), 201},
		"tools":         {&loop.Request{Tools: []loop.ToolDefinition{{Name: text, Description: text, InputSchema: json.RawMessage(text)}}}, 301},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := limit.New(limit.Limits{TokensPerMinute: 6000}, newClock().Now)
			ticket, _ := l.Take("task", 1)
			if _, err := ticket.Wrap(answers(loop.Usage{})).Generate(t.Context(), c.req, func(int) {}); err != nil {
				t.Fatal(err)
			}
			if gone := 1000 - left(l); gone != c.input {
				t.Errorf("%d tokens are gone, want %d", gone, c.input)
			}
		})
	}
}
