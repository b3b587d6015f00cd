package resolve

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
	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
)

// secret reads one key of a Secret for the host that gets it, live: a rotated key serves the next call, and no Secret is ever cached.
func (m *Models) secret(ctx context.Context, namespace string, ref *v1alpha1.SecretKeyReference, to string) (string, error) {
	secret := &corev1.Secret{}
	return m.value(ctx, "Secret", client.ObjectKey{Namespace: namespace, Name: ref.Name}, ref.Key, secret, func() (string, error) {
		return string(secret.Data[ref.Key]), m.mayUse(secret, to)
	})
}

// value reads one key of a Secret or ConfigMap, live, without the white space around it. Its errors are *Waiting where a user
// can mend them.
func (m *Models) value(ctx context.Context, kind string, at client.ObjectKey, key string, into client.Object, read func() (string, error)) (string, error) {
	err := m.Live.Get(ctx, at, into)
	switch {
	case apierrors.IsNotFound(err):
		return "", &Waiting{
			Reason: kind + "NotFound", After: SecretRetry,
			Message: fmt.Sprintf("%s %q is not in namespace %q: create it with the key %q.", kind, at.Name, at.Namespace, key),
		}
	case apierrors.IsForbidden(err):
		return "", &Waiting{
			Reason: kind + "Forbidden", After: SecretRetry,
			Message: fmt.Sprintf("The operator may not read %s %q in namespace %q: allow its ServiceAccount the verb get.", kind, at.Name, at.Namespace),
		}
	case err != nil:
		return "", fmt.Errorf("reading %s %s: %w", kind, at, err)
	}
	value, err := read()
	if err != nil {
		return "", err
	}
	value = strings.TrimSpace(value) // what was made from a file ends with a line break
	if value == "" {
		return "", &Waiting{
			Reason: kind + "KeyNotFound", After: SecretRetry,
			Message: fmt.Sprintf("%s %q in namespace %q has no key %q, or it is empty: add it.", kind, at.Name, at.Namespace, key),
		}
	}
	return value, nil
}

// credentials reads the key or token by which the operator authenticates to a host, empty for none.
func (m *Models) credentials(ctx context.Context, namespace string, auth *v1alpha1.Auth, to string) (string, error) {
	if auth == nil || auth.SecretRef == nil {
		return "", nil
	}
	return m.secret(ctx, namespace, auth.SecretRef, to)
}

// maxCABundleBytes bounds the PEM of a CA bundle, as the API server does for one that is written into the object.
const maxCABundleBytes = 256 << 10

// caBundle gives the PEM of an object's own certificate authorities, live where it refers to them; empty for none.
func (m *Models) caBundle(ctx context.Context, namespace string, inline []byte, ref *v1alpha1.CABundleReference) ([]byte, error) {
	if ref == nil {
		return inline, nil
	}
	var pem string
	var err error
	if ref.Kind == v1alpha1.CABundleSecret {
		pem, err = m.secret(ctx, namespace, &v1alpha1.SecretKeyReference{Name: ref.Name, Key: ref.Key}, nobody)
	} else {
		config := &corev1.ConfigMap{}
		pem, err = m.value(ctx, "ConfigMap", client.ObjectKey{Namespace: namespace, Name: ref.Name}, ref.Key, config, func() (string, error) {
			return config.Data[ref.Key] + string(config.BinaryData[ref.Key]), nil // a key is in one of them only
		})
	}
	if err == nil && len(pem) > maxCABundleBytes {
		err = &Waiting{Reason: "CABundleTooLarge", After: SecretRetry, Message: fmt.Sprintf(
			"Key %q of %s %q in namespace %q has %d bytes: shorten it to the authorities that are needed, at most %d bytes.",
			ref.Key, ref.Kind, ref.Name, namespace, len(pem), maxCABundleBytes)}
	}
	return []byte(pem), err
}

func (m *Models) headers(ctx context.Context, namespace string, in []v1alpha1.HTTPHeader, to string) (map[string]string, error) {
	out := make(map[string]string, len(in))
	for i := range in {
		h := &in[i]
		if h.ValueFrom == nil {
			out[h.Name] = deref(h.Value)
			continue
		}
		value, err := m.secret(ctx, namespace, h.ValueFrom, to)
		if err != nil {
			return nil, err
		}
		out[h.Name] = value
	}
	return out, nil
}

