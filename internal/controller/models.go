package controller

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/anthropic"
	"github.com/agentloop-dev/agenttask-operator/internal/model/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/model/gemini"
	"github.com/agentloop-dev/agenttask-operator/internal/model/limit"
	"github.com/agentloop-dev/agenttask-operator/internal/model/openai"
	"github.com/agentloop-dev/agenttask-operator/internal/model/outputcap"
	"github.com/agentloop-dev/agenttask-operator/internal/model/scripted"
	"github.com/agentloop-dev/agenttask-operator/internal/telemetry"
)

// secretRetry is when a missing Secret is looked for again: Secrets are never watched.
const secretRetry = 5 * time.Second

// DefaultMaxCallTimeout is the longest that one call may take, whatever its object says.
const DefaultMaxCallTimeout = time.Hour

// defaultRequestTimeout bounds a model call whose AgentModel sets none.
const defaultRequestTimeout = 10 * time.Minute

// Models makes model clients of AgentModels, and keeps what all tasks of one share: connections and limits.
type Models struct {
	cached client.Reader
	live   client.Reader
	guard  *egress.Guard
	def    types.NamespacedName
	clock  loop.Clock
	// wake looks at a task again, because what it waited for may be there.
	wake func(types.NamespacedName)
	// tracer makes a span of every call; nil for none.
	tracer *telemetry.Tracer
	// MaxCallTimeout is the longest that an object may let one call take; 0 means DefaultMaxCallTimeout.
	MaxCallTimeout time.Duration

	mu          sync.Mutex
	shared      map[types.UID]*sharedModel
	toolClients map[client.ObjectKey]*toolClient
}

// toolClient is the HTTP client of a toolset, of one generation and with one set of credentials.
type toolClient struct {
	id   string
	http *http.Client
}

// sharedModel is what outlives a single call. A new generation of the object gets a new one.
type sharedModel struct {
	key        client.ObjectKey
	generation int64
	limiter    *limit.Limiter
	// model is the client made with the CA bundle and the credentials of this digest, and http what it calls by.
	id    string
	http  *http.Client
	model loop.Model
	// queue are the tasks that wait for a slot, in the order in which they came.
	queue waitQueue
}

// resolvedModel is an AgentModel that can be called.
type resolvedModel struct {
	object *v1alpha1.AgentModel
	model  loop.Model
	queue  *waitQueue
}

func (m *resolvedModel) reference() *v1alpha1.ObjectReference {
	return &v1alpha1.ObjectReference{Namespace: m.object.Namespace, Name: m.object.Name}
}

// NewModels makes a Models. live must not be a cache: Secrets and ConfigMaps are read through it.
func NewModels(cached, live client.Reader, guard *egress.Guard, def types.NamespacedName, clock loop.Clock) *Models {
	return &Models{cached: cached, live: live, guard: guard, def: def, clock: clock, wake: func(types.NamespacedName) {},
		shared: map[types.UID]*sharedModel{}, toolClients: map[client.ObjectKey]*toolClient{}}
}

// forTask finds the model of a task: the one it names, else the one that it started with, else the namespace's default, else the operator's.
func (m *Models) forTask(ctx context.Context, task *v1alpha1.AgentTask) (*resolvedModel, error) {
	key := client.ObjectKey{Namespace: task.Namespace, Name: "default"}
	if ref := task.Spec.ModelRef; ref != nil {
		key.Name = ref.Name
		return m.get(ctx, key)
	}
	if started := task.Status.Model; started != nil && task.Status.StartTime != nil {
		return m.get(ctx, client.ObjectKey{Namespace: started.Namespace, Name: started.Name})
	}
	object := &v1alpha1.AgentModel{}
	err := m.cached.Get(ctx, key, object)
	switch {
	case err == nil:
		return m.build(ctx, object)
	case !apierrors.IsNotFound(err):
		return nil, err
	case m.def.Name != "":
		return m.get(ctx, m.def)
	}
	return nil, &Waiting{Reason: "ModelNotFound", Message: fmt.Sprintf(
		"No model: set spec.modelRef.name, or create an AgentModel named \"default\" in namespace %q.", task.Namespace)}
}

