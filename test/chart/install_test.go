package chart

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// scripted makes an AgentModel that gives these replies.
func scripted(t *testing.T, c client.Client, ns, model string, replies ...string) {
	t.Helper()
	m := &v1alpha1.AgentModel{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: model}}
	m.Spec = v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderScripted, Scripted: &v1alpha1.Script{}}
	for _, text := range replies {
		m.Spec.Scripted.Replies = append(m.Spec.Scripted.Replies, v1alpha1.ScriptedReply{Text: &text})
	}
	if err := c.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func newTask(ns, name, model string) *v1alpha1.AgentTask {
	return &v1alpha1.AgentTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: v1alpha1.AgentTaskSpec{
			Prompt: "Say hello.", ModelRef: &v1alpha1.LocalReference{Name: model}, MaxIterations: new(int32(5)),
		},
	}
}

// The whole of it: what Helm installed is enough for the manager to do its work, and for nothing else.
func TestInstalledChartRunsTasks(t *testing.T) {
	c := sharedCluster(t)
	m := c.startManager(t, namespace, name)
	ns := c.newNamespace(t, "work")

	t.Run("a task completes", func(t *testing.T) {
		scripted(t, c, ns, "default", "TASK_COMPLETE: hello")
		task := newTask(ns, "hello", "")
		task.Spec.ModelRef = nil
		if err := c.Create(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		got := waitForTask(t, c, ns, "hello", (*v1alpha1.AgentTask).Finished)
		if got.Status.ExitReason != v1alpha1.ExitCompleted || got.Status.Summary != "hello" {
			t.Errorf("it ended as %s, summary %q", got.Status.ExitReason, got.Status.Summary)
		}
	})

	t.Run("a finished task that is applied again does not run again", func(t *testing.T) {
		file := manifestFile(t, `{apiVersion: agentloop.dev/v1alpha1, kind: AgentTask, metadata: {name: again}, spec: {prompt: Say hello.}}`)
		if _, err := c.kubectl(t, ns, "apply", "-f", file); err != nil {
			t.Fatal(err)
		}
		// The two waits that docs/gitops.md shows.
		for _, condition := range []string{"condition=Finished", "jsonpath={.status.phase}=Succeeded"} {
			if out, err := c.kubectl(t, ns, "wait", "agenttask/again", "--for="+condition, "--timeout=60s"); err != nil {
				t.Fatal(out, err)
			}
		}
		before := waitForTask(t, c, ns, "again", (*v1alpha1.AgentTask).Finished)
		for range 2 {
			if _, err := c.kubectl(t, ns, "apply", "-f", file); err != nil {
				t.Fatal(err)
			}
		}
		// A task after it has run, so the operator had its chance to look at this one.
		if err := c.Create(t.Context(), newTask(ns, "later", "default")); err != nil {
			t.Fatal(err)
		}
		waitForTask(t, c, ns, "later", (*v1alpha1.AgentTask).Finished)
		if after := waitForTask(t, c, ns, "again", (*v1alpha1.AgentTask).Finished); after.ResourceVersion != before.ResourceVersion {
			t.Errorf("it was written again: %+v", after.Status)
		}
	})

	t.Run("a question is answered and the task resumes", func(t *testing.T) {
		scripted(t, c, ns, "asks", "NEED_INPUT: Which region?", "TASK_COMPLETE: done")
		if err := c.Create(t.Context(), newTask(ns, "asks", "asks")); err != nil {
			t.Fatal(err)
		}
		task := waitForTask(t, c, ns, "asks", inPhase(v1alpha1.PhaseNeedsInput))
		if task.Status.InputRequest.Question != "Which region?" {
			t.Errorf("the question is %q", task.Status.InputRequest.Question)
		}
		patch := client.MergeFrom(task.DeepCopy())
		task.Spec.ResumeInput = new("eu-1")
		if err := c.Patch(t.Context(), task, patch, client.FieldOwner("a-person")); err != nil {
			t.Fatal(err)
		}
		if got := waitForTask(t, c, ns, "asks", (*v1alpha1.AgentTask).Finished); got.Status.Phase != v1alpha1.PhaseSucceeded {
			t.Errorf("it ended as %s: %s", got.Status.ExitReason, got.Status.Message)
		}
	})

	t.Run("a finished task is deleted after its TTL", func(t *testing.T) {
		task := newTask(ns, "ttl", "default")
		task.Spec.TTLSecondsAfterFinished = new(int32(0))
		if err := c.Create(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		eventually(t, 60*time.Second, func(ctx context.Context) string {
			if err := c.Get(ctx, client.ObjectKeyFromObject(task), &v1alpha1.AgentTask{}); !apierrors.IsNotFound(err) {
				return "the task is still there"
			}
			return ""
		})
	})

	t.Run("a credential is read", func(t *testing.T) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "key"}, StringData: map[string]string{"key": "k"}}
		model := &v1alpha1.AgentModel{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "remote"}, Spec: v1alpha1.AgentModelSpec{
			Provider: v1alpha1.ProviderOpenAI, Model: "m", Auth: &v1alpha1.Auth{SecretRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "key"}},
		}}
		for _, o := range []client.Object{secret, model} {
			if err := c.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, 60*time.Second, func(ctx context.Context) string {
			if err := c.Get(ctx, client.ObjectKeyFromObject(model), model); err != nil {
				return err.Error()
			}
			for _, condition := range model.Status.Conditions {
				if condition.Type == v1alpha1.ConditionReady && condition.Status == metav1.ConditionTrue {
					return ""
				}
			}
			return "the model is not Ready"
		})
	})

	t.Run("it leads by its lease and tells of it", func(t *testing.T) {
		lease := &coordinationv1.Lease{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "agenttask-operator.agentloop.dev"}, lease); err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, func(ctx context.Context) string {
			events := &eventsv1.EventList{}
			if err := c.List(ctx, events, client.InNamespace(ns)); err != nil {
				return err.Error()
			}
			if len(events.Items) == 0 {
				return "no event tells of any task"
			}
			return ""
		})
	})

	t.Run("metrics are for those who may read them", func(t *testing.T) {
		reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "prometheus"}}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: ns + "-prometheus"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name + "-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: "prometheus"}},
		}
		for _, o := range []client.Object{reader, binding} {
			if err := c.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		for who, tt := range map[string]struct {
			token string
			want  int
		}{
			"nobody":                    {"", http.StatusUnauthorized},
			"the manager, with no role": {m.config.BearerToken, http.StatusForbidden},
			"the metrics reader":        {c.serviceAccountConfig(t, ns, "prometheus").BearerToken, http.StatusOK},
		} {
			if code, err := get(t.Context(), "https://"+m.metrics+"/metrics", tt.token); err != nil || code != tt.want {
				t.Errorf("%s gets %d (%v), want %d", who, code, err, tt.want)
			}
		}
	})

	t.Run("listing Secrets is refused", func(t *testing.T) {
		if err := m.client.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
			t.Errorf("a list of all Secrets gives %v", err)
		}
		if err := m.client.List(t.Context(), &corev1.SecretList{}, client.InNamespace(ns)); !apierrors.IsForbidden(err) {
			t.Errorf("a list of a namespace's Secrets gives %v", err)
		}
	})

	t.Run("nothing else is allowed", func(t *testing.T) {
		for _, denied := range []string{
			"secrets list", "secrets watch", "secrets create", "secrets update", "secrets patch", "secrets delete",
			"configmaps list", "configmaps watch", "configmaps create", "configmaps update", "configmaps patch", "configmaps delete", "pods get", "pods create", "serviceaccounts get", "events list",
			"agenttasks.agentloop.dev create", "agenttasks.agentloop.dev update", "agenttasks.agentloop.dev patch",
			"agenttasks.agentloop.dev deletecollection", "agentmodels.agentloop.dev update", "agentmodels.agentloop.dev patch",
			"agentmodels.agentloop.dev delete", "agenttoolsets.agentloop.dev update", "agenttranscripts.agentloop.dev delete",
			"agenttranscripts.agentloop.dev list", "agenttranscripts.agentloop.dev watch", "leases.coordination.k8s.io create",
			"roles.rbac.authorization.k8s.io create", "clusterroles.rbac.authorization.k8s.io escalate",
		} {
			if may(t, m.client, ns, denied) {
				t.Errorf("the manager may %s", denied)
			}
		}
	})

	m.stop()
	if strings.Contains(m.log.String(), "forbidden") {
		t.Errorf("the manager asked for something that its roles do not allow:\n%s", m.log)
	}
}

