package loop

import (
	"math/big"
	"strings"
)

// Price is what a model's tokens cost, in decimals such as "2.50" per million tokens.
type Price struct {
	// Input is of tokens that were not cached, CachedInput of cached ones; an empty CachedInput means Input.
	Input       string
	CachedInput string
	Output      string
	Currency    string
}

// Cost is what a call cost by the price of its moment. Later prices change nothing of it.
type Cost struct {
	// Amount is an exact decimal, without trailing zeros.
	Amount   string `json:"amount"`
	Currency string `json:"currency,omitempty"`
}

// price is that of the model which serves a purpose, nil when it is not known.
func (sp *Spec) price(p Purpose) *Price {
	if p == PurposeJudge && sp.OwnJudge {
		return sp.JudgePrice
	}
	return sp.Price
}

// cost is what tokens cost, nil without a price for them.
func (p *Price) cost(u Usage) *Cost {
	if p == nil || !u.Reported() {
		return nil
	}
	cached := p.CachedInput
	if cached == "" {
		cached = p.Input
	}
	sum := new(big.Rat)
	for _, part := range []struct {
		tokens int64
		price  string
	}{{u.InputTokens - u.CachedInputTokens, p.Input}, {u.CachedInputTokens, cached}, {u.OutputTokens, p.Output}} {
		each := parseDecimal(part.price)
		if each == nil {
			return nil
		}
		sum.Add(sum, each.Mul(each, big.NewRat(max(0, part.tokens), 1_000_000)))
	}
	return &Cost{Amount: decimal(sum), Currency: p.Currency}
}

// parseDecimal reads digits with at most one point, nil for anything else: an exponent could make a number of any size.
func parseDecimal(text string) *big.Rat {
	if len(text) > 100 || strings.Trim(text, "0123456789.") != "" {
		return nil
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return r
}

// decimal writes a sum of decimals, which has finitely many digits, without trailing zeros.
func decimal(r *big.Rat) string {
	digits, _ := r.FloatPrec()
	text := r.FloatString(digits)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// costs are the sums of a task's calls.
type costs struct {
	sums     map[string]*big.Rat // by currency
	unpriced bool                // a call had no price
}

func (c *costs) add(u Usage, cost *Cost) {
	if !u.Reported() {
		return // it cost nothing
	}
	var amount *big.Rat
	if cost != nil {
		amount = parseDecimal(cost.Amount)
	}
	if amount == nil {
		c.unpriced = true
		return
	}
	if c.sums == nil {
		c.sums = map[string]*big.Rat{}
	}
	if sum := c.sums[cost.Currency]; sum != nil {
		amount.Add(amount, sum)
	}
	c.sums[cost.Currency] = amount
}

// Cost is what the task's calls have cost, as an exact decimal. It is not known (ok is false) without any call, when one
// had no price, and when they were not all in one currency.
func (s *State) Cost() (amount, currency string, ok bool) {
	if s.costs.unpriced || len(s.costs.sums) != 1 {
		return "", "", false
	}
	for currency, sum := range s.costs.sums {
		amount = decimal(sum)
		return amount, currency, true
	}
	return "", "", false
}
