package resolve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/anthropic"
	"github.com/agentloop-dev/agenttask-operator/internal/model/gemini"
	"github.com/agentloop-dev/agenttask-operator/internal/model/limit"
	"github.com/agentloop-dev/agenttask-operator/internal/model/openai"
	"github.com/agentloop-dev/agenttask-operator/internal/model/outputcap"
	"github.com/agentloop-dev/agenttask-operator/internal/model/scripted"
	"github.com/agentloop-dev/agenttask-operator/internal/telemetry"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
)

// SecretRetry is when a missing Secret is looked for again: Secrets are never watched.
const SecretRetry = 5 * time.Second

// DefaultMaxCallTimeout is the longest that one call may take, whatever its object says.
const DefaultMaxCallTimeout = time.Hour

// DefaultRequestTimeout bounds a model call whose AgentModel sets none.
const DefaultRequestTimeout = 10 * time.Minute

// Options are what an installation sets, and what it shares.
type Options struct {
	// Cached reads AgentModels and AgentToolsets. Live must not be a cache: Secrets and ConfigMaps are read through it.
	Cached, Live client.Reader
	// Guard decides which addresses may be dialled.
	Guard *egress.Guard
	// Default serves tasks without modelRef in namespaces without an AgentModel named default. Empty for none.
	Default types.NamespacedName
	// Clock tells the time.
	Clock loop.Clock
	// OnTurn is told of a task whose turn in a model's rates comes earlier than it was told; nil for nothing.
	OnTurn func(task string)
	// Tracer makes a span of every call; nil for none.
	Tracer *telemetry.Tracer
	// MaxCallTimeout is the longest that an object may let one call take; 0 means DefaultMaxCallTimeout.
	MaxCallTimeout time.Duration
	// Replies is the memory for large replies, nil for no bound. A reply takes some four times as much until it is decoded.
	Replies *fairshare.Bytes
	// Tools has the sessions of toolsets, nil for none.
	Tools *mcp.Pool
	// SecretPolicy says which Secrets may be read; empty means any.
	SecretPolicy SecretPolicy
	// AllowPlaintextCredentials lets what is from a Secret be sent to public addresses by http.
	AllowPlaintextCredentials bool
}

// Models makes clients of AgentModels and AgentToolsets, and keeps what all tasks of one share: connections and limits.
type Models struct {
	Options

	mu sync.Mutex
	// onHealth is told of an AgentModel of which a call has shown something new; nil for nothing.
	onHealth    func(client.ObjectKey)
	shared      map[types.UID]*sharedModel
	toolClients map[client.ObjectKey]*toolClient
}

// toolClient is the HTTP client of a toolset, of one generation and with one set of credentials.
type toolClient struct {
	id   string
	http *http.Client
}

// sharedModel is what outlives a single call. A new generation of the object gets new clients.
type sharedModel struct {
	key        client.ObjectKey
	generation int64
	limiter    *limit.Limiter
	// id is the digest of the CA bundle and the credentials that http and the clients were made with. A client is known by the model's
	// name and parameters: tasks keep those that they began with.
	id      string
	http    *http.Client
	clients map[string]loop.Model
	health  modelHealth
}

// Model is an AgentModel that can be called.
type Model struct {
	// Object is the AgentModel, with the provider's model and the parameters that the task began with.
	Object  *v1alpha1.AgentModel
	Key     client.ObjectKey
	Model   loop.Model
	Limiter *limit.Limiter
	// answered: a call of it has succeeded before.
	answered bool
	// RequestTimeout bounds a call.
	RequestTimeout time.Duration
}

// identity is what the journal keeps of a model.
func (m *Model) Identity() loop.ModelIdentity {
	sp := &m.Object.Spec
	parameters, err := json.Marshal(sp.Parameters)
	if err != nil || sp.Parameters == nil {
		parameters = nil // plain strings and numbers always marshal
	}
	return loop.ModelIdentity{Namespace: m.Key.Namespace, Name: m.Key.Name, Provider: string(sp.Provider), Model: sp.Model, Parameters: parameters}
}

