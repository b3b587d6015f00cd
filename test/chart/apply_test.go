package chart

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fluxcd/pkg/ssa"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

const manifest = `
apiVersion: agentloop.dev/v1alpha1
kind: AgentTask
metadata:
  name: task
  labels: {app: demo}
spec:
  prompt: Say hello.
  modelRef: {name: model}
  maxIterations: 5
  maxDuration: 90m
  toolsets:
  - name: web
    allow: ["get_*"]
`

func manifestFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func fromManifest(t *testing.T, ns string) *unstructured.Unstructured {
	t.Helper()
	objects, err := parse(manifest)
	if err != nil {
		t.Fatal(err)
	}
	objects[0].SetNamespace(ns)
	return objects[0]
}

// statuses are what a task's status may look like in each phase.
func statuses() map[v1alpha1.AgentTaskPhase]v1alpha1.AgentTaskStatus {
	now := metav1.NewTime(time.Now()).Rfc3339Copy()
	out := map[v1alpha1.AgentTaskPhase]v1alpha1.AgentTaskStatus{}
	for _, phase := range []v1alpha1.AgentTaskPhase{
		v1alpha1.PhasePending, v1alpha1.PhaseRunning, v1alpha1.PhaseNeedsInput, v1alpha1.PhaseSuspended,
		v1alpha1.PhaseSucceeded, v1alpha1.PhaseFailed, v1alpha1.PhaseCancelled,
	} {
		s := v1alpha1.AgentTaskStatus{Phase: phase, Message: "It is " + string(phase) + ".", ObservedGeneration: 1}
		s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionFalse, Reason: "Test", LastTransitionTime: now}}
		if phase != v1alpha1.PhasePending {
			s.StartTime, s.Iterations = &now, new(int32(2))
		}
		out[phase] = s
	}
	asks := out[v1alpha1.PhaseNeedsInput]
	asks.ExitReason = v1alpha1.ExitNeedInput
	asks.InputRequest = &v1alpha1.InputRequest{ID: "q-1", Kind: v1alpha1.InputQuestion, Question: "Which region?", AskedAt: now}
	out[v1alpha1.PhaseNeedsInput] = asks
	done := out[v1alpha1.PhaseSucceeded]
	done.ExitReason, done.Summary, done.Output, done.CompletionTime = v1alpha1.ExitCompleted, "hello", "Hello.", &now
	out[v1alpha1.PhaseSucceeded] = done
	return out
}

// inEachPhase makes a task from the manifest in each phase, answered by a person, and hands it over.
func inEachPhase(t *testing.T, c *cluster, creator string, check func(t *testing.T, ns string, before *v1alpha1.AgentTask)) {
	for phase, status := range statuses() {
		t.Run(string(phase), func(t *testing.T) {
			ns := c.newNamespace(t, "apply")
			if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(fromManifest(t, ns)), client.FieldOwner(creator)); err != nil {
				t.Fatal(err)
			}
			task := &v1alpha1.AgentTask{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "task"}, task); err != nil {
				t.Fatal(err)
			}
			task.Status = status
			if err := c.as(t, operator).Status().Update(t.Context(), task, client.FieldOwner("manager")); err != nil {
				t.Fatal(err)
			}
			patch := client.MergeFrom(task.DeepCopy())
			task.Spec.ResumeInput, task.Spec.ResumeInputID = new("eu-1"), "q-1"
			if err := c.Patch(t.Context(), task, patch, client.FieldOwner("a-person")); err != nil {
				t.Fatal(err)
			}
			check(t, ns, task)
		})
	}
}

// unchanged fails unless spec, status and generation are as before. Who owns which field may differ.
func unchanged(t *testing.T, c *cluster, before *v1alpha1.AgentTask) {
	t.Helper()
	now := &v1alpha1.AgentTask{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(before), now); err != nil {
		t.Fatal(err)
	}
	if now.Generation != before.Generation || now.UID != before.UID {
		t.Errorf("generation %d is now %d, uid %s is now %s", before.Generation, now.Generation, before.UID, now.UID)
	}
	if diff := cmp.Diff(before.Spec, now.Spec); diff != "" {
		t.Errorf("the spec changed (-before +now):\n%s", diff)
	}
	if diff := cmp.Diff(before.Status, now.Status); diff != "" {
		t.Errorf("the status changed (-before +now):\n%s", diff)
	}
}

