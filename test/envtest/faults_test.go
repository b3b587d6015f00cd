package envtest

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/controller"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript/transcripttest"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// gate holds model calls until the test lets them go.
type gate struct {
	came chan struct{}
	open chan struct{}
}

func newGate() *gate { return &gate{came: make(chan struct{}, 100), open: make(chan struct{})} }

func (g *gate) pass(reply fakechat.Reply) fakechat.Reply {
	g.came <- struct{}{}
	<-g.open
	return reply
}

var done = fakechat.Reply{Text: "TASK_COMPLETE: done", In: 10, Out: 5}

func TestALateReplyOfAFormerHolderIsDiscardedAndTheTurnCountedOnce(t *testing.T) {
	f := newFixture(t)
	first, second := newGate(), newGate()
	var calls atomic.Int64
	f.chatModel(func(*fakechat.Request) fakechat.Reply {
		if calls.Add(1) == 1 {
			return first.pass(fakechat.Reply{Text: "TASK_COMPLETE: by the former holder", In: 10, Out: 5})
		}
		return second.pass(fakechat.Reply{Text: "TASK_COMPLETE: by the holder", In: 10, Out: 5})
	})
	f.operator("former")
	task := f.ownTask("contested")
	<-first.came
	f.operator("holder") // both believe that they lead
	<-second.came
	close(first.open) // the former holder's reply comes first, and must not count
	f.awaitOpenings(task, 2)
	close(second.open)
	got := f.awaitExit("contested", v1alpha1.ExitCompleted)
	if got.Status.Summary != "by the holder" || *got.Status.Iterations != 1 || calls.Load() != 2 {
		t.Errorf("got %q, %d iterations, %d calls", got.Status.Summary, *got.Status.Iterations, calls.Load())
	}
}

// awaitOpenings waits until a task's journal was opened n times.
func (f *fixture) awaitOpenings(task *v1alpha1.AgentTask, n int) {
	f.Helper()
	f.await(task.Name, "opened", func(*v1alpha1.AgentTask) bool { return f.count(task, loop.KindOpened) >= n })
}

func (f *fixture) count(task *v1alpha1.AgentTask, kind loop.EventKind) int {
	f.Helper()
	n := 0
	for _, e := range f.events(task) {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (f *fixture) events(task *v1alpha1.AgentTask) []loop.Event {
	f.Helper()
	_, events, err := transcript.Load(f.ctx, transcript.NewKubernetes(kube), transcript.RefOf(task))
	f.must(err)
	return events
}

// A reply that was paid for is kept, and its append is tried again, whatever the API server answers.
func TestAPaidReplySurvivesWhatTheAPIServerDoes(t *testing.T) {
	const failures = 3
	tests := map[string]func(r *http.Request, next http.RoundTripper) (*http.Response, error){
		"a partition": cut,
		"500": func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
			return answer(r, 500, "InternalError"), nil
		},
		"503": func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
			return answer(r, 503, "ServiceUnavailable"), nil
		},
		"429": func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
			return answer(r, 429, "TooManyRequests"), nil
		},
		"a lost answer to what was stored": func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			return nil, errCut
		},
	}
	for name, fault := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			g := newGate()
			chat := f.chatModel(func(*fakechat.Request) fakechat.Reply { return g.pass(done) })
			op := f.operator("holder")
			f.ownTask("paid")
			<-g.came
			var failed atomic.Int64
			op.wire.fail(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
				if !isAppend(r) || failed.Add(1) > failures {
					return nil, nil
				}
				return fault(r, next)
			})
			close(g.open)
			task := f.awaitExit("paid", v1alpha1.ExitCompleted)
			if chat.Calls() != 1 || *task.Status.Iterations != 1 || failed.Load() == 0 {
				t.Errorf("%d calls were paid for one turn (%d counted), %d appends failed", chat.Calls(), *task.Status.Iterations, failed.Load())
			}
		})
	}
}

