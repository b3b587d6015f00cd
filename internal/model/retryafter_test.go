package model_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

func TestTheProvidersWishToWaitIsRead(t *testing.T) {
	const date = "Wed, 21 Oct 2015 07:28:00 GMT"
	cases := map[string]struct {
		header map[string]string
		want   time.Duration
	}{
		"nothing":                  {nil, 0},
		"seconds":                  {map[string]string{"Retry-After": "20"}, 20 * time.Second},
		"fractions":                {map[string]string{"Retry-After": "1.5"}, 1500 * time.Millisecond},
		"milliseconds win":         {map[string]string{"Retry-After": "20", "retry-after-ms": "250"}, 250 * time.Millisecond},
		"a date, by its own clock": {map[string]string{"Retry-After": "Wed, 21 Oct 2015 07:29:00 GMT", "Date": date}, time.Minute},
		"a date in the past":       {map[string]string{"Retry-After": "Wed, 21 Oct 2015 07:27:00 GMT", "Date": date}, 0},
		"zero":                     {map[string]string{"Retry-After": "0", "x-ratelimit-reset-requests": "9s"}, 0},
		"negative":                 {map[string]string{"Retry-After": "-5"}, 0},
		"absurd":                   {map[string]string{"Retry-After": "1e300"}, 24 * time.Hour},
		"endless":                  {map[string]string{"Retry-After": "Inf"}, 0},
		"no number":                {map[string]string{"Retry-After": "soon"}, 0},
		"the limit that is used up": {map[string]string{
			"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30s",
			"x-ratelimit-remaining-tokens": "900", "x-ratelimit-reset-tokens": "6m0s"}, 90 * time.Second},
		"both used up: the later": {map[string]string{
			"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120ms",
			"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "7.66s"}, 7660 * time.Millisecond},
		"none used up: the shorter": {map[string]string{
			"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "2s",
			"x-ratelimit-remaining-tokens": "900", "x-ratelimit-reset-tokens": "6m0s"}, 2 * time.Second},
		"a reset in seconds":      {map[string]string{"x-ratelimit-reset-tokens": "30"}, 30 * time.Second},
		"a reset in Unix seconds": {map[string]string{"x-ratelimit-reset": "1445412510", "Date": date}, 30 * time.Second},
		"a reset in Unix millis":  {map[string]string{"x-ratelimit-reset": "1445412510000", "Date": date}, 30 * time.Second},
		"Anthropic's reset": {map[string]string{
			"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "2015-10-21T07:28:45Z", "Date": date}, 45 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			for k, v := range c.header {
				h.Set(k, v)
			}
			if got := model.ErrorFromStatus(429, h, "").RetryAfter; got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
