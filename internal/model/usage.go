package model

import (
	"context"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

const (
	// unseenTokens is what a call may be billed beyond what we see of it: a prompt or search results that a gateway puts before ours,
	// and thoughts that a server does not hold to the cap. The largest context windows have as much: what is billed must never count for less.
	unseenTokens = 4 << 20
	// maxReplyTokens is the most of one reply without a cap. No model gives as much.
	maxReplyTokens = 1 << 20
)

// Checked returns m with what its server says held against the request. An error about the definition of a tool names the tool. Usage
// is lowered to what the call can have had, and then marked as estimated: counters that many tasks share take these numbers, and a
// single absurd one would stay in them. Configured is the AgentModel's own cap on a reply's tokens, 0 for none.
//
// Input is at most two tokens a byte of the request, output the cap that was sent and a token a byte that came; both may have 4,194,304
// beyond that. A reply without a cap has at most 1,048,576 instead of the cap.
func Checked(m loop.Model, configured int64) loop.Model {
	return loop.ModelFunc(func(ctx context.Context, req *loop.Request, onBytes func(int)) (*loop.Reply, error) {
		var received int64
		reply, err := m.Generate(ctx, req, func(n int) {
			received += int64(n)
			onBytes(n)
		})
		noteRefusedTool(err, req.Tools)
		if reply != nil {
			output := OutputCap(req.MaxOutputTokens, configured)
			if output == 0 {
				output = maxReplyTokens
			}
			boundUsage(&reply.Usage, 2*req.Bytes()+unseenTokens, output+received+unseenTokens)
		}
		return reply, err
	})
}

func boundUsage(u *loop.Usage, input, output int64) {
	for _, f := range []struct {
		count *int64
		most  int64
	}{{&u.InputTokens, input}, {&u.CachedInputTokens, input}, {&u.OutputTokens, output}, {&u.TotalTokens, input + output}} {
		if *f.count > f.most {
			*f.count, u.Estimated = f.most, true
		}
	}
}
