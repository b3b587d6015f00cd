package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// modelHealth is what the calls of one generation of an AgentModel have shown of it.
type modelHealth struct {
	// answered: its server has given a whole reply.
	answered bool
	// refusal is the answer of its server by which no call can succeed, nil where the last call that tells of it succeeded.
	refusal *loop.ModelError
}

// How long a failing call is tried again where the AgentModel does not say: a mistyped endpoint is told soon, and one that has
// answered, or has named the time at which it will, is waited for.
const (
	firstElapsed   = 2 * time.Minute
	defaultElapsed = 30 * time.Minute
	// scriptedAttempts is for provider Scripted, whose failures no time mends.
	scriptedAttempts = 5
)

// retry is the patience with a model. Known: it has answered this very task.
func (m *Model) Retry(known bool) loop.Retry {
	p := deref(m.Object.Spec.Retry)
	out := loop.Retry{MaxAttempts: int(deref(p.MaxAttempts)), MaxElapsed: duration(p.MaxElapsed)}
	out.NamedElapsed = cmp.Or(out.MaxElapsed, defaultElapsed)
	switch {
	case m.Object.Spec.Provider == v1alpha1.ProviderScripted:
		out.MaxAttempts = cmp.Or(out.MaxAttempts, scriptedAttempts)
	case out.MaxElapsed == 0 && !known && !m.answered:
		out.MaxElapsed = firstElapsed
	}
	out.MaxElapsed = cmp.Or(out.MaxElapsed, defaultElapsed)
	return out
}

// noted is a model whose outcomes are noted of its AgentModel.
type noted struct {
	loop.Model
	note func(error)
}

func (n noted) Generate(ctx context.Context, req *loop.Request, onBytes func(int)) (*loop.Reply, error) {
	reply, err := n.Model.Generate(ctx, req, onBytes)
	n.note(err)
	return reply, err
}

// note takes over what a call showed of an AgentModel, unless it was made by an older generation, credentials or model than the
// object has now.
func (m *Models) note(s *sharedModel, generation int64, id string, err error) {
	next := modelHealth{answered: err == nil}
	if err != nil && !errors.As(err, &next.refusal) || next.refusal != nil && !refuses(next.refusal) {
		return
	}
	m.mu.Lock()
	was := s.health
	changed := s.generation == generation && s.id == id && ((was.refusal == nil) != (next.refusal == nil) || next.answered && !was.answered)
	if changed {
		next.answered = next.answered || was.answered
		s.health = next
	}
	tell := m.onHealth
	m.mu.Unlock()
	if changed && tell != nil {
		tell(s.key)
	}
}

// refuses tells whether an error is an answer of the server itself by which no call can succeed. 403 is none: it may be of one call.
func refuses(e *loop.ModelError) bool {
	return e.Status != 0 && e.Status != http.StatusForbidden && (e.Cause == loop.CauseModelAuthenticationFailed || e.Cause == loop.CauseModelNotFound)
}

// TellHealth names who is told of an AgentModel of which a call has shown something new. It must not wait.
func (m *Models) TellHealth(tell func(client.ObjectKey)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onHealth = tell
}

// ready is what condition Ready says of an AgentModel that could be built: why its server refuses calls, or that it was called. An
// answer of the generation that is in the status already, by an operator before this one, counts too.
func (m *Models) Ready(object *v1alpha1.AgentModel) (reason string, err error) {
	was := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shared[object.UID]
	if s == nil || s.generation != object.Generation {
		return ReasonResolved, nil
	}
	h := &s.health
	h.answered = h.answered || was != nil && was.Reason == ReasonAnswered && was.ObservedGeneration == object.Generation
	switch {
	case h.refusal != nil:
		return "", &Waiting{Reason: string(h.refusal.Cause), Message: fmt.Sprintf(
			"A call failed: %s Correct the AgentModel or its Secret. The next call that succeeds makes it ready, too.", h.refusal.Error())}
	case h.answered:
		return ReasonAnswered, nil
	}
	return ReasonResolved, nil
}

// Reasons of a True condition Ready. Answered: a model's server has given a reply to the object as it is.
const (
	ReasonResolved = "Resolved"
	ReasonAnswered = "Answered"
)
