package resolve

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/scripted"
)

// config resolves an AgentModel to plain values. Its errors are *Waiting where a user can mend them.
func (m *Models) config(ctx context.Context, object *v1alpha1.AgentModel) (model.Config, error) {
	sp := &object.Spec
	cfg := model.Config{
		Room: m.roomOf(object.Namespace), Model: sp.Model, Endpoint: sp.Endpoint, Query: sp.Query, RequestTimeout: m.callTimeout(sp.RequestTimeout, DefaultRequestTimeout),
		PrivateOnly: m.privateOnly(sp.Endpoint, sp.Auth, sp.Headers),
	}
	if sp.Endpoint != "" {
		if err := m.checkURL(sp.Endpoint, cfg.PrivateOnly); err != nil {
			return cfg, refused("AgentModel", object.Name, "spec.endpoint", err)
		}
	}
	to, err := recipient(sp)
	if err != nil {
		return cfg, invalidModel(object.Name, err)
	}
	if cfg.Parameters, err = parameters(sp.Parameters); err != nil {
		return cfg, invalidModel(object.Name, err)
	}
	if cfg.CABundle, err = m.caBundle(ctx, object.Namespace, sp.CABundle, sp.CABundleRef); err != nil {
		return cfg, err
	}
	if cfg.APIKey, err = m.credentials(ctx, object.Namespace, sp.Auth, to); err != nil {
		return cfg, err
	}
	cfg.Headers, err = m.headers(ctx, object.Namespace, sp.Headers, to)
	return cfg, err
}

// replyRoom is a namespace's part of the memory for large replies.
type replyRoom struct {
	bytes     *fairshare.Bytes
	namespace string
}

func (r replyRoom) Take(n int64) bool { return r.bytes.Take(r.namespace, n) }
func (r replyRoom) Give(n int64)      { r.bytes.Give(r.namespace, n) }

func (m *Models) roomOf(namespace string) model.Room {
	if m.Replies == nil {
		return nil
	}
	return replyRoom{m.Replies, namespace}
}

// callTimeout is a time that an object lets a call take, or its default, within what the operator allows.
func (m *Models) callTimeout(set *metav1.Duration, byDefault time.Duration) time.Duration {
	return min(positiveOr(set, byDefault), cmp.Or(m.MaxCallTimeout, DefaultMaxCallTimeout))
}

// lowered says that callTimeout gives less than the field has, empty where it does not.
func (m *Models) Lowered(field string, set *metav1.Duration, byDefault time.Duration) string {
	wanted, got := positiveOr(set, byDefault), m.callTimeout(set, byDefault)
	if got == wanted {
		return ""
	}
	return fmt.Sprintf(" %s is %s, which the operator's --max-call-timeout lowers to %s.", field, wanted, got)
}

// LoweredInModel says what of an AgentModel is lowered. Of a script it tells the first delay.
func (m *Models) LoweredInModel(sp *v1alpha1.AgentModelSpec) string {
	if sp.Provider != v1alpha1.ProviderScripted {
		return m.Lowered("spec.requestTimeout", sp.RequestTimeout, DefaultRequestTimeout)
	}
	if sp.Scripted != nil {
		for i := range sp.Scripted.Replies {
			if told := m.Lowered(fmt.Sprintf("spec.scripted.replies[%d].delay", i), sp.Scripted.Replies[i].Delay, 0); told != "" {
				return told
			}
		}
	}
	return ""
}

func positiveOr(d *metav1.Duration, byDefault time.Duration) time.Duration {
	if duration(d) > 0 {
		return d.Duration
	}
	return byDefault
}

// refused: the egress guard does not let an object's address be dialled.
func refused(kind, name, field string, err error) *Waiting {
	return &Waiting{Reason: "EndpointRefused", Message: fmt.Sprintf(
		"%s %q: %s. Correct %s, or have the operator's --allow-egress opened for it.", kind, name, err, field)}
}

func parameters(in *v1alpha1.ModelParameters) (model.Parameters, error) {
	var out model.Parameters
	if in == nil {
		return out, nil
	}
	for _, f := range []struct {
		name string
		from *string
		to   **float64
	}{
		{"temperature", in.Temperature, &out.Temperature}, {"topP", in.TopP, &out.TopP},
		{"frequencyPenalty", in.FrequencyPenalty, &out.FrequencyPenalty}, {"presencePenalty", in.PresencePenalty, &out.PresencePenalty},
	} {
		if f.from == nil {
			continue
		}
		v, err := strconv.ParseFloat(*f.from, 64)
		if err != nil {
			return out, fmt.Errorf("parameters.%s %q is no decimal number", f.name, *f.from)
		}
		*f.to = &v
	}
	out.Seed, out.StopSequences, out.MaxOutputTokens = in.Seed, in.Stop, deref(in.MaxOutputTokens)
	out.ReasoningEffort = strings.ToLower(string(in.ReasoningEffort))
	return out, nil
}

// mostScriptedTokens bounds what a scripted reply may say that it took, in input and in output: counters that all tasks share take it.
const mostScriptedTokens = 1_000_000_000

func (m *Models) script(in *v1alpha1.Script) scripted.Script {
	var out scripted.Script
	if in == nil {
		return out
	}
	out.FailAtEnd = in.AtEnd == v1alpha1.ScriptFail
	for _, r := range in.Replies {
		reply := scripted.Reply{Text: deref(r.Text), Delay: m.callTimeout(r.Delay, 0), Error: scripted.Failures[string(r.Error)]}
		if u := r.Usage; u != nil {
			reply.Usage = loop.Usage{InputTokens: min(deref(u.InputTokens), mostScriptedTokens), OutputTokens: min(deref(u.OutputTokens), mostScriptedTokens)}
			reply.Usage.TotalTokens = reply.Usage.Total()
		}
		for _, c := range r.ToolCalls {
			reply.ToolCalls = append(reply.ToolCalls, loop.ToolCall{Name: c.Name, Arguments: deref(c.Arguments)})
		}
		out.Replies = append(out.Replies, reply)
	}
	return out
}
