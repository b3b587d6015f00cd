package loop_test

import (
	"context"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// What a call cost is exact, and by the price of its moment.
func TestCostOfOneCall(t *testing.T) {
	price := &loop.Price{Input: "3", CachedInput: "0.30", Output: "15.00", Currency: "USD"}
	million := func(in, cached, out int64) loop.Usage {
		return loop.Usage{InputTokens: in * 1_000_000, CachedInputTokens: cached * 1_000_000, OutputTokens: out * 1_000_000}
	}
	for name, tc := range map[string]struct {
		price *loop.Price
		usage loop.Usage
		want  string
	}{
		"input and output":             {price, million(1, 0, 1), "18"},
		"cached input is cheaper":      {price, million(2, 1, 0), "3.3"},
		"cached input without a price": {&loop.Price{Input: "3", Output: "15"}, million(2, 1, 0), "6"},
		"one token":                    {price, loop.Usage{InputTokens: 1}, "0.000003"},
		"what floats cannot say":       {&loop.Price{Input: "0.1", Output: "0.2"}, million(3, 0, 0), "0.3"},
		"the smallest price":           {&loop.Price{Input: "0.0000000000000000000001", Output: "0"}, loop.Usage{InputTokens: 1}, "0.0000000000000000000000000001"},
		"free of charge":               {&loop.Price{Input: "0", Output: "0.00"}, million(1, 0, 1), "0"},
		"more cached than input":       {price, million(1, 2, 0), "0.6"},
		"no price":                     {nil, million(1, 0, 1), ""},
		"no number":                    {&loop.Price{Input: "3", Output: "much"}, million(1, 0, 1), ""},
		"a number without bound":       {&loop.Price{Input: "1e999999999", Output: "1"}, million(1, 0, 1), ""},
		"a fraction":                   {&loop.Price{Input: "1/3", Output: "1"}, million(1, 0, 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTask(t, loop.Spec{Price: tc.price})
			a.reply = &loop.Reply{Usage: tc.usage} // without text, so that nothing of it is estimated
			a.advance()
			amount, currency, ok := a.state.Cost()
			if amount != tc.want || ok != (tc.want != "") || ok && currency != tc.price.Currency {
				t.Errorf("it cost %q %q (%t), want %q", amount, currency, ok, tc.want)
			}
		})
	}
}

// priced is a task whose calls take a million tokens of input each.
func priced(t *testing.T, spec loop.Spec) *aTask {
	a := newTask(t, spec)
	a.reply.Usage = loop.Usage{InputTokens: 1_000_000, OutputTokens: 1, TotalTokens: 1_000_001}
	return a
}

// A price that is edited changes nothing of what was paid before.
func TestLaterPricesChangeNothingOfThePast(t *testing.T) {
	a := priced(t, loop.Spec{Price: &loop.Price{Input: "3", Output: "0", Currency: "USD"}})
	a.advance()
	a.spec.Price = &loop.Price{Input: "7", Output: "0", Currency: "USD"}
	a.advance()
	if amount, currency, ok := a.state.Cost(); amount != "10" || currency != "USD" || !ok {
		t.Errorf("%q %q %t", amount, currency, ok)
	}
	a.spec.Price = nil
	if amount, _, ok := folded(t, a.journal).Cost(); amount != "10" || !ok {
		t.Errorf("from the journal: %q %t", amount, ok)
	}
}

// There is no sum over two currencies, nor one that leaves a call out.
func TestWhatHasNoSum(t *testing.T) {
	usd, eur := &loop.Price{Input: "3", Output: "0", Currency: "USD"}, &loop.Price{Input: "3", Output: "0", Currency: "EUR"}
	for name, tc := range map[string]struct {
		prices []*loop.Price
		want   string
	}{
		"no call":                 {nil, ""},
		"one currency":            {[]*loop.Price{usd, usd}, "6"},
		"two":                     {[]*loop.Price{usd, eur}, ""},
		"the second has no price": {[]*loop.Price{usd, nil}, ""},
		"the first has none":      {[]*loop.Price{nil, usd}, ""},
	} {
		a := priced(t, loop.Spec{})
		for _, p := range tc.prices {
			a.spec.Price = p
			a.advance()
		}
		if amount, _, ok := a.state.Cost(); amount != tc.want || ok != (tc.want != "") {
			t.Errorf("%s: %q %t, want %q", name, amount, ok, tc.want)
		}
	}
}

// Each event that has usage has its own cost: replies, failures, a judge's by its own price, and what was lost.
func TestEveryCallThatCountsCosts(t *testing.T) {
	turn, judge := &loop.Price{Input: "1", Output: "0", Currency: "USD"}, &loop.Price{Input: "100", Output: "0", Currency: "USD"}
	a := priced(t, loop.Spec{Price: turn, JudgePrice: judge, Strategy: loop.StrategyJudge})
	million := a.reply.Usage
	costs := func(e loop.Event) *loop.Cost {
		switch {
		case e.ModelReplied != nil:
			return e.ModelReplied.Cost
		case e.ModelFailed != nil:
			return e.ModelFailed.Cost
		}
		return e.Opened.Lost.Cost
	}
	want := func(what, amount string) {
		t.Helper()
		for i := len(a.journal) - 1; ; i-- {
			if e := a.journal[i]; e.ModelReplied != nil || e.ModelFailed != nil || e.Opened != nil {
				if got := costs(e); got == nil || got.Amount != amount || got.Currency != "USD" {
					t.Errorf("%s costs %+v, want %s", what, got, amount)
				}
				return
			}
		}
	}
	a.advance()
	want("a turn", "1")
	a.advance()
	want("a judge that is the same model", "1")
	a.spec.OwnJudge = true
	a.advance()
	want("a turn beside a judge of its own", "1")
	a.advance()
	want("a judge of its own", "100")
	fails := a.engine.Model
	a.engine.Model = loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) {
		return &loop.Reply{Usage: million}, &loop.ModelError{Retry: true, Sent: true}
	})
	a.advance()
	want("a call that failed", "1")
	a.engine.Model = fails
	a.clock.Add(time.Hour)
	lost := a.open(loop.Opened{Holder: "two"}).Lost
	if lost == nil || lost.Cost == nil || lost.Cost.Amount == "0" || lost.Cost.Currency != "USD" {
		t.Errorf("a call that was lost costs %+v", lost)
	}
	if _, currency, ok := a.state.Cost(); !ok || currency != "USD" {
		t.Error("not all calls have their cost")
	}
	a.engine.Model = modelThat(nil, &loop.ModelError{Retry: true})
	a.spec.Price = nil
	a.advance()
	if _, _, ok := a.state.Cost(); !ok {
		t.Error("a call that took nothing needs no price")
	}
	looptest.SameState(t, a.state, folded(t, a.journal))
}