func TestAPanicFailsItsTaskAlone(t *testing.T) {
	f := newFixture(t)
	g := newGate()
	f.chatModel(func(*fakechat.Request) fakechat.Reply { return g.pass(done) })
	op := f.operator("holder")
	f.ownTask("bad")
	<-g.came
	var panicked atomic.Bool
	op.wire.fail(func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if isAppend(r) && panicked.CompareAndSwap(false, true) {
			panic("a fault in the operator")
		}
		return nil, nil
	})
	close(g.open)
	f.isErrorWithCause("bad", "InternalError")
	f.ownTask("good")
	f.awaitExit("good", v1alpha1.ExitCompleted)
}

// There is one slot, and the panic comes while it is taken.
func TestAPanicInACallGivesItsSlotBack(t *testing.T) {
	f := newFixture(t)
	f.chatModel(func(r *fakechat.Request) fakechat.Reply {
		if r.Prompt() == "Do bad" {
			return fakechat.Reply{Status: 503}
		}
		return done
	})
	f.operator("holder", slots(1), func(o *controller.Options) {
		o.Backoff = func(int) time.Duration { panic("a fault in the operator") }
	})
	f.ownTask("bad")
	f.isErrorWithCause("bad", "InternalError")
	f.ownTask("good")
	f.awaitExit("good", v1alpha1.ExitCompleted)
}

func TestATurnThatKeepsKillingItsOperatorIsGivenUp(t *testing.T) {
	f := newFixture(t)
	came := make(chan struct{}, 10)
	f.chatModel(func(*fakechat.Request) fakechat.Reply {
		came <- struct{}{}
		return fakechat.Reply{Hang: true}
	})
	task := f.ownTask("deadly")
	for _, holder := range []string{"first", "second", "third"} {
		op := f.operator(holder, graceless)
		<-came
		op.crash()
	}
	f.operator("fourth")
	f.isErrorWithCause("deadly", "TurnCrashed")
	if n := len(came); n != 0 || f.count(task, loop.KindOpened) != 4 {
		t.Errorf("%d calls after the last attempt, %d openings", n, f.count(task, loop.KindOpened))
	}
}

// A task that kills its operator takes down the calls of its neighbours, too. They are not given up with it.
func TestATaskThatKeepsKillingItsOperatorFailsNoNeighbour(t *testing.T) {
	f := newFixture(t)
	came := map[string]chan struct{}{"Do kill": make(chan struct{}, 10), "Do stay": make(chan struct{}, 10)}
	var safe atomic.Bool
	f.chatModel(func(r *fakechat.Request) fakechat.Reply {
		came[r.Prompt()] <- struct{}{}
		if r.Prompt() == "Do stay" && safe.Load() {
			return done
		}
		return fakechat.Reply{Hang: true}
	})
	f.ownTask("kill")
	f.ownTask("stay")
	for _, holder := range []string{"first", "second"} {
		op := f.operator(holder, graceless)
		<-came["Do kill"]
		<-came["Do stay"]
		op.crash()
		<-op.stopped
	}
	safe.Store(true) // from now on a call of the neighbour ends, unless the other kills its operator in the middle of it
	op := f.operator("third", graceless)
	select {
	case <-came["Do stay"]:
		f.awaitExit("stay", v1alpha1.ExitCompleted)
		<-came["Do kill"]
	case <-came["Do kill"]:
	}
	op.crash()
	<-op.stopped
	f.operator("fourth")
	f.isErrorWithCause("kill", "TurnCrashed")
	f.awaitExit("stay", v1alpha1.ExitCompleted)
}

func TestAStoppingOperatorLetsItsCallsFinish(t *testing.T) {
	f := newFixture(t)
	g := newGate()
	chat := f.chatModel(func(*fakechat.Request) fakechat.Reply { return g.pass(done) })
	op := f.operator("stopping", patient)
	task := f.ownTask("graceful")
	<-g.came
	op.cancel()
	close(g.open)
	<-op.stopped
	if n := f.count(task, loop.KindModelReplied); n != 1 {
		t.Fatalf("the journal has %d replies after the stop, want the one that was under way", n)
	}
	f.operator("next")
	f.awaitExit("graceful", v1alpha1.ExitCompleted)
	if chat.Calls() != 1 {
		t.Errorf("%d calls for one turn", chat.Calls())
	}
}

