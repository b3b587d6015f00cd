//go:build share

package share

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

func tokens(most int64) func(*v1alpha1.AgentTask) {
	return func(t *v1alpha1.AgentTask) { t.Spec.MaxTokens = &most }
}

// inputTokens is what a provider bills for a request's text.
func inputTokens(q *fakechat.Request) int64 { return q.Bytes()/4 + 1 }

// hidden is for how many tokens a thinker thinks in each turn, of which the stream shows nothing.
const hidden = 100_000

// thinker is a model that never comes to an end.
func thinker(q *fakechat.Request) fakechat.Reply {
	reply := fakechat.Reply{Text: fmt.Sprintf("Thought %d", q.Replies()), In: inputTokens(q), Out: hidden}
	if limit := q.Cap(); limit > 0 && limit < hidden {
		reply.Out, reply.Finish = limit, "length"
	}
	return reply
}

// refusingAbove is a model that takes no cap above its own, in OpenAI's words.
func refusingAbove(most int64, next answer) answer {
	return func(q *fakechat.Request) fakechat.Reply {
		if got := q.Cap(); got > most {
			return fakechat.Reply{
				Status: http.StatusBadRequest, Code: "invalid_value", Param: "max_tokens", Message: fmt.Sprintf(
					"max_tokens is too large: %d. This model supports at most %d completion tokens, whereas you provided %d.", got, most, got),
			}
		}
		return next(q)
	}
}

// ignoringCaps is a model that does as if the request had none.
func ignoringCaps(next answer) answer {
	return func(q *fakechat.Request) fakechat.Reply {
		uncapped := *q
		uncapped.MaxTokens, uncapped.MaxCompletionTokens = 0, 0
		return next(&uncapped)
	}
}

// What is not streamed cannot be cut, so it is capped before.
func TestHiddenReasoning(t *testing.T) {
	const most = 5000
	r := newRig(t)
	r.operator("manager")
	tests := map[string]struct {
		model answer
		// beyond is how much more than maxTokens may be used, but for the error of one call's estimated input.
		beyond int64
		calls  int
		// says is part of the status message.
		says string
		why  string
	}{
		"honest":   {model: thinker, why: "a cap that is heeded leaves nothing to overshoot"},
		"refusing": {model: refusingAbove(2048, thinker), why: "a smaller cap than what is left is as good"},
		"ignoring": {model: ignoringCaps(thinker), beyond: hidden, calls: 1, says: "cap", why: "who ignores caps costs one call, and no more"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Log(test.why)
			r, billed := r.on(t), newLedger()
			r.model(namespace, name, billed.of(test.model))
			r.create(task(name, of(name), tokens(most)))
			r.await("the end by tokens", time.Minute, 1, over(name))
			status := r.get(name).Status
			used, calls := ptr.Deref(status.Usage.TotalTokens, 0), billed.calledFor()
			overshoot := used - most
			t.Logf("maxTokens %d, used %d (overshoot %d), billed %d, %d calls that were not refused; %s: %s",
				most, used, overshoot, billed.billed(), calls, status.ExitReason, status.Message)
			if status.ExitReason != v1alpha1.ExitTokenBudgetExceeded {
				t.Errorf("it ended as %s, want TokenBudgetExceeded", status.ExitReason)
			}
			if slack := billed.largestInput(); overshoot > test.beyond+slack {
				t.Errorf("it overshot by %d, want at most %d and the error of one estimate, under %d", overshoot, test.beyond, slack)
			}
			if test.calls > 0 && calls != test.calls {
				t.Errorf("%d calls, want %d", calls, test.calls)
			}
			if !strings.Contains(status.Message, test.says) {
				t.Errorf("the status does not say that caps are ignored: %s", status.Message)
			}
			if used < billed.billed() {
				t.Errorf("it counted %d of %d tokens", used, billed.billed())
			}
		})
	}
}

// A call that was lost with its operator was billed nevertheless.
func TestLostCallsAreCounted(t *testing.T) {
	const turns, crashes = 3, 2
	tests := map[string]struct {
		prompt int
		reply  int64
		why    string
	}{
		"long prompt": {prompt: 16 << 10, reply: 200, why: "most of what was lost is input"},
		"long reply":  {prompt: 100, reply: 4000, why: "most of what was lost is output, of which nobody saw anything"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Log(test.why)
			r, hang, billed := newRig(t), newHang(), newLedger()
			lost := map[int]int{} // calls of each turn; the server is asked one at a time
			r.model(namespace, "default", billed.of(func(q *fakechat.Request) fakechat.Reply {
				turn := q.Replies()
				reply := fakechat.Reply{Text: fmt.Sprintf("Step %d", turn), In: inputTokens(q), Out: min(test.reply, q.Cap())}
				if turn == turns-1 {
					reply.Text = "TASK_COMPLETE: done"
				}
				if lost[turn] < crashes {
					lost[turn]++
					hang.answer(q)
				}
				return reply
			}), func(m *v1alpha1.AgentModelSpec) {
				m.Parameters = &v1alpha1.ModelParameters{MaxOutputTokens: ptr.To[int64](4096)}
			})
			r.create(task("crashes", tokens(1_000_000), func(t *v1alpha1.AgentTask) { t.Spec.Prompt = prose(name, test.prompt) }))
			for range turns * crashes {
				operator := r.operator("manager")
				r.until("a call is in flight", time.Minute, func() bool { return hang.calls() == 1 })
				operator.kill()
				r.until("the server noticed", time.Minute, func() bool { return hang.calls() == 0 })
			}
			r.operator("manager")
			r.await("the end", time.Minute, 1, over("crashes"))
			status := r.get("crashes").Status
			used := ptr.Deref(status.Usage.TotalTokens, 0)
			t.Logf("%d calls in %d turns, %d of them lost: billed %d, counted %d, estimated %v", len(billed.all()), turns, turns*crashes, billed.billed(), used, ptr.Deref(status.Usage.Estimated, false))
			if status.ExitReason != v1alpha1.ExitCompleted {
				t.Errorf("it ended as %s: %s", status.ExitReason, status.Message)
			}
			if used < billed.billed() {
				t.Errorf("it counted %d tokens, and the server billed %d", used, billed.billed())
			}
			if !ptr.Deref(status.Usage.Estimated, false) {
				t.Error("the usage is not marked as estimated")
			}
		})
	}
}