func (m *Models) get(ctx context.Context, key client.ObjectKey) (*resolvedModel, error) {
	object := &v1alpha1.AgentModel{}
	if err := m.cached.Get(ctx, key, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &Waiting{Reason: "ModelNotFound", Message: fmt.Sprintf(
				"AgentModel %q is not in namespace %q: create it, and the task goes on.", key.Name, key.Namespace)}
		}
		return nil, err
	}
	return m.build(ctx, object)
}

// build makes the client of an AgentModel with its credentials and CA bundle as they are now.
func (m *Models) build(ctx context.Context, object *v1alpha1.AgentModel) (*resolvedModel, error) {
	if object.Spec.Provider == v1alpha1.ProviderScripted {
		shared := m.share(object)
		limited := shared.limiter.Wrap(m.tracer.Model(scripted.New(m.script(object.Spec.Scripted)), &object.Spec))
		return &resolvedModel{object: object, model: limited, queue: &shared.queue}, nil
	}
	cfg, err := m.config(ctx, object)
	if err != nil {
		return nil, err
	}
	shared := m.share(object)
	resolved := &resolvedModel{object: object, queue: &shared.queue}
	id := clientDigest(cfg.CABundle, cfg.APIKey, cfg.Headers)
	if resolved.model = m.kept(shared, object.Generation, id); resolved.model != nil {
		return resolved, nil
	}
	if cfg.HTTP, err = model.NewHTTPClient(cfg, m.guard); err != nil {
		return nil, invalidModel(object.Name, err)
	}
	raw, err := newProvider(object.Spec.Provider, cfg)
	if err != nil {
		return nil, invalidModel(object.Name, err)
	}
	resolved.model = m.keep(shared, object.Generation, id, cfg.HTTP, shared.limiter.Wrap(outputcap.Wrap(m.tracer.Model(raw, &object.Spec), cfg.RequestTimeout)))
	return resolved, nil
}

// kept is the client of a generation and an id, nil for none.
func (m *Models) kept(s *sharedModel, generation int64, id string) loop.Model {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.generation != generation || s.id != id {
		return nil
	}
	return s.model
}

// keep gives the client to use: the one made, unless somebody else was faster. Who still holds the generation before makes
// this call by that one, and leaves nothing of it behind.
func (m *Models) keep(s *sharedModel, generation int64, id string, c *http.Client, made loop.Model) loop.Model {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case s.generation != generation:
	case s.model != nil && s.id == id:
		return s.model
	default:
		s.close()
		s.id, s.http, s.model = id, c, made
	}
	return made
}

func invalidModel(name string, err error) *Waiting {
	return &Waiting{Reason: "ModelInvalid", Message: fmt.Sprintf("AgentModel %q cannot be used: %s."+goesOn, name, loop.Cut(err.Error(), 300))}
}

func newProvider(p v1alpha1.Provider, cfg model.Config) (loop.Model, error) {
	switch p {
	case v1alpha1.ProviderAnthropic:
		return anthropic.New(cfg)
	case v1alpha1.ProviderGemini:
		return gemini.New(cfg)
	}
	return openai.New(cfg)
}

// share finds what outlives a call. A new generation gets a new client, but keeps the calls in flight and the rates.
func (m *Models) share(object *v1alpha1.AgentModel) *sharedModel {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shared[object.UID]
	if s == nil {
		s = &sharedModel{key: client.ObjectKeyFromObject(object), limiter: limit.New(limits(object.Spec.Limits), m.clock.Now)}
		s.limiter.OnRelease = func() { s.queue.wakeNext(m.wake) }
		m.shared[object.UID] = s
	}
	if s.generation < object.Generation {
		s.close()
		s.limiter.SetLimits(limits(object.Spec.Limits))
		s.generation, s.http, s.model = object.Generation, nil, nil
	}
	return s
}

// forget lets go of an AgentModel that was deleted. Calls in flight end as they will.
func (m *Models) forget(key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, s := range m.shared {
		if s.key == key {
			s.close()
			delete(m.shared, uid)
		}
	}
}

func (s *sharedModel) close() {
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
}

func limits(in *v1alpha1.ModelLimits) limit.Limits {
	if in == nil {
		return limit.Limits{}
	}
	return limit.Limits{
		MaxConcurrent: int(deref(in.MaxConcurrent)), RequestsPerMinute: deref(in.RequestsPerMinute), TokensPerMinute: deref(in.TokensPerMinute),
	}
}