// Once a reply is kept its calls count as begun: who left them to the next operator would make their outcome unknown.
func TestAStoppingOperatorRunsTheToolsOfItsLastReply(t *testing.T) {
	f := newFixture(t)
	calls := f.deployTool(v1alpha1.AgentToolsetSpec{})
	g := newGate()
	f.chatModel(func(r *fakechat.Request) fakechat.Reply {
		if r.Replies() == 0 {
			return g.pass(deploys(r))
		}
		return deploys(r)
	})
	op := f.operator("stopping", patient)
	f.ownTask("ship", withOps(true))
	<-g.came
	op.cancel()
	close(g.open)
	<-op.stopped
	if calls.Load() != 1 {
		t.Fatalf("%d calls before the stop, want 1", calls.Load())
	}
	f.operator("next")
	if task := f.awaitExit("ship", v1alpha1.ExitCompleted); task.Status.Summary != "deployed to prod" || calls.Load() != 1 {
		t.Errorf("got %q after %d calls", task.Status.Summary, calls.Load())
	}
}

func TestAStoppingOperatorInterruptsWhatOutlivesItsGrace(t *testing.T) {
	f := newFixture(t)
	came := make(chan struct{}, 10)
	var calls atomic.Int64
	f.chatModel(func(*fakechat.Request) fakechat.Reply {
		came <- struct{}{}
		if calls.Add(1) == 1 {
			return fakechat.Reply{Hang: true}
		}
		return done
	})
	op := f.operator("stopping", graceless)
	task := f.ownTask("slow")
	<-came
	op.cancel()
	<-op.stopped
	if n := f.count(task, loop.KindModelFailed); n != 1 {
		t.Fatalf("the journal has %d interrupted calls, want 1", n)
	}
	f.operator("next")
	if got := f.awaitExit("slow", v1alpha1.ExitCompleted); *got.Status.Iterations != 1 {
		t.Errorf("%d iterations, want the interrupted turn counted once", *got.Status.Iterations)
	}
}

func TestATaskWhoseJournalWasDeletedIsNotBegunAnew(t *testing.T) {
	f := newFixture(t)
	chat := f.chatModel(func(*fakechat.Request) fakechat.Reply {
		return fakechat.Reply{Text: "NEED_INPUT: which one?", In: 10, Out: 5}
	})
	op := f.operator("first")
	f.ownTask("robbed")
	f.awaitPhase("robbed", v1alpha1.PhaseNeedsInput)
	op.crash()
	<-op.stopped
	f.must(kube.DeleteAllOf(f.ctx, &v1alpha1.AgentTranscript{}, client.InNamespace(f.namespace)))
	f.operator("second")
	f.await("robbed", "told to be unreadable", func(task *v1alpha1.AgentTask) bool {
		c := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionReconciling)
		return c != nil && c.Reason == "JournalUnreadable"
	})
	if chat.Calls() != 1 {
		t.Errorf("%d calls, want the first one alone", chat.Calls())
	}
}

func TestTheJournalKeepsItsRulesOnARealAPIServer(t *testing.T) {
	transcripttest.Run(t, func(*testing.T) transcripttest.Store { return transcripttest.NewKubernetes(kube) })
}

func TestATaskOfTheSameNameStartsAnew(t *testing.T) {
	f := newFixture(t)
	f.scripted("TASK_COMPLETE: done")
	var uids []types.UID
	for range 2 {
		task := f.task("again")
		f.awaitExit("again", v1alpha1.ExitCompleted)
		if n := f.count(task, loop.KindModelReplied); n != 1 {
			t.Errorf("the journal has %d replies, want its own one", n)
		}
		uids = append(uids, task.UID)
		f.must(kube.Delete(f.ctx, task))
		f.awaitGone(task)
	}
	if uids[0] == uids[1] {
		t.Fatal("the tasks are one")
	}
}
