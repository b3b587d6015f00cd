package envtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

func TestACompletionSignalEndsTheTaskAsCompleted(t *testing.T) {
	f := newFixture(t)
	f.chatModel(func(*fakechat.Request) fakechat.Reply {
		return fakechat.Reply{Text: "The report is written.\n\nTASK_COMPLETE: wrote report.md", In: 20, Out: 10}
	})
	f.task("work")
	task := f.awaitExit("work", v1alpha1.ExitCompleted)
	st := task.Status
	if st.Phase != v1alpha1.PhaseSucceeded || st.Summary != "wrote report.md" || st.Output != "The report is written." {
		t.Errorf("got %s, summary %q, output %q", describe(task), st.Summary, st.Output)
	}
	if *st.Iterations != 1 || *st.Usage.TotalTokens != 30 || st.StartTime == nil || st.CompletionTime == nil {
		t.Errorf("got iterations %d, tokens %d, start %v, end %v", *st.Iterations, *st.Usage.TotalTokens, st.StartTime, st.CompletionTime)
	}
}

func TestEachLimitEndsTheTaskWithItsOwnReason(t *testing.T) {
	steady := func(*fakechat.Request) fakechat.Reply { return fakechat.Reply{Text: "still at it", In: 400, Out: 40} }
	tests := map[string]struct {
		reason string
		answer func(*fakechat.Request) fakechat.Reply
		spec   func(*v1alpha1.AgentTaskSpec)
		exit   v1alpha1.LoopExitReason
		output string
	}{
		"iterations": {
			reason: "the agent never says that it is done",
			answer: steady, spec: func(s *v1alpha1.AgentTaskSpec) { s.MaxIterations = new(int32(3)) },
			exit: v1alpha1.ExitIterationCapReached, output: "still at it",
		},
		"tokens": {
			reason: "the third call would not fit",
			answer: steady, spec: func(s *v1alpha1.AgentTaskSpec) { s.MaxTokens = new(int64(1300)) },
			exit: v1alpha1.ExitTokenBudgetExceeded, output: "still at it",
		},
		"time while a call hangs": {
			reason: "a wall-clock limit must interrupt a call that never returns",
			answer: func(*fakechat.Request) fakechat.Reply { return fakechat.Reply{Hang: true} },
			spec:   func(s *v1alpha1.AgentTaskSpec) { s.MaxDuration = &metav1.Duration{Duration: time.Second} },
			exit:   v1alpha1.ExitTimeBudgetExceeded,
		},
		"no progress": {
			reason: "the same text three times over",
			answer: steady, spec: func(s *v1alpha1.AgentTaskSpec) { s.NoProgressTurns = new(int32(3)) },
			exit: v1alpha1.ExitNoProgress, output: "still at it",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.chatModel(tc.answer)
			f.task("work", tc.spec)
			task := f.awaitExit("work", tc.exit)
			if task.Status.Phase != v1alpha1.PhaseFailed {
				t.Errorf("%s: a limit that fired is reported as %s", tc.reason, task.Status.Phase)
			}
			if task.Status.Output != tc.output {
				t.Errorf("%s: output %q, want the partial output %q", tc.reason, task.Status.Output, tc.output)
			}
		})
	}
}

func TestAQuestionWaitsForItsAnswerAndGoesOn(t *testing.T) {
	f := newFixture(t)
	chat := f.chatModel(func(r *fakechat.Request) fakechat.Reply {
		if r.Replies() == 0 {
			return fakechat.Reply{Text: "NEED_INPUT: which region?", In: 10, Out: 5}
		}
		return fakechat.Reply{Text: "TASK_COMPLETE: deployed to " + r.Last(), In: 10, Out: 5}
	})
	f.task("deploy")
	task := f.awaitPhase("deploy", v1alpha1.PhaseNeedsInput)
	q := task.Status.InputRequest
	if q == nil || q.Question != "which region?" || q.Kind != v1alpha1.InputQuestion || task.Status.ExitReason != v1alpha1.ExitNeedInput {
		t.Fatalf("got %s, question %+v", describe(task), q)
	}
	f.patch("deploy", `{"spec":{"resumeInput":"eu-west-1"}}`)
	task = f.awaitExit("deploy", v1alpha1.ExitCompleted)
	if task.Status.Summary != "deployed to eu-west-1" || *task.Status.Iterations != 2 || chat.Calls() != 2 || task.Status.InputRequest != nil {
		t.Errorf("got %q after %d iterations and %d calls, question %v", task.Status.Summary, *task.Status.Iterations, chat.Calls(), task.Status.InputRequest)
	}
}

