package chart

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// reads is a right to get Secrets, all of them where none is named.
func reads(secrets ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: secrets, Verbs: []string{"get"}}
}

func keyOf(secret string) *v1alpha1.SecretKeyReference {
	return &v1alpha1.SecretKeyReference{Name: secret, Key: "key"}
}

func modelWith(ns, name string, set func(*v1alpha1.AgentModelSpec)) *v1alpha1.AgentModel {
	m := &v1alpha1.AgentModel{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: v1alpha1.AgentModelSpec{
		Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: "https://llm.example.com/v1",
	}}
	set(&m.Spec)
	return m
}

func toolsetWith(ns, name string, set func(*v1alpha1.AgentToolsetSpec)) *v1alpha1.AgentToolset {
	s := &v1alpha1.AgentToolset{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: v1alpha1.AgentToolsetSpec{URL: "https://tools.example.com/mcp"}}
	set(&s.Spec)
	return s
}

// headersOf are headers whose values are in Secrets, one each.
func headersOf(n int, secret func(int) string) []v1alpha1.HTTPHeader {
	var out []v1alpha1.HTTPHeader
	for i := range n {
		out = append(out, v1alpha1.HTTPHeader{Name: fmt.Sprintf("X-%d", i), ValueFrom: keyOf(secret(i))})
	}
	return out
}

func TestOnlyWhoMayGetASecretRefersToIt(t *testing.T) {
	c := sharedCluster(t)
	ns := c.newNamespace(t, "references")
	numbered := func(i int) string { return fmt.Sprintf("s-%d", i) }
	own := []string{"own"}
	for i := range 32 {
		own = append(own, numbered(i))
	}
	grant(t, c, ns, "author", everything, reads(own...))
	grant(t, c, ns, "keeper", everything, reads())
	author, keeper := c.as(t, "author"), c.as(t, "keeper")

	model := func(set func(*v1alpha1.AgentModelSpec)) write { return creates(modelWith(ns, "new", set)) }
	toolset := func(set func(*v1alpha1.AgentToolsetSpec)) write { return creates(toolsetWith(ns, "new", set)) }
	auth := func(secret string) func(*v1alpha1.AgentModelSpec) {
		return func(s *v1alpha1.AgentModelSpec) { s.Auth = &v1alpha1.Auth{SecretRef: keyOf(secret)} }
	}
	headers := func(n int, secret func(int) string) func(*v1alpha1.AgentModelSpec) {
		return func(s *v1alpha1.AgentModelSpec) { s.Headers = headersOf(n, secret) }
	}
	bundle := func(kind v1alpha1.CABundleSource, name string) func(*v1alpha1.AgentModelSpec) {
		return func(s *v1alpha1.AgentModelSpec) {
			s.CABundleRef = &v1alpha1.CABundleReference{Kind: kind, Name: name, Key: "key"}
		}
	}
	all := func(set ...func(*v1alpha1.AgentModelSpec)) func(*v1alpha1.AgentModelSpec) {
		return func(s *v1alpha1.AgentModelSpec) {
			for _, f := range set {
				f(s)
			}
		}
	}
	always := func(secret string) func(int) string { return func(int) string { return secret } }
	inForce(t, author, model(auth("other")))

	holdTo(t, map[string]attempt{
		"auth of a model":        {author, model(auth("other")), "spec.auth.secretRef names the Secret other, which author may not get"},
		"a header of a model":    {author, model(headers(1, always("other"))), "spec.headers[X-0].valueFrom names the Secret other"},
		"a bundle of a model":    {author, model(bundle(v1alpha1.CABundleSecret, "other")), "spec.caBundleRef names the Secret other"},
		"one of three":           {author, model(all(auth("own"), headers(1, always("s-1")), bundle(v1alpha1.CABundleSecret, "other"))), "spec.caBundleRef names the Secret other"},
		"the last of 8 Secrets":  {author, model(all(headers(7, numbered), bundle(v1alpha1.CABundleSecret, "other"))), "spec.caBundleRef names the Secret other"},
		"the last of 32 headers": {author, model(headers(32, func(i int) string { return []string{"own", "other"}[i/31] })), "spec.headers[X-31].valueFrom names the Secret other"},
		"9 Secrets":              {author, model(headers(9, numbered)), "more than 8 Secrets anew"},
		"32 Secrets and 2":       {author, model(all(auth("own"), headers(32, numbered), bundle(v1alpha1.CABundleSecret, "other"))), "more than 8 Secrets anew"},
		"auth of a toolset": {author, toolset(func(s *v1alpha1.AgentToolsetSpec) {
			s.Auth = &v1alpha1.Auth{SecretRef: keyOf("other")}
		}), "spec.auth.secretRef names the Secret other"},
		"a header of a toolset": {author, toolset(func(s *v1alpha1.AgentToolsetSpec) {
			s.Headers = headersOf(1, always("other"))
		}), "spec.headers[X-0].valueFrom names the Secret other"},
		"a bundle of a toolset": {author, toolset(func(s *v1alpha1.AgentToolsetSpec) {
			s.CABundleRef = &v1alpha1.CABundleReference{Kind: v1alpha1.CABundleSecret, Name: "other", Key: "key"}
		}), "spec.caBundleRef names the Secret other"},

		"no Secret at all":               {author, model(func(*v1alpha1.AgentModelSpec) {}), ""},
		"a ConfigMap":                    {author, model(bundle(v1alpha1.CABundleConfigMap, "other")), ""},
		"a Secret that one may get":      {author, model(auth("own")), ""},
		"8 of them":                      {author, model(all(headers(7, numbered), auth("own"))), ""},
		"32 references to one":           {author, model(headers(32, always("own"))), ""},
		"all Secrets, of all references": {keeper, model(all(auth("a"), headers(32, numbered), bundle(v1alpha1.CABundleSecret, "b"))), ""},
	})
}

