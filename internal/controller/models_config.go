package controller

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/scripted"
)

// config resolves an AgentModel to plain values. Its errors are *Waiting where a user can mend them.
func (m *Models) config(ctx context.Context, object *v1alpha1.AgentModel) (model.Config, error) {
	sp := &object.Spec
	cfg := model.Config{
		Model: sp.Model, Endpoint: sp.Endpoint, Query: sp.Query, CABundle: []byte(sp.CABundle), RequestTimeout: defaultRequestTimeout,
	}
	if d := duration(sp.RequestTimeout); d > 0 {
		cfg.RequestTimeout = d
	}
	if sp.Endpoint != "" {
		if err := m.guard.CheckURL(sp.Endpoint); err != nil {
			return cfg, refused("AgentModel", object.Name, "spec.endpoint", err)
		}
	}
	var err error
	if cfg.Parameters, err = parameters(sp.Parameters); err != nil {
		return cfg, invalidModel(object.Name, err)
	}
	if sp.CredentialsRef != nil {
		if cfg.APIKey, err = m.secret(ctx, object.Namespace, sp.CredentialsRef); err != nil {
			return cfg, err
		}
	}
	cfg.Headers, err = m.headers(ctx, object.Namespace, sp.Headers)
	return cfg, err
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

func script(in *v1alpha1.Script) scripted.Script {
	var out scripted.Script
	if in == nil {
		return out
	}
	out.FailAtEnd = in.AtEnd == v1alpha1.ScriptFail
	for _, r := range in.Replies {
		reply := scripted.Reply{Text: deref(r.Text), Delay: duration(r.Delay), Error: scripted.Failures[string(r.Error)]}
		if u := r.Usage; u != nil {
			reply.Usage = loop.Usage{InputTokens: deref(u.InputTokens), OutputTokens: deref(u.OutputTokens)}
			reply.Usage.TotalTokens = reply.Usage.Total()
		}
		for _, c := range r.ToolCalls {
			reply.ToolCalls = append(reply.ToolCalls, loop.ToolCall{Name: c.Name, Arguments: deref(c.Arguments)})
		}
		out.Replies = append(out.Replies, reply)
	}
	return out
}
