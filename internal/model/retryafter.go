package model

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a server may ask for. The task's own limits are far below it; it only keeps sums from
// overflowing.
const maxRetryAfter = 24 * time.Hour

// retryAfter is how long the provider asks us to wait, 0 where it says nothing. Retry-After-Ms and Retry-After are plain
// answers and win; the reset headers of the rate limits are used where neither is there. Unless the call was refused for a
// rate, they only count where they say that one is used up: many servers send them with every answer.
func retryAfter(h http.Header, rateLimited bool) time.Duration {
	if d, ok := scaled(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	if v := h.Get("Retry-After"); v != "" {
		if d, ok := scaled(v, time.Second); ok {
			return d
		}
		if at, err := http.ParseTime(v); err == nil {
			return clampWait(at.Sub(serverNow(h)))
		}
	}
	return resetWait(h, rateLimited)
}

// resets are the pairs of headers that tell what is left of a rate limit and when it is whole again.
var resets = []struct{ remaining, reset string }{
	{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
	{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	{"X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
	{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
	{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
}

// resetWait is the longest wait of the limits that are used up, or, where none says so, the shortest of all: a reset
// tells when the limit is whole again, which is later than when the next call fits.
func resetWait(h http.Header, rateLimited bool) time.Duration {
	var exhausted, shortest time.Duration
	for _, r := range resets {
		d := parseReset(h.Get(r.reset), h)
		if d <= 0 {
			continue
		}
		if left, err := strconv.ParseFloat(strings.TrimSpace(h.Get(r.remaining)), 64); err == nil && left <= 0 {
			exhausted = max(exhausted, d)
		}
		if shortest == 0 || d < shortest {
			shortest = d
		}
	}
	if exhausted > 0 || !rateLimited {
		return exhausted
	}
	return shortest
}

// parseReset reads a reset as providers write it: 6m0s, seconds, Unix seconds or milliseconds, or an RFC 3339 time.
func parseReset(v string, h http.Header) time.Duration {
	v = strings.TrimSpace(v)
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		const year2001 = 1e9 // a number this large is a point in time
		switch {
		case n > year2001*1000:
			return clampWait(time.UnixMilli(int64(min(n, 1e15))).Sub(serverNow(h)))
		case n > year2001:
			return clampWait(time.Unix(int64(n), 0).Sub(serverNow(h)))
		}
		d, _ := scaled(v, time.Second)
		return d
	}
	if d, err := time.ParseDuration(v); err == nil {
		return clampWait(d)
	}
	if at, err := time.Parse(time.RFC3339, v); err == nil {
		return clampWait(at.Sub(serverNow(h)))
	}
	return 0
}

// scaled reads a number of units. It is not ok where v is no finite number.
func scaled(v string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, false
	}
	if n > float64(maxRetryAfter/unit) {
		return maxRetryAfter, true
	}
	return clampWait(time.Duration(n * float64(unit))), true
}

func clampWait(d time.Duration) time.Duration { return min(max(d, 0), maxRetryAfter) }

// serverNow is the server's own time where it tells: its clock and ours may differ.
func serverNow(h http.Header) time.Time {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		return at
	}
	return time.Now()
}