func (m *Model) Price() *loop.Price {
	p := m.Object.Spec.Pricing
	if p == nil {
		return nil
	}
	return &loop.Price{Input: p.InputPerMillion, CachedInput: deref(p.CachedInputPerMillion), Output: p.OutputPerMillion, Currency: p.Currency}
}

func (m *Model) MaxConcurrent() int {
	if l := m.Object.Spec.Limits; l != nil {
		return int(deref(l.MaxConcurrent))
	}
	return 0
}

// New makes a Models.
func New(o Options) *Models {
	return &Models{Options: o, shared: map[types.UID]*sharedModel{}, toolClients: map[client.ObjectKey]*toolClient{}}
}

// ForTask finds the model of a task: the one that its journal says it began with, else the one it names, else the namespace's
// default, else the operator's. A status says nothing here: others may write it.
func (m *Models) ForTask(ctx context.Context, task *v1alpha1.AgentTask, begun *loop.Input) (*Model, error) {
	key := client.ObjectKey{Namespace: task.Namespace, Name: "default"}
	switch ref := task.Spec.ModelRef; {
	case begun != nil && begun.Model.Name != "":
		return m.begun(ctx, &begun.Model)
	case ref != nil:
		key.Name = ref.Name
		return m.Get(ctx, key)
	}
	object := &v1alpha1.AgentModel{}
	err := m.Cached.Get(ctx, key, object)
	switch {
	case err == nil:
		return m.Build(ctx, object)
	case !apierrors.IsNotFound(err):
		return nil, err
	case m.Default.Name != "":
		return m.Get(ctx, m.Default)
	}
	return nil, &Waiting{Reason: "ModelNotFound", Message: fmt.Sprintf(
		"No model: set spec.modelRef.name, or create an AgentModel named \"default\" in namespace %q.", task.Namespace)}
}

// begun gives a model with the provider's model and the parameters that a task began with. Its endpoint, credentials, timeouts,
// limits and prices are those of now.
func (m *Models) begun(ctx context.Context, as *loop.ModelIdentity) (*Model, error) {
	key := client.ObjectKey{Namespace: as.Namespace, Name: as.Name}
	object, err := m.object(ctx, key)
	if err != nil {
		return nil, err
	}
	if string(object.Spec.Provider) != as.Provider {
		return nil, &Waiting{Reason: "ModelChanged", Message: fmt.Sprintf(
			"AgentModel %q has now provider %s, and the task began with %s: change it back, or create the task anew.", key.Name, object.Spec.Provider, as.Provider)}
	}
	own := object.Spec.Model == as.Model
	object.Spec.Model, object.Spec.Parameters = as.Model, nil
	if len(as.Parameters) > 0 {
		object.Spec.Parameters = &v1alpha1.ModelParameters{}
		if err := json.Unmarshal(as.Parameters, object.Spec.Parameters); err != nil {
			return nil, fmt.Errorf("reading the parameters that the task began with: %w", err)
		}
	}
	return m.make(ctx, object, own)
}

func (m *Models) Get(ctx context.Context, key client.ObjectKey) (*Model, error) {
	object, err := m.object(ctx, key)
	if err != nil {
		return nil, err
	}
	return m.Build(ctx, object)
}

func (m *Models) object(ctx context.Context, key client.ObjectKey) (*v1alpha1.AgentModel, error) {
	object := &v1alpha1.AgentModel{}
	err := m.Cached.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return nil, &Waiting{Reason: "ModelNotFound", Message: fmt.Sprintf(
			"AgentModel %q is not in namespace %q: create it, and the task goes on.", key.Name, key.Namespace)}
	}
	return object, err
}

// build makes the client of an AgentModel with its credentials and CA bundle as they are now.
func (m *Models) Build(ctx context.Context, object *v1alpha1.AgentModel) (*Model, error) {
	return m.make(ctx, object, true)
}