// toolset resolves an AgentToolset to plain values. The id tells sessions apart that must not be shared: a new generation
// another CA bundle or other credentials get a new one.
func (m *Models) Toolset(ctx context.Context, set *v1alpha1.AgentToolset) (id string, cfg mcp.Config, err error) {
	sp := &set.Spec
	cfg = mcp.Config{
		Name: set.Name, Namespace: set.Namespace, URL: sp.URL, Transport: mcp.Transport(sp.Transport),
		Allow: sp.Allow, Deny: sp.Deny, RequireApproval: mcp.ApprovalPolicy(sp.RequireApproval), ApprovalTools: sp.ApprovalTools,
		TrustAnnotations: deref(sp.TrustAnnotations), CallTimeout: m.callTimeout(sp.CallTimeout, mcp.DefaultCallTimeout), MaxResultBytes: int(deref(sp.MaxResultBytes)),
	}
	if err := cfg.Validate(); err != nil {
		return "", cfg, invalidToolset(set.Name, err)
	}
	privateOnly := m.privateOnly(sp.URL, sp.Auth, sp.Headers)
	if err := m.checkURL(sp.URL, privateOnly); err != nil {
		return "", cfg, refused("AgentToolset", set.Name, "spec.url", err)
	}
	to, err := egress.Host(sp.URL)
	if err != nil {
		return "", cfg, refused("AgentToolset", set.Name, "spec.url", err)
	}
	headers, err := m.headers(ctx, set.Namespace, sp.Headers, to)
	if err != nil {
		return "", cfg, err
	}
	token, err := m.credentials(ctx, set.Namespace, sp.Auth, to)
	if err != nil {
		return "", cfg, err
	}
	if token != "" {
		headers["Authorization"] = "Bearer " + token
	}
	caBundle, err := m.caBundle(ctx, set.Namespace, sp.CABundle, sp.CABundleRef)
	if err != nil {
		return "", cfg, err
	}
	id = fmt.Sprintf("%s/%s/%s/%d/%s", set.Namespace, set.Name, set.UID, set.Generation, clientDigest(caBundle, "", headers))
	httpClient, err := m.toolClient(client.ObjectKeyFromObject(set), id, model.Config{CABundle: caBundle, MaxReplyBytes: toolStreamBytes, PrivateOnly: privateOnly})
	if err != nil {
		return "", cfg, invalidToolset(set.Name, err)
	}
	cfg.Headers, cfg.HTTP = headers, httpClient
	return id, cfg, nil
}

// ReasonToolsetInvalid makes every task that names the toolset wait, whether it requires it or not: unlike a server that is
// away, a mistake does not pass by itself.
const ReasonToolsetInvalid = "ToolsetInvalid"

func invalidToolset(name string, err error) *Waiting {
	return &Waiting{Reason: ReasonToolsetInvalid, Message: fmt.Sprintf("AgentToolset %q cannot be used: %s."+GoesOn, name, loop.Cut(err.Error(), 500))}
}

// clientDigest tells clients apart that must not be shared, without a secret in it.
func clientDigest(caBundle []byte, key string, headers map[string]string) string {
	names := make([]string, 0, len(headers))
	for n := range headers {
		names = append(names, n)
	}
	sort.Strings(names)
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s;%d:%s", len(caBundle), caBundle, len(key), key)
	for _, n := range names {
		fmt.Fprintf(h, ";%d:%s=%d:%s", len(n), n, len(headers[n]), headers[n])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// toolStreamBytes bounds one HTTP reply of a tool server. A stream lives as long as its session; results are bounded elsewhere.
const toolStreamBytes = 1 << 30

// toolClient keeps one HTTP client for each toolset, and makes another when the id changes.
func (m *Models) toolClient(key client.ObjectKey, id string, cfg model.Config) (*http.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	had := m.toolClients[key]
	if had != nil && had.id == id {
		return had.http, nil
	}
	c, err := model.NewHTTPClient(cfg, m.Guard)
	if err != nil {
		return nil, err
	}
	m.letToolsetGo(key)
	m.toolClients[key] = &toolClient{id: id, http: c}
	if m.Tools != nil {
		m.Tools.Open(id)
	}
	return c, nil
}

// letToolsetGo ends what is open by a toolset's former credentials: they may have been revoked. The caller holds the lock.
func (m *Models) letToolsetGo(key client.ObjectKey) {
	had := m.toolClients[key]
	if had == nil {
		return
	}
	if m.Tools != nil {
		m.Tools.Close(had.id)
	}
	had.http.CloseIdleConnections()
	delete(m.toolClients, key)
}

// ForgetToolset lets go of an AgentToolset that was deleted.
func (m *Models) ForgetToolset(key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.letToolsetGo(key)
}