func TestServerSideApplyFromTwoManagersKeepsStatusAndAnswer(t *testing.T) {
	c := sharedCluster(t)
	inEachPhase(t, c, "argocd-controller", func(t *testing.T, ns string, before *v1alpha1.AgentTask) {
		for _, manager := range []string{"kustomize-controller", "argocd-controller", "kustomize-controller"} {
			err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(fromManifest(t, ns)), client.FieldOwner(manager), client.ForceOwnership)
			if err != nil {
				t.Fatalf("%s: %v", manager, err)
			}
			unchanged(t, c, before)
		}
	})
}

// A manifest's status, such as that of an exported task, must not reach the task.
func TestApplyOfAnExportedTaskLeavesItsStatusAlone(t *testing.T) {
	c := sharedCluster(t)
	inEachPhase(t, c, "argocd-controller", func(t *testing.T, ns string, before *v1alpha1.AgentTask) {
		exported := fromManifest(t, ns)
		if err := unstructured.SetNestedField(exported.Object, "Pending", "status", "phase"); err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(exported), client.FieldOwner("kustomize-controller"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
		unchanged(t, c, before)
	})
}

func TestKubectlApplyTwiceChangesNothing(t *testing.T) {
	c := sharedCluster(t)
	file := manifestFile(t, manifest)
	for name, args := range map[string][]string{
		"client side": {"apply", "-f", file},
		"server side": {"apply", "--server-side", "-f", file},
	} {
		t.Run(name, func(t *testing.T) {
			ns := c.newNamespace(t, "kubectl")
			task := &v1alpha1.AgentTask{}
			for i := range 4 {
				out, err := c.kubectl(t, ns, args...)
				if err != nil {
					t.Fatal(err)
				}
				now := &v1alpha1.AgentTask{}
				if err := c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "task"}, now); err != nil {
					t.Fatal(err)
				}
				if i > 0 && (now.Generation != task.Generation || !equality.Semantic.DeepEqual(now.Spec, task.Spec) || !equality.Semantic.DeepEqual(now.Status, task.Status)) {
					t.Errorf("apply number %d changed the task: %s", i+1, out)
				}
				// The API server stores the default of a status that nobody has written with the first write after the create.
				if i > 1 && now.ResourceVersion != task.ResourceVersion {
					t.Errorf("apply number %d wrote the task: %s", i+1, out)
				}
				task = now
			}
		})
	}
}

// flux applies as kustomize-controller does, by its own library: it takes over the fields of managers named kubectl*.
func flux(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	options := ssa.DefaultApplyOptions()
	options.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "kustomize-controller", OperationType: metav1.ManagedFieldsOperationUpdate},
		},
		Exclusions: map[string]string{"kustomize.toolkit.fluxcd.io/ssa": "Merge"},
	}
	manager := ssa.NewResourceManager(c, nil, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	_, err := manager.Apply(ctx, o, options)
	return err
}

// docs/gitops.md says what Flux does to an answer by which field manager, and how to keep one.
func TestFluxKeepsAnAnswerOfAnotherFieldManager(t *testing.T) {
	c := sharedCluster(t)
	answer := []string{"patch", "agenttask", "task", "--type=merge", "-p", `{"spec":{"resumeInput":"eu-1"}}`}
	for name, tt := range map[string]struct {
		args   []string
		merge  bool
		answer string
	}{
		"kubectl's own name is dropped":   {args: answer},
		"another name stays":              {args: slices.Concat(answer, []string{"--field-manager=me"}), answer: "eu-1"},
		"the Merge annotation keeps both": {args: answer, merge: true, answer: "eu-1"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := c.newNamespace(t, "flux")
			o := fromManifest(t, ns)
			if tt.merge {
				o.SetAnnotations(map[string]string{"kustomize.toolkit.fluxcd.io/ssa": "Merge"})
			}
			if err := flux(t.Context(), c, o.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.kubectl(t, ns, tt.args...); err != nil {
				t.Fatal(err)
			}
			if err := flux(t.Context(), c, o.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			task := &v1alpha1.AgentTask{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "task"}, task); err != nil {
				t.Fatal(err)
			}
			got := ""
			if task.Spec.ResumeInput != nil {
				got = *task.Spec.ResumeInput
			}
			if got != tt.answer {
				t.Errorf("after Flux the answer is %q, want %q", got, tt.answer)
			}
		})
	}
}

func TestFluxKeepsStatusAndAnswerInEachPhase(t *testing.T) {
	c := sharedCluster(t)
	inEachPhase(t, c, "kustomize-controller", func(t *testing.T, ns string, before *v1alpha1.AgentTask) {
		if err := flux(t.Context(), c, fromManifest(t, ns)); err != nil {
			t.Fatal(err)
		}
		unchanged(t, c, before)
	})
}
