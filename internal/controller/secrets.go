package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
)

// secret reads one key of a Secret, live: a rotated key serves the next call, and no Secret is ever cached.
func (m *Models) secret(ctx context.Context, namespace string, ref *v1alpha1.SecretKeyReference) (string, error) {
	secret := &corev1.Secret{}
	err := m.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return "", &Waiting{
			Reason: "SecretNotFound", After: secretRetry,
			Message: fmt.Sprintf("Secret %q is not in namespace %q: create it with the key %q.", ref.Name, namespace, ref.Key),
		}
	case apierrors.IsForbidden(err):
		return "", &Waiting{
			Reason: "SecretForbidden", After: secretRetry,
			Message: fmt.Sprintf("The operator may not read Secret %q in namespace %q: allow its ServiceAccount the verb get.", ref.Name, namespace),
		}
	case err != nil:
		return "", fmt.Errorf("reading Secret %s/%s: %w", namespace, ref.Name, err)
	}
	value := strings.TrimSpace(string(secret.Data[ref.Key])) // what was made from a file ends with a line break
	if value == "" {
		return "", &Waiting{
			Reason: "SecretKeyNotFound", After: secretRetry,
			Message: fmt.Sprintf("Secret %q in namespace %q has no key %q, or it is empty: add it.", ref.Name, namespace, ref.Key),
		}
	}
	return value, nil
}

func (m *Models) headers(ctx context.Context, namespace string, in []v1alpha1.HTTPHeader) (map[string]string, error) {
	out := make(map[string]string, len(in))
	for i := range in {
		h := &in[i]
		if h.ValueFrom == nil {
			out[h.Name] = deref(h.Value)
			continue
		}
		value, err := m.secret(ctx, namespace, h.ValueFrom)
		if err != nil {
			return nil, err
		}
		out[h.Name] = value
	}
	return out, nil
}

// toolset resolves an AgentToolset to plain values. The id tells sessions apart that must not be shared: a new generation
// or other credentials get a new one.
func (m *Models) toolset(ctx context.Context, set *v1alpha1.AgentToolset) (id string, cfg mcp.Config, err error) {
	sp := &set.Spec
	cfg = mcp.Config{
		Name: set.Name, URL: sp.URL, Transport: mcp.Transport(sp.Transport),
		Allow: sp.Allow, Deny: sp.Deny, RequireApproval: mcp.ApprovalPolicy(sp.RequireApproval), ApprovalTools: sp.ApprovalTools,
		TrustAnnotations: deref(sp.TrustAnnotations), CallTimeout: duration(sp.CallTimeout), MaxResultBytes: int(deref(sp.MaxResultBytes)),
	}
	if err := cfg.Validate(); err != nil {
		return "", cfg, invalidToolset(set.Name, err)
	}
	if err := m.guard.CheckURL(sp.URL); err != nil {
		return "", cfg, refused("AgentToolset", set.Name, "spec.url", err)
	}
	headers, err := m.headers(ctx, set.Namespace, sp.Headers)
	if err != nil {
		return "", cfg, err
	}
	if sp.CredentialsRef != nil {
		token, err := m.secret(ctx, set.Namespace, sp.CredentialsRef)
		if err != nil {
			return "", cfg, err
		}
		headers["Authorization"] = "Bearer " + strings.TrimSpace(token)
	}
	id = fmt.Sprintf("%s/%s/%s/%d/%s", set.Namespace, set.Name, set.UID, set.Generation, credentialsDigest("", headers))
	httpClient, err := m.toolClient(client.ObjectKeyFromObject(set), id, sp.CABundle)
	if err != nil {
		return "", cfg, invalidToolset(set.Name, err)
	}
	cfg.Headers, cfg.HTTP = headers, httpClient
	return id, cfg, nil
}

// reasonToolsetInvalid makes every task that names the toolset wait, whether it requires it or not: unlike a server that is
// away, a mistake does not pass by itself.
const reasonToolsetInvalid = "ToolsetInvalid"

func invalidToolset(name string, err error) *Waiting {
	return &Waiting{Reason: reasonToolsetInvalid, Message: fmt.Sprintf("AgentToolset %q cannot be used: %s."+goesOn, name, loop.Cut(err.Error(), 500))}
}

func credentialsDigest(key string, headers map[string]string) string {
	names := make([]string, 0, len(headers))
	for n := range headers {
		names = append(names, n)
	}
	sort.Strings(names)
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(key), key)
	for _, n := range names {
		fmt.Fprintf(h, ";%d:%s=%d:%s", len(n), n, len(headers[n]), headers[n])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// toolStreamBytes bounds one HTTP reply of a tool server. A stream lives as long as its session; results are bounded elsewhere.
const toolStreamBytes = 1 << 30

// toolClient keeps one HTTP client for each toolset, and makes another when the id changes.
func (m *Models) toolClient(key client.ObjectKey, id, caBundle string) (*http.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	had := m.toolClients[key]
	if had != nil && had.id == id {
		return had.http, nil
	}
	c, err := model.NewHTTPClient(model.Config{CABundle: []byte(caBundle), MaxReplyBytes: toolStreamBytes}, m.guard)
	if err != nil {
		return nil, err
	}
	if had != nil {
		had.http.CloseIdleConnections()
	}
	m.toolClients[key] = &toolClient{id: id, http: c}
	return c, nil
}

// forgetToolset lets go of an AgentToolset that was deleted.
func (m *Models) forgetToolset(key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if had := m.toolClients[key]; had != nil {
		had.http.CloseIdleConnections()
		delete(m.toolClients, key)
	}
}
