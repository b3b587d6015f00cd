package controller

import (
	"math/big"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// cost is what a task's tokens cost, the judge's by the prices of its own model: an exact decimal and its currency. Both are
// empty when prices are missing, or in two currencies.
func cost(s *loop.State, prices, judgePrices *v1alpha1.Pricing) (sum, currency string) {
	own := loop.Usage{
		InputTokens:       s.Usage.InputTokens - s.JudgeUsage.InputTokens,
		CachedInputTokens: s.Usage.CachedInputTokens - s.JudgeUsage.CachedInputTokens,
		OutputTokens:      s.Usage.OutputTokens - s.JudgeUsage.OutputTokens,
	}
	total := price(own, prices)
	if total != nil && s.JudgeUsage.Reported() {
		judge := price(s.JudgeUsage, judgePrices)
		if judge == nil || judgePrices.Currency != prices.Currency {
			return "", ""
		}
		total.Add(total, judge)
	}
	if total == nil {
		return "", ""
	}
	return decimal(total), prices.Currency
}

// price is what tokens cost, nil without prices.
func price(u loop.Usage, p *v1alpha1.Pricing) *big.Rat {
	if p == nil {
		return nil
	}
	cachedPrice := p.InputPerMillion
	if p.CachedInputPerMillion != nil {
		cachedPrice = *p.CachedInputPerMillion
	}
	sum := new(big.Rat)
	for _, part := range []struct {
		tokens int64
		price  string
	}{
		{u.InputTokens - u.CachedInputTokens, p.InputPerMillion},
		{u.CachedInputTokens, cachedPrice},
		{u.OutputTokens, p.OutputPerMillion},
	} {
		each, ok := new(big.Rat).SetString(part.price)
		if !ok {
			return nil // the API server admits decimals only
		}
		sum.Add(sum, each.Mul(each, big.NewRat(max(0, part.tokens), 1_000_000)))
	}
	return sum
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