func TestCancelInterruptsAHangingCallWithinASecond(t *testing.T) {
	f := newFixture(t)
	called := make(chan struct{}, 10)
	f.chatModel(func(*fakechat.Request) fakechat.Reply {
		called <- struct{}{}
		return fakechat.Reply{Hang: true}
	})
	f.task("stuck")
	<-called
	start := time.Now()
	f.patch("stuck", `{"spec":{"cancel":true}}`)
	task := f.awaitExit("stuck", v1alpha1.ExitCancelled)
	t.Logf("cancelled %s after the patch", time.Since(start).Round(time.Millisecond))
	if task.Status.Phase != v1alpha1.PhaseCancelled {
		t.Errorf("got %s", describe(task))
	}
}

func TestATaskNeverOutlivesItsTimeAtAnEndpointThatNeverAnswers(t *testing.T) {
	f := newFixture(t)
	f.chatModel(func(*fakechat.Request) fakechat.Reply { return fakechat.Reply{Hang: true} })
	f.task("hung", func(s *v1alpha1.AgentTaskSpec) { s.MaxDuration = &metav1.Duration{Duration: 2 * time.Second} })
	st := f.awaitExit("hung", v1alpha1.ExitTimeBudgetExceeded).Status
	took := st.CompletionTime.Sub(st.StartTime.Time)
	t.Logf("ended %s after its start (whole seconds)", took)
	if took < 2*time.Second || took > 3*time.Second {
		t.Errorf("a task of 2s took %s", took)
	}
}

func TestSuspendHoldsTheTaskBetweenTurns(t *testing.T) {
	f := newFixture(t)
	f.scripted("step ${iteration}", "TASK_COMPLETE: done")
	f.task("held", func(s *v1alpha1.AgentTaskSpec) { s.Suspend = new(true) })
	task := f.awaitPhase("held", v1alpha1.PhaseSuspended)
	if *task.Status.Iterations != 0 {
		t.Errorf("a suspended task ran %d turns", *task.Status.Iterations)
	}
	f.patch("held", `{"spec":{"suspend":false}}`)
	if task = f.awaitExit("held", v1alpha1.ExitCompleted); *task.Status.Iterations != 2 {
		t.Errorf("got %d iterations, want 2", *task.Status.Iterations)
	}
}

// The change comes while the operator is busy with what comes before the call: here, a tool server that does not answer.
func TestCancelIsNotLostBeforeTheCall(t *testing.T) {
	f := newFixture(t)
	came := make(chan struct{}, 100)
	tools := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		came <- struct{}{}
		<-r.Context().Done()
	}))
	f.Cleanup(func() { tools.CloseClientConnections(); tools.Close() })
	chat := f.chatModel(func(*fakechat.Request) fakechat.Reply { return fakechat.Reply{Hang: true} })
	f.must(kube.Create(f.ctx, &v1alpha1.AgentToolset{ObjectMeta: f.meta("ops"), Spec: v1alpha1.AgentToolsetSpec{URL: tools.URL}}))
	<-came
	f.task("early", withOps(false))
	f.patch("early", `{"spec":{"cancel":true}}`)
	f.awaitExit("early", v1alpha1.ExitCancelled)
	if chat.Calls() > 1 {
		t.Errorf("%d calls of a task that was cancelled", chat.Calls())
	}
}

func TestAQuestionTimesOutWhileItsModelIsMissing(t *testing.T) {
	f := newFixture(t)
	f.chatModel(func(*fakechat.Request) fakechat.Reply {
		return fakechat.Reply{Text: "NEED_INPUT: which one?", In: 10, Out: 5}
	})
	op := f.operator("first")
	f.ownTask("ask", func(s *v1alpha1.AgentTaskSpec) { s.InputTimeout = &metav1.Duration{Duration: 2 * time.Second} })
	f.awaitPhase("ask", v1alpha1.PhaseNeedsInput)
	op.crash()
	<-op.stopped
	f.must(kube.Delete(f.ctx, &v1alpha1.AgentModel{ObjectMeta: f.meta("default")}))
	f.operator("second")
	f.awaitExit("ask", v1alpha1.ExitInputTimeout)
}

func TestNobodyAnsweringEndsAsInputTimeout(t *testing.T) {
	f := newFixture(t)
	f.scripted("NEED_INPUT: anybody?")
	f.task("asks", func(s *v1alpha1.AgentTaskSpec) { s.InputTimeout = &metav1.Duration{Duration: time.Second} })
	if task := f.awaitExit("asks", v1alpha1.ExitInputTimeout); !strings.Contains(task.Status.Message, "1s") {
		t.Errorf("the message %q does not name the timeout", task.Status.Message)
	}
}

func TestAFinishedTaskIsDeletedAfterItsTTL(t *testing.T) {
	f := newFixture(t)
	f.scripted("TASK_COMPLETE: done")
	task := f.task("brief", func(s *v1alpha1.AgentTaskSpec) { s.TTLSecondsAfterFinished = new(int32(1)) })
	f.awaitExit("brief", v1alpha1.ExitCompleted)
	f.awaitGone(task)
}