func TestAReferenceThatIsThereStaysWhereItGoes(t *testing.T) {
	c := sharedCluster(t)
	ns := c.newNamespace(t, "references")
	grant(t, c, ns, "author", everything, reads("own"))
	model := modelWith(ns, "theirs", func(s *v1alpha1.AgentModelSpec) {
		s.Auth, s.Headers = &v1alpha1.Auth{SecretRef: keyOf("other")}, headersOf(31, func(i int) string { return fmt.Sprintf("other-%d", i) })
	})
	toolset := toolsetWith(ns, "theirs", func(s *v1alpha1.AgentToolsetSpec) {
		s.Auth = &v1alpha1.Auth{SecretRef: keyOf("other")}
		s.CABundleRef = &v1alpha1.CABundleReference{Kind: v1alpha1.CABundleSecret, Name: "ca", Key: "key"}
	})
	if err := errors.Join(c.Create(t.Context(), model), c.Create(t.Context(), toolset)); err != nil {
		t.Fatal(err)
	}
	author := c.as(t, "author")
	inForce(t, author, patches(model, `{"spec":{"endpoint":"https://mine.example.com"}}`))
	spec := func(patch string) write { return patches(model, `{"spec":`+patch+`}`) }
	const refused = "names the Secret other"
	holdTo(t, map[string]attempt{
		"to another server":            {author, spec(`{"endpoint":"https://mine.example.com"}`), refused},
		"to the provider's own server": {author, spec(`{"endpoint":null}`), refused},
		"by another protocol":          {author, spec(`{"provider":"Anthropic"}`), refused},
		"to whom another CA vouches":   {author, spec(`{"caBundle":"eA=="}`), refused},
		"or a CA of a ConfigMap":       {author, spec(`{"caBundleRef":{"kind":"ConfigMap","name":"mine","key":"key"}}`), refused},
		"to another tool server":       {author, patches(toolset, `{"spec":{"url":"https://mine.example.com"}}`), refused},
		"another key of it":            {author, spec(`{"auth":{"secretRef":{"key":"admin"}}}`), refused},
		"another Secret":               {author, spec(`{"auth":{"secretRef":{"name":"other2"}}}`), "spec.auth.secretRef names the Secret other2"},

		"the authorities' Secret as a key": {author, patches(toolset, `{"spec":{"headers":[{"name":"X","valueFrom":{"name":"ca","key":"key"}}]}}`), "spec.headers[X].valueFrom names the Secret ca"},

		"nothing changes":               {author, updates(model), ""},
		"other fields change":           {author, spec(`{"limits":{"maxConcurrent":1},"model":"n"}`), ""},
		"labels change":                 {author, patches(model, `{"metadata":{"labels":{"a":"b"}}}`), ""},
		"a reference goes":              {author, spec(`{"auth":null}`), ""},
		"a reference to one's own":      {author, spec(`{"auth":{"secretRef":{"name":"own"}}}`), ""},
		"a toolset's other fields":      {author, patches(toolset, `{"spec":{"requireApproval":"Always"}}`), ""},
		"the operator's status writes":  {c.as(t, operator), patchesStatus(model, `{"status":{"observedGeneration":1}}`), ""},
		"a GitOps controller's deletes": {author, func(ctx context.Context, c client.Client) error { return c.Delete(ctx, model) }, ""},
	})
}

// The refusal's own command, and a binding, are all that somebody needs.
func TestTheRefusalsCommandHelps(t *testing.T) {
	c := sharedCluster(t)
	ns := c.newNamespace(t, "references")
	grant(t, c, ns, "author", everything)
	author, try := c.as(t, "author"), creates(modelWith(ns, "new", func(s *v1alpha1.AgentModelSpec) { s.Auth = &v1alpha1.Auth{SecretRef: keyOf("llm")} }))
	inForce(t, author, try)
	command := regexp.MustCompile(`kubectl create role (\S+) -n (\S+) --verb=(\S+) --resource=(\S+) --resource-name=(\S+), and a rolebinding of it`).
		FindStringSubmatch(try(t.Context(), author).Error())
	if len(command) == 0 || command[1] != "get-llm" || command[2] != ns {
		t.Fatalf("the refusal has no command: %q", command)
	}
	grant(t, c, ns, "author", rbacv1.PolicyRule{APIGroups: []string{""}, Verbs: command[3:4], Resources: command[4:5], ResourceNames: command[5:6]})
	eventually(t, 30*time.Second, func(ctx context.Context) string {
		if err := try(ctx, client.NewDryRunClient(author)); err != nil {
			return strings.TrimSpace("still refused: " + err.Error())
		}
		return ""
	})
}