// make is build. Own: it is the model that the object names now, so that its outcomes tell of the object.
func (m *Models) make(ctx context.Context, object *v1alpha1.AgentModel, own bool) (*Model, error) {
	shared := m.share(object)
	out := &Model{Object: object, Key: client.ObjectKeyFromObject(object), Limiter: shared.limiter, RequestTimeout: m.callTimeout(object.Spec.RequestTimeout, DefaultRequestTimeout)}
	if object.Spec.Provider == v1alpha1.ProviderScripted {
		out.Model = m.Tracer.Model(scripted.New(m.script(object.Spec.Scripted)), &object.Spec)
		return out, nil
	}
	cfg, err := m.config(ctx, object)
	if err != nil {
		return nil, err
	}
	if out.Model, err = m.client(shared, object, cfg); err != nil {
		return nil, invalidModel(object.Name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out.answered = shared.health.answered
	if id := shared.id; own {
		out.Model = noted{out.Model, func(err error) { m.note(shared, object.Generation, id, err) }}
	}
	return out, nil
}

// client gives the client of a config, one for all tasks that call by the same. Who still holds the generation before makes this
// call by that one, and leaves nothing of it behind.
func (m *Models) client(s *sharedModel, object *v1alpha1.AgentModel, cfg model.Config) (loop.Model, error) {
	id := clientDigest(cfg.CABundle, cfg.APIKey, cfg.Headers)
	parameters, err := json.Marshal(cfg.Parameters)
	if err != nil {
		return nil, err
	}
	name := cfg.Model + " " + string(parameters)
	m.mu.Lock()
	defer m.mu.Unlock()
	current := s.generation == object.Generation
	if current && s.id == id && s.clients[name] != nil {
		return s.clients[name], nil
	}
	if cfg.HTTP = s.http; !current || s.id != id || s.http == nil {
		if cfg.HTTP, err = model.NewHTTPClient(cfg, m.Guard); err != nil {
			return nil, err
		}
	}
	raw, err := newProvider(object.Spec.Provider, cfg)
	if err != nil {
		return nil, err
	}
	made := outputcap.Wrap(m.Tracer.Model(model.Checked(raw, cfg.Parameters.MaxOutputTokens), &object.Spec), cfg.RequestTimeout)
	if !current {
		return made, nil
	}
	if s.id != id || len(s.clients) >= maxClients {
		if s.id != id {
			s.health.refusal = nil // by what is not sent any more
		}
		s.close()
		s.id, s.clients = id, map[string]loop.Model{}
	}
	s.http, s.clients[name] = cfg.HTTP, made
	return made, nil
}

// maxClients bounds the clients of one AgentModel: as many edits of its model or parameters may have tasks of before under way.
const maxClients = 32

func invalidModel(name string, err error) *Waiting {
	return &Waiting{Reason: "ModelInvalid", Message: fmt.Sprintf("AgentModel %q cannot be used: %s."+GoesOn, name, loop.Cut(err.Error(), 300))}
}

func newProvider(p v1alpha1.Provider, cfg model.Config) (loop.Model, error) {
	switch p {
	case v1alpha1.ProviderAnthropic:
		return anthropic.New(cfg)
	case v1alpha1.ProviderGemini:
		return gemini.New(cfg)
	case v1alpha1.ProviderOpenAI:
		return openai.New(cfg)
	case v1alpha1.ProviderScripted: // it has no client
	}
	return nil, fmt.Errorf("this operator does not know provider %q", loop.Visible(string(p)))
}

// share finds what outlives a call. A new generation gets a new client, but keeps the calls in flight and the rates.
func (m *Models) share(object *v1alpha1.AgentModel) *sharedModel {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shared[object.UID]
	if s == nil {
		m.letGo(client.ObjectKeyFromObject(object)) // one of that name that was deleted and created anew
		s = &sharedModel{key: client.ObjectKeyFromObject(object), limiter: limit.New(limits(object.Spec.Limits), m.Clock.Now)}
		s.limiter.OnTurn = m.OnTurn
		m.shared[object.UID] = s
	}
	if s.generation < object.Generation {
		s.close()
		s.limiter.SetLimits(limits(object.Spec.Limits))
		s.generation, s.http, s.id, s.clients, s.health = object.Generation, nil, "", nil, modelHealth{}
	}
	return s
}

// forget lets go of an AgentModel that was deleted. Calls in flight end as they will.
func (m *Models) Forget(key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.letGo(key)
}

// letGo is forget. The caller holds the lock.
func (m *Models) letGo(key client.ObjectKey) {
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
		RequestsPerMinute: deref(in.RequestsPerMinute), TokensPerMinute: deref(in.TokensPerMinute),
	}
}
