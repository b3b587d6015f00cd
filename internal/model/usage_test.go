package model_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

func TestUsageIsAtMostWhatACallCanHave(t *testing.T) {
	const absurd, unseen = math.MaxInt64 / 4, 4 << 20
	prompt := strings.Repeat("x", 1000) // with what providers put around a message, 1012 bytes
	for name, c := range map[string]struct {
		reason          string
		cap, configured int64
		received        int
		told, want      loop.Usage
	}{
		"honest":           {"nothing is changed", 100, 0, 400, usage(250, 200, 100, 350), usage(250, 200, 100, 350)},
		"nothing":          {"an estimate is the loop's", 100, 0, 400, loop.Usage{}, loop.Usage{}},
		"own estimate":     {"a mark stays", 100, 0, 0, estimated(usage(0, 0, 100, 0)), estimated(usage(0, 0, 100, 0))},
		"a gateway's own":  {"it puts a prompt before ours", 100, 0, 400, usage(2_000_000, 0, 100, 0), usage(2_000_000, 0, 100, 0)},
		"unheeded cap":     {"what a server bills beyond the cap is billed", 100, 0, 0, usage(250, 0, 100_000, 0), usage(250, 0, 100_000, 0)},
		"absurd input":     {"two tokens a byte, and what we do not see", 100, 0, 0, usage(absurd, 0, 1, 0), estimated(usage(2024+unseen, 0, 1, 0))},
		"absurd cached":    {"it is part of the input", 100, 0, 0, usage(250, absurd, 1, 0), estimated(usage(250, 2024+unseen, 1, 0))},
		"absurd output":    {"the cap that was sent", 100, 0, 0, usage(250, 0, absurd, 0), estimated(usage(250, 0, 100+unseen, 0))},
		"the model's cap":  {"it is sent too", 0, 500, 0, usage(250, 0, absurd, 0), estimated(usage(250, 0, 500+unseen, 0))},
		"the smaller cap":  {"as it is sent", 900, 500, 0, usage(250, 0, absurd, 0), estimated(usage(250, 0, 500+unseen, 0))},
		"without a cap":    {"the stated maximum", 0, 0, 0, usage(250, 0, absurd, 0), estimated(usage(250, 0, 1<<20+unseen, 0))},
		"a very long one":  {"what came is there", 100, 0, 1 << 22, usage(250, 0, 1<<22, 0), usage(250, 0, 1<<22, 0)},
		"absurd total":     {"both together", 100, 0, 0, usage(250, 0, 100, absurd), estimated(usage(250, 0, 100, 2024+100+2*unseen))},
		"the largest ever": {"nothing overflows", 100, 0, 0, usage(math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64), estimated(usage(2024+unseen, 2024+unseen, 100+unseen, 2024+100+2*unseen))},
	} {
		for _, failure := range []error{nil, errors.New("broke off")} {
			inner := loop.ModelFunc(func(_ context.Context, _ *loop.Request, onBytes func(int)) (*loop.Reply, error) {
				onBytes(c.received)
				return &loop.Reply{Usage: c.told}, failure
			})
			passedOn := 0
			reply, err := model.Checked(inner, c.configured).Generate(t.Context(),
				&loop.Request{Messages: []loop.Message{loop.UserText(prompt)}, MaxOutputTokens: c.cap}, func(n int) { passedOn += n })
			if !errors.Is(err, failure) || reply.Usage != c.want || passedOn != c.received {
				t.Errorf("%s (%s): got %+v and %d bytes, want %+v; %v", name, c.reason, reply.Usage, passedOn, c.want, err)
			}
		}
	}
}

func TestACallWithoutReplyHasNoUsageToBound(t *testing.T) {
	broken := errors.New("broken")
	inner := loop.ModelFunc(func(context.Context, *loop.Request, func(int)) (*loop.Reply, error) { return nil, broken })
	if reply, err := model.Checked(inner, 0).Generate(t.Context(), &loop.Request{}, func(int) {}); reply != nil || !errors.Is(err, broken) {
		t.Errorf("got %+v, %v", reply, err)
	}
}

func usage(input, cached, output, total int64) loop.Usage {
	return loop.Usage{InputTokens: input, CachedInputTokens: cached, OutputTokens: output, TotalTokens: total}
}

func estimated(u loop.Usage) loop.Usage {
	u.Estimated = true
	return u
}