// may asks the API server whether c's user may do "resource[.group] verb" in ns.
func may(t *testing.T, c client.Client, ns, what string) bool {
	t.Helper()
	resource, verb, _ := strings.Cut(what, " ")
	resource, group, _ := strings.Cut(resource, ".")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Group: group, Resource: resource, Verb: verb},
	}}
	if err := c.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// A team's own operator works in its namespaces with Roles alone, and cannot reach into others.
func TestNamespacedInstallStaysInItsNamespaces(t *testing.T) {
	c := sharedCluster(t)
	for _, ns := range []string{"team-a", "team-b", "team-c"} {
		c.ensureNamespace(t, ns)
		scripted(t, c, ns, "only", "TASK_COMPLETE: hello")
		if err := c.Create(t.Context(), newTask(ns, "hello", "only")); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.helmInstall(chartDir, "team", "team-a", valuesFiles(t)["namespaced"]); err != nil {
		t.Fatal(err)
	}
	m := c.startManager(t, "team-a", "team-agenttask-operator")
	for _, ns := range []string{"team-a", "team-b"} {
		if got := waitForTask(t, c, ns, "hello", (*v1alpha1.AgentTask).Finished); got.Status.Phase != v1alpha1.PhaseSucceeded {
			t.Errorf("%s: it ended as %s: %s", ns, got.Status.ExitReason, got.Status.Message)
		}
	}
	outside := &v1alpha1.AgentTask{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "team-c", Name: "hello"}, outside); err != nil {
		t.Fatal(err)
	}
	if outside.Status.Phase != "" {
		t.Errorf("a task of another namespace is in phase %s", outside.Status.Phase)
	}
	for _, what := range []string{"secrets get", "configmaps get", "agenttasks.agentloop.dev get", "agenttasks.agentloop.dev list"} {
		if may(t, m.client, "team-c", what) {
			t.Errorf("the manager may %s in a namespace that is not its own", what)
		}
	}
	for _, what := range []string{"secrets get", "configmaps get"} {
		if !may(t, m.client, "team-b", what) {
			t.Errorf("the manager may not %s in its own namespace", what)
		}
	}
	m.stop()
	if strings.Contains(m.log.String(), "forbidden") {
		t.Errorf("the manager asked for something that its roles do not allow:\n%s", m.log)
	}
}
