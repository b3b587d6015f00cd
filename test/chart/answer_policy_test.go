package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// RBAC gives an answerer patch on the whole object; the admission policy narrows it to the answer.
func TestAnswererMayOnlyAnswer(t *testing.T) {
	c := sharedCluster(t)
	ns := c.newNamespace(t, "answers")
	bindUser(t, c, ns, "answerer", name+"-answerer")
	bindUser(t, c, ns, "editor", name+"-editor")
	if err := c.Create(t.Context(), newTask(ns, "asks", "none")); err != nil {
		t.Fatal(err)
	}
	try := func(user, patch string) error {
		task := &v1alpha1.AgentTask{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "asks"}}
		return c.as(t, user).Patch(t.Context(), task, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner(user))
	}
	// A new policy takes a moment to be in force.
	forbidden := `{"spec":{"maxIterations":100}}`
	eventually(t, 30*time.Second, func(context.Context) string {
		if err := try("answerer", forbidden); !apierrors.IsForbidden(err) {
			return "an answerer may raise a limit"
		}
		return ""
	})
	for _, patch := range []string{
		forbidden, `{"spec":{"cancel":true}}`, `{"spec":{"prompt":"other"}}`, `{"spec":{"toolsets":[{"name":"shell"}]}}`,
		`{"spec":{"outputSchema":{"type":"object"}}}`, `{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"annotations":{"a":"b"}}}`,
		`{"metadata":{"finalizers":["example.com/stay"]}}`, `{"spec":{"resumeInput":"yes","maxTokens":5}}`, `{"spec":{"maxIterations":null}}`,
	} {
		if err := try("answerer", patch); !apierrors.IsForbidden(err) {
			t.Errorf("an answerer may patch %s: %v", patch, err)
		}
	}
	if err := try("answerer", `{"spec":{"resumeInput":"yes","resumeInputID":"q-1"}}`); err != nil {
		t.Errorf("an answerer may not answer: %v", err)
	}
	if err := try("editor", forbidden); err != nil {
		t.Errorf("an editor may not raise a limit: %v", err)
	}
	if err := try("answerer", `{"spec":{"maxIterations":200}}`); err == nil || !strings.Contains(err.Error(), "change only spec.resumeInput") {
		t.Errorf("the refusal does not say what an answerer may do: %v", err)
	}
	if err := c.as(t, "stranger").Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "asks"}, &v1alpha1.AgentTask{}); !apierrors.IsForbidden(err) {
		t.Errorf("a stranger gets %v", err)
	}
}

// Who owns a field decides what their next apply removes: a limit that Flux is made to own, but that Git does not set, is gone.
func TestAnAnswerChangesNobodysShareOfTheFields(t *testing.T) {
	c := sharedCluster(t)
	ns := c.newNamespace(t, "shares")
	for _, user := range []string{"answerer", "another"} {
		bindUser(t, c, ns, user, name+"-answerer")
	}
	// Flux has what is in Git, somebody has set a limit beside it, the operator has the status, and an answer was given before.
	apply := func(who client.Client, manager, manifest string) error {
		objects, err := parse(manifest)
		if err != nil {
			return err
		}
		objects[0].SetNamespace(ns)
		return who.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(objects[0]), client.FieldOwner(manager), client.ForceOwnership)
	}
	task := newTask(ns, "task", "model")
	if err := apply(c, "kustomize-controller", manifest); err != nil {
		t.Fatal(err)
	}
	for _, set := range []write{
		patches(task, `{"spec":{"maxTokens":1000,"completion":{"stopWhen":"false"},"resumeInput":"first","resumeInputID":"q-0"}}`),
		func(ctx context.Context, _ client.Client) error {
			return patchesStatus(task, `{"status":{"phase":"NeedsInput"}}`)(ctx, c.as(t, operator))
		},
	} {
		if err := set(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	answerer, another := c.as(t, "answerer"), c.as(t, "another")
	inForce(t, answerer, patches(task, `{"metadata":{"managedFields":[{}]}}`))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(task), task); err != nil {
		t.Fatal(err)
	}
	// with changes one entry, and hands in the answer beside it.
	with := func(change func([]metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry) write {
		text, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"managedFields": change(task.DeepCopy().ManagedFields)}, "spec": map[string]any{"resumeInput": "yes"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return patches(task, string(text))
	}
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: v1alpha1.GroupVersion.String(),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	type entries = []metav1.ManagedFieldsEntry
	replaced := func(part, by string) write {
		return with(func(all entries) entries {
			i := slices.IndexFunc(all, func(e metav1.ManagedFieldsEntry) bool { return strings.Contains(e.FieldsV1.GetRawString(), part) })
			all[i].FieldsV1.SetRawString(strings.Replace(all[i].FieldsV1.GetRawString(), part, by, 1))
			return all
		})
	}
	const refused = "leave metadata.managedFields out"
	holdTo(t, map[string]attempt{
		"all shares go":            {answerer, patches(task, `{"metadata":{"managedFields":[{}]}}`), refused},
		"all go, with an answer":   {answerer, patches(task, `{"metadata":{"managedFields":[{}]},"spec":{"resumeInput":"yes"}}`), refused},
		"one goes":                 {answerer, with(func(all entries) entries { return all[1:] }), refused},
		"one is handed over":       {answerer, with(func(all entries) entries { all[0].Manager = "me"; return all }), refused},
		"one is made up":           {answerer, with(func(all entries) entries { return append(all, entry("argocd", `{"f:spec":{"f:maxTokens":{}}}`)) }), refused},
		"one is of the whole spec": {answerer, with(func(all entries) entries { return append(all, entry("argocd", `{"f:spec":{}}`)) }), refused},
		"one is of the metadata": {answerer, with(func(all entries) entries {
			return append(all, entry("argocd", `{"f:metadata":{"f:labels":{"f:app":{}}}}`))
		}), refused},
		"one gets more":               {answerer, replaced(`"f:maxDuration":{},`, `"f:maxDuration":{},"f:maxTokens":{},`), refused},
		"one gets less":               {answerer, replaced(`"f:maxDuration":{},`, ``), refused},
		"one gets less within a part": {answerer, replaced(`,"f:stopWhen":{}`, ``), refused},
		"the status is nobody's":      {answerer, replaced(`"f:phase":{}`, ``), refused},
		"an answerer applies a limit too": {answerer, func(context.Context, client.Client) error {
			return apply(answerer, "me", `{apiVersion: agentloop.dev/v1alpha1, kind: AgentTask, metadata: {name: task}, spec: {resumeInput: "yes", maxTokens: 1000}}`)
		}, refused},

		"an answer takes over the one before": {answerer, patches(task, `{"spec":{"resumeInput":"yes","resumeInputID":"q-1"}}`), ""},
		"an answer is taken back":             {another, patches(task, `{"spec":{"resumeInput":null,"resumeInputID":null}}`), ""},
		"an answer is applied": {answerer, func(context.Context, client.Client) error {
			return apply(answerer, "me", `{apiVersion: agentloop.dev/v1alpha1, kind: AgentTask, metadata: {name: task}, spec: {resumeInput: "yes"}}`)
		}, ""},
	})
	for i, who := range []client.Client{answerer, another, answerer} {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"resumeInput":"%d","resumeInputID":"q-%d"}}`, i, i))
		if err := who.Patch(t.Context(), newTask(ns, "task", ""), patch, client.FieldOwner(fmt.Sprint("answerer-", i))); err != nil {
			t.Errorf("answer %d: %v", i, err)
		}
	}
}
