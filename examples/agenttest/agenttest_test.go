// Package example is a suite as yours may be: a module of its own that tests what it does with AgentTasks against a real API server.
// KUBEBUILDER_ASSETS names the folder with kube-apiserver and etcd, as for any suite of envtest.
package example

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	apply "github.com/agentloop-dev/agenttask-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/pkg/agenttest"
)

var cluster *rest.Config

func TestMain(m *testing.M) {
	env := &envtest.Environment{CRDs: agenttest.CRDs()}
	var err error
	if cluster, err = env.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = env.Stop()
	os.Exit(code)
}

// namespace makes a namespace for one test.
func namespace(t *testing.T, op *agenttest.Operator) string {
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	op.Create(agenttest.Namespace(name))
	return name
}

func TestATaskCompletes(t *testing.T) {
	op := agenttest.Start(t, cluster, agenttest.Options{})
	ns := namespace(t, op)
	op.Create(agenttest.Scripted(ns, "default", agenttest.Says("I look."), agenttest.Says("TASK_COMPLETE: all is well")))
	task := agenttest.Task(ns, "look", "Look whether all is well.")
	op.Create(task)
	task = op.AwaitEnd(task)
	if task.Status.ExitReason != v1alpha1.ExitCompleted || task.Status.Summary != "all is well" || *task.Status.Iterations != 2 {
		t.Errorf("it ended as %s after %d turns: %s", task.Status.ExitReason, *task.Status.Iterations, task.Status.Summary)
	}
}

func TestAQuestionIsAnswered(t *testing.T) {
	op := agenttest.Start(t, cluster, agenttest.Options{})
	ns := namespace(t, op)
	model := agenttest.ServeModel(t, func(r *agenttest.ModelRequest) agenttest.ModelReply {
		if r.Replies() == 0 {
			return agenttest.ModelReply{Text: "NEED_INPUT: which colour?"}
		}
		return agenttest.ModelReply{Text: "TASK_COMPLETE: painted it " + r.Last()}
	})
	op.Create(model.AgentModel(ns, "default"))
	task := agenttest.Task(ns, "paint", "Paint the shed.")
	op.Create(task)
	task = op.AwaitQuestion(task)
	if q := task.Status.InputRequest; q.Question != "which colour?" || q.Kind != v1alpha1.InputQuestion {
		t.Fatalf("it asks %q", q.Question)
	}
	op.Answer(task, "green")
	if task = op.AwaitEnd(task); task.Status.Summary != "painted it green" {
		t.Errorf("the summary is %q", task.Status.Summary)
	}
}

func TestACallIsApproved(t *testing.T) {
	op := agenttest.Start(t, cluster, agenttest.Options{})
	ns := namespace(t, op)
	tools := agenttest.ServeTools(t, agenttest.Tool{Name: "deploy", Run: func(_ context.Context, arguments json.RawMessage) (string, error) {
		return "deployed " + string(arguments), nil
	}})
	set := tools.AgentToolset(ns, "ops")
	set.Spec.RequireApproval = v1alpha1.ApprovalAlways
	op.Create(set, agenttest.Scripted(ns, "default", agenttest.Calls("ops__deploy", `{"to":"production"}`), agenttest.Says("TASK_COMPLETE: deployed")))
	task := agenttest.Task(ns, "ship", "Ship it.")
	required := true
	task.Spec.Toolsets = []v1alpha1.ToolsetReference{{Name: "ops", Required: &required}}
	op.Create(task)
	task = op.AwaitQuestion(task)
	if tools.Runs("deploy") != 0 {
		t.Error("it ran before it was approved")
	}
	op.Answer(task, "approve")
	if task = op.AwaitEnd(task); task.Status.ExitReason != v1alpha1.ExitCompleted || tools.Runs("deploy") != 1 {
		t.Errorf("it ended as %s, and ran %d times", task.Status.ExitReason, tools.Runs("deploy"))
	}
}

func TestAFailureSaysWhy(t *testing.T) {
	op := agenttest.Start(t, cluster, agenttest.Options{})
	ns := namespace(t, op)
	op.Create(agenttest.Scripted(ns, "default", agenttest.Fails("AuthenticationFailed")))
	task := agenttest.Task(ns, "fail", "Try it.")
	op.Create(task)
	task = op.AwaitEnd(task)
	if task.Status.ExitReason != v1alpha1.ExitError || !strings.Contains(task.Status.Message, "refused the credentials") {
		t.Errorf("it ended as %s: %s", task.Status.ExitReason, task.Status.Message)
	}
}

// Time passes only when the test says so.
func TestALimitOfTimeWithoutWaiting(t *testing.T) {
	clock := agenttest.NewClock(time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC))
	op := agenttest.Start(t, cluster, agenttest.Options{Clock: clock})
	ns := namespace(t, op)
	op.Create(agenttest.Scripted(ns, "default", agenttest.Says("NEED_INPUT: may I?")))
	task := agenttest.Task(ns, "ask", "Ask first.")
	task.Spec.InputTimeout = &metav1.Duration{Duration: 48 * time.Hour}
	op.Create(task)
	task = op.AwaitQuestion(task)
	clock.Add(48 * time.Hour)
	if task = op.AwaitEnd(task); task.Status.ExitReason != v1alpha1.ExitInputTimeout {
		t.Errorf("it ended as %s", task.Status.ExitReason)
	}
}

// The journal tells what happened, in order. A task that was let go by one operator is gone on with by the next.
func TestAnotherOperatorGoesOn(t *testing.T) {
	op := agenttest.Start(t, cluster, agenttest.Options{})
	ns := namespace(t, op)
	op.Create(agenttest.Scripted(ns, "default", agenttest.Says("NEED_INPUT: which?"), agenttest.Says("TASK_COMPLETE: that")))
	task := agenttest.Task(ns, "choose", "Choose one.")
	op.Create(task)
	task = op.AwaitQuestion(task)
	op.Stop()

	next := agenttest.Start(t, cluster, agenttest.Options{})
	next.Answer(task, "that one")
	task = next.AwaitEnd(task)
	var kinds []agenttest.EventKind
	for _, e := range next.Journal(task) {
		kinds = append(kinds, e.Kind)
	}
	if task.Status.ExitReason != v1alpha1.ExitCompleted || kinds[0] != "Opened" || kinds[len(kinds)-1] != "Finished" {
		t.Errorf("it ended as %s: %v", task.Status.ExitReason, kinds)
	}
}

// Typed access needs no generated clientset: controller-runtime's client reads, and the apply configurations write.
func TestServerSideApply(t *testing.T) {
	op := agenttest.Start(t, cluster, agenttest.Options{})
	ns := namespace(t, op)
	op.Create(agenttest.Scripted(ns, "default", agenttest.Says("TASK_COMPLETE: done")))
	wanted := apply.AgentTask("applied", ns).WithSpec(apply.AgentTaskSpec().WithPrompt("Do it.").WithMaxIterations(3))
	for range 2 { // the second time changes nothing
		if err := op.Client.Apply(t.Context(), wanted, client.FieldOwner("example"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
	task := op.AwaitEnd(agenttest.Task(ns, "applied", ""))
	if *task.Spec.MaxIterations != 3 || task.Status.ExitReason != v1alpha1.ExitCompleted {
		t.Errorf("%d iterations at most, ended as %s", *task.Spec.MaxIterations, task.Status.ExitReason)
	}
	tasks := &v1alpha1.AgentTaskList{}
	if err := op.Client.List(t.Context(), tasks, client.InNamespace(ns)); err != nil || len(tasks.Items) != 1 {
		t.Errorf("%d tasks: %v", len(tasks.Items), err)
	}
}
