// Command phases prints AgentTasks in every phase and with every exit reason, as JSON by name. Their status is what the
// operator projects, not what a test imagines; test/chart/gitops holds the GitOps recipes to it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/controller"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

var started = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const generation = 3

func main() {
	tasks := map[string]v1alpha1.AgentTask{
		"just seen":         task(loop.State{}, nil),
		"model missing":     task(loop.State{}, &controller.Waiting{Reason: "ModelNotFound", Message: "Create it."}),
		"running":           task(loop.State{StartedAt: started}, nil),
		"retrying":          task(loop.State{StartedAt: started, Failures: 1, LastFailure: &loop.ModelFailed{}}, nil),
		"asks a question":   task(asks(loop.QuestionInput), nil),
		"asks for approval": task(asks(loop.QuestionApproval), nil),
		"journal damaged":   task(loop.State{StartedAt: started}, &controller.Waiting{Reason: "JournalUnreadable", Message: "Restore it.", Stuck: true}),
		"suspended":         task(loop.State{StartedAt: started, Suspended: true}, nil),
	}
	for _, reason := range []loop.ExitReason{
		loop.ExitCompleted, loop.ExitIterationCapReached, loop.ExitTokenBudgetExceeded, loop.ExitTimeBudgetExceeded,
		loop.ExitInputTimeout, loop.ExitNoProgress, loop.ExitCancelled, loop.ExitError,
	} {
		tasks[string(reason)] = task(loop.State{
			StartedAt: started, EndedAt: started.Add(time.Minute), End: &loop.Finished{Reason: reason, Message: "It ended."},
		}, nil)
	}
	if err := json.NewEncoder(os.Stdout).Encode(tasks); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func asks(kind loop.QuestionKind) loop.State {
	return loop.State{StartedAt: started, Question: &loop.Question{
		Asked: loop.Asked{ID: "q-1", Kind: kind, Question: "Which region?"}, AskedAt: started,
	}}
}

func task(state loop.State, waiting *controller.Waiting) v1alpha1.AgentTask {
	return v1alpha1.AgentTask{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AgentTask"},
		ObjectMeta: metav1.ObjectMeta{Name: "task", Namespace: "default", Generation: generation},
		Spec:       v1alpha1.AgentTaskSpec{Prompt: "Say hello."},
		Status: controller.ProjectStatus(&v1alpha1.AgentTaskStatus{}, controller.Projection{
			State: &state, Waiting: waiting, Generation: generation, Now: started.Add(time.Hour),
		}),
	}
}
