package chart

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// grant gives a user a Role with these rules.
func grant(t *testing.T, c client.Client, ns, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	name := metav1.ObjectMeta{Namespace: ns, GenerateName: "grant-"}
	role := &rbacv1.Role{ObjectMeta: name, Rules: rules}
	if err := c.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}); err != nil {
		t.Fatal(err)
	}
}

// everything is what a Role with `*` gives on the operator's objects.
var everything = rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}}

// write is a try to write something. Its client saves nothing.
type write func(context.Context, client.Client) error

func creates(o client.Object) write {
	return func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, o.DeepCopyObject().(client.Object))
	}
}

func updates(o client.Object) write {
	return func(ctx context.Context, c client.Client) error {
		return c.Update(ctx, o.DeepCopyObject().(client.Object))
	}
}

func updatesStatus(o client.Object) write {
	return func(ctx context.Context, c client.Client) error {
		return c.Status().Update(ctx, o.DeepCopyObject().(client.Object))
	}
}

func patches(o client.Object, patch string) write {
	return func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}

func patchesStatus(o client.Object, patch string) write {
	return func(ctx context.Context, c client.Client) error {
		return c.Status().Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}

// attempt is a write by somebody, and what the refusal says: nothing where it is admitted.
type attempt struct {
	who     client.Client
	try     write
	refused string
}

func holdTo(t *testing.T, rules map[string]attempt) {
	t.Helper()
	for rule, tt := range rules {
		t.Run(rule, func(t *testing.T) {
			err := tt.try(t.Context(), client.NewDryRunClient(tt.who))
			if tt.refused == "" && err != nil {
				t.Error(err)
			}
			if tt.refused != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tt.refused)) {
				t.Errorf("got %v, want a refusal that says %q", err, tt.refused)
			}
		})
	}
}

// inForce waits until the policy refuses what it must: a new one takes a moment.
func inForce(t *testing.T, who client.Client, refused write) {
	t.Helper()
	eventually(t, 30*time.Second, func(ctx context.Context) string {
		if err := refused(ctx, client.NewDryRunClient(who)); !apierrors.IsForbidden(err) {
			return fmt.Sprintf("the policy is not in force: %v", err)
		}
		return ""
	})
}

func transcript(ns, name string) *v1alpha1.AgentTranscript {
	return &v1alpha1.AgentTranscript{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Segment: v1alpha1.AgentTranscriptSegment{
		TaskName: "done", TaskUID: "uid", Index: new(int32(0)), FirstSeq: 1, LastSeq: 1, Encoding: "zstd/jsonl", Data: []byte("made up"),
	}}
}

func TestOnlyTheOperatorWritesJournalsAndStatuses(t *testing.T) {
	c := sharedCluster(t)
	ns := c.newNamespace(t, "journals")
	const collector = "system:serviceaccount:kube-system:generic-garbage-collector"
	grant(t, c, ns, "owner", everything)
	admin, owner, manager, gc := c.Client, c.as(t, "owner"), c.as(t, operator), c.as(t, collector)
	restorer := c.as(t, teamOperator, "system:masters") // listed in the shared installation

	task, segment := newTask(ns, "done", "model"), transcript(ns, "uid-00000")
	segment.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "y"}}
	segment.Finalizers = []string{"example.com/hold"}
	if err := errors.Join(admin.Create(t.Context(), task), manager.Create(t.Context(), segment)); err != nil {
		t.Fatal(err)
	}
	task.Status = statuses()[v1alpha1.PhaseRunning]
	if err := manager.Status().Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	another, longer, ended := transcript(ns, "uid-00001"), segment.DeepCopy(), task.DeepCopy()
	longer.Segment.LastSeq, ended.Status = 2, statuses()[v1alpha1.PhaseSucceeded]
	inForce(t, owner, creates(another))

	holdTo(t, map[string]attempt{
		"a Role with * creates no transcript":       {owner, creates(another), "segment of AgentTranscripts is written by the operator only, and not by owner"},
		"a Role with * changes no transcript":       {owner, updates(longer), "segment of AgentTranscripts"},
		"a Role with * patches no transcript":       {owner, patches(segment, `{"segment":{"data":"eA=="}}`), "segment of AgentTranscripts"},
		"a Role with * writes no status":            {owner, updatesStatus(ended), "status of AgentTasks is written by the operator only, and not by owner"},
		"a Role with * patches no status":           {owner, patchesStatus(task, `{"status":{"phase":"Succeeded"}}`), "status of AgentTasks"},
		"a Role with * removes no status":           {owner, patchesStatus(task, `{"status":null}`), "status of AgentTasks"},
		"an admin of the cluster makes none either": {admin, creates(another), "rbac.journalPolicy.accounts"},
		"nor changes a status":                      {admin, updatesStatus(ended), "rbac.journalPolicy.accounts"},
		"the garbage collector changes no segment":  {gc, updates(longer), "not by " + collector},

		"the operator creates transcripts":         {manager, creates(another), ""},
		"the operator appends to transcripts":      {manager, updates(longer), ""},
		"the operator writes statuses":             {manager, updatesStatus(ended), ""},
		"a listed account restores transcripts":    {restorer, creates(another), ""},
		"a listed account restores statuses":       {restorer, updatesStatus(ended), ""},
		"the garbage collector takes out owners":   {gc, patches(segment, `{"metadata":{"ownerReferences":null}}`), ""},
		"the garbage collector takes out holds":    {gc, patches(segment, `{"metadata":{"finalizers":null}}`), ""},
		"a storage migration writes what is there": {admin, updates(segment), ""},
		"a status that stays as it is passes":      {owner, updatesStatus(task), ""},
		"a task is for those who may write tasks":  {owner, patches(task, `{"spec":{"maxIterations":7}}`), ""},
		"a deletion passes":                        {owner, func(ctx context.Context, c client.Client) error { return c.Delete(ctx, segment) }, ""},
		"a namespace's deletion passes": {c.as(t, "system:serviceaccount:kube-system:namespace-controller"), func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, &v1alpha1.AgentTranscript{}, client.InNamespace(ns))
		}, ""},
	})
}

// A release looks after the namespaces that it works in; others are another operator's.
func TestPoliciesHoldInTheReleasesNamespacesOnly(t *testing.T) {
	c := sharedCluster(t)
	inside, outside := c.newNamespace(t, "inside"), c.newNamespace(t, "outside")
	if err := c.helmInstall(chartDir, "watched", inside, map[string]any{"watchNamespaces": []any{inside}, "crds": map[string]any{"install": false}}); err != nil {
		t.Fatal(err)
	}
	// The shared installation's own policy lets its operator write everywhere, so this one's alone refuses.
	manager := c.as(t, operator)
	inForce(t, manager, creates(transcript(inside, "uid-00000")))
	holdTo(t, map[string]attempt{
		"inside, its own operator writes only": {manager, creates(transcript(inside, "uid-00000")), "'watched-" + name + "-journal-writers'"},
		"outside, it has no say":               {manager, creates(transcript(outside, "uid-00000")), ""},
	})
}
