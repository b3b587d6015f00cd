package controller

import (
	"math/big"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// cost is what tokens cost, as an exact decimal. Empty without prices.
func cost(u loop.Usage, p *v1alpha1.Pricing) string {
	if p == nil {
		return ""
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
		price, ok := new(big.Rat).SetString(part.price)
		if !ok {
			return "" // the API server admits decimals only
		}
		sum.Add(sum, price.Mul(price, big.NewRat(max(0, part.tokens), 1_000_000)))
	}
	return decimal(sum)
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
