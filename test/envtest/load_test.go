package envtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/controller"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

func slots(n int) func(*controller.Options) {
	return func(o *controller.Options) { o.MaxConcurrentTurns = n }
}

// record notes in which order tasks called the model.
type record struct {
	mu    sync.Mutex
	calls []string
}

func (r *record) note(task string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, strings.TrimPrefix(task, "Do "))
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

func count(calls []string, task string) (n int) {
	for _, c := range calls {
		if c == task {
			n++
		}
	}
	return n
}

// awaitCompleted waits until n tasks have completed.
func (f *fixture) awaitCompleted(n int) {
	f.Helper()
	f.poll(fmt.Sprintf("%d tasks have completed", n), func(ctx context.Context) (bool, error) {
		var list v1alpha1.AgentTaskList
		err := kube.List(ctx, &list, client.InNamespace(f.namespace), client.MatchingFields{"status.exitReason": string(v1alpha1.ExitCompleted)})
		return len(list.Items) >= n, err
	})
}

func TestALongTaskDoesNotDelayShortOnes(t *testing.T) {
	const short = 100
	tests := map[string]struct {
		slots int
		long  func(turn int) fakechat.Reply
		most  int
		why   string
	}{
		"of many turns": {
			slots: 1, most: 3, why: "a turn's successor is queued behind all that waited before",
			long: func(turn int) fakechat.Reply {
				return fakechat.Reply{Text: fmt.Sprint("Still at it, step ", turn), In: 10, Out: 5}
			},
		},
		"whose call hangs": {
			slots: 2, most: 1, why: "it takes one slot, and the others are for the rest",
			long: func(int) fakechat.Reply { return fakechat.Reply{Hang: true} },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Log(test.why)
			f := newFixture(t)
			var r record
			f.chatModel(func(req *fakechat.Request) fakechat.Reply {
				r.note(req.Prompt())
				if req.Prompt() == "Do long" {
					return test.long(req.Replies())
				}
				return done
			})
			f.ownTask("long")
			for i := range short {
				f.ownTask(fmt.Sprint("short-", i))
			}
			f.operator("fair", slots(test.slots), graceless)
			f.awaitCompleted(short)
			calls := r.all()
			last := 0
			for i, c := range calls {
				if c != "long" {
					last = i
				}
			}
			if n := count(calls[:last], "long"); n > test.most {
				t.Errorf("the long task had %d turns before each of %d short ones had its one, want at most %d", n, short, test.most)
			}
		})
	}
}

func TestATaskThatIsAnsweredGoesBeforeThoseThatRunOn(t *testing.T) {
	f := newFixture(t)
	var r record
	held := make(chan *fakechat.Request, 1)
	release := make(chan struct{})
	f.chatModel(func(req *fakechat.Request) fakechat.Reply {
		r.note(req.Prompt())
		switch {
		case req.Prompt() == "Do ask" && req.Replies() == 0:
			return fakechat.Reply{Text: "NEED_INPUT: which one?", In: 10, Out: 5}
		case req.Prompt() == "Do hold":
			held <- req
			<-req.Gone
			<-release
		}
		return done
	})
	f.operator("single", slots(1), graceless)
	f.ownTask("ask")
	f.awaitPhase("ask", v1alpha1.PhaseNeedsInput)
	f.ownTask("hold")
	hold := <-held
	const others = 20
	for i := range others {
		f.ownTask(fmt.Sprint("other-", i))
	}
	f.patch("ask", `{"spec":{"resumeInput":"this one"}}`)
	f.patch("hold", `{"spec":{"cancel":true}}`) // the operator sees this after the answer, and breaks the call off
	<-hold.Gone
	close(release)
	f.awaitCompleted(others + 1)
	after := r.all()[2:]
	// Those that were past the queue already may go first, and what takes the slot while the answer is written.
	if at := slices.Index(after, "ask"); at > 3 {
		t.Errorf("the answered task came after %d others: %v", at, after)
	}
}

// lag holds back what a watch of tasks brings, while it is shut.
type lag struct {
	mu   sync.Mutex
	open chan struct{}
}

func newLag() *lag {
	l := &lag{open: make(chan struct{})}
	close(l.open)
	return l
}

func (l *lag) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = make(chan struct{})
}

func (l *lag) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.open)
}

func (l *lag) watch(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/agenttasks") || r.URL.Query().Get("watch") == "" {
		return nil, nil
	}
	resp, err := next.RoundTrip(r)
	if err == nil {
		resp.Body = &laggingBody{ReadCloser: resp.Body, lag: l, gone: r.Context().Done()}
	}
	return resp, err
}

type laggingBody struct {
	io.ReadCloser
	lag  *lag
	gone <-chan struct{}
}

func (b *laggingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.lag.mu.Lock()
	open := b.lag.open
	b.lag.mu.Unlock()
	select {
	case <-open:
	case <-b.gone:
	}
	return n, err
}

// The operator goes by its journal and not by its cache: a watch that lags shows it its own task before the first turn.
func TestAWatchThatLagsRepeatsAndLosesNothing(t *testing.T) {
	f := newFixture(t)
	l := newLag()
	var w wire
	w.fail(l.watch)
	g := newGate()
	var r record
	f.chatModel(func(req *fakechat.Request) fakechat.Reply {
		r.note(req.Prompt())
		switch {
		case req.Prompt() != "Do late":
			return done
		case req.Replies() == 0:
			return g.pass(fakechat.Reply{Text: "First I look around.", In: 10, Out: 5})
		case req.Replies() == 1:
			return fakechat.Reply{Text: "NEED_INPUT: which one?", In: 10, Out: 5}
		}
		return g.pass(done)
	})
	f.operatorOn(&w, "holder")
	f.ownTask("late")
	<-g.came
	l.shut()
	g.open <- struct{}{}
	asked := f.awaitPhase("late", v1alpha1.PhaseNeedsInput)

	// A change of its model makes the operator look at the task, as the cache has it: new.
	f.touchModel("default")
	f.patch("late", `{"spec":{"resumeInput":"that one"}}`)
	if calls := count(r.all(), "late"); calls != 2 {
		t.Errorf("%d calls before the answer was seen, want 2", calls)
	}
	l.end()
	<-g.came
	l.shut()
	g.open <- struct{}{}
	ended := f.awaitExit("late", v1alpha1.ExitCompleted)
	f.touchModel("default")
	l.end()
	f.ownTask("next") // its event comes after all that lagged
	f.awaitExit("next", v1alpha1.ExitCompleted)

	now := f.awaitEnd("late")
	if calls := count(r.all(), "late"); calls != 3 || *now.Status.Iterations != 3 {
		t.Errorf("%d calls, %d iterations, want 3 of each", calls, *now.Status.Iterations)
	}
	if now.ResourceVersion != ended.ResourceVersion {
		t.Errorf("after its end, the task was written again: %s, then %s", describe(ended), describe(now))
	}
	if asked.Status.InputRequest == nil || *asked.Status.Iterations != 2 {
		t.Errorf("it asked as %s after %d iterations", describe(asked), *asked.Status.Iterations)
	}
}

// touchModel changes an AgentModel in a way that means nothing, and waits until the operator has seen it.
func (f *fixture) touchModel(name string) {
	f.Helper()
	m := &v1alpha1.AgentModel{ObjectMeta: f.meta(name)}
	f.must(kube.Patch(f.ctx, m, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"parameters":{"seed":%d}}}`, namespaces.Add(1)))))
	f.poll("the operator has seen the model", func(ctx context.Context) (bool, error) {
		now := &v1alpha1.AgentModel{}
		err := kube.Get(ctx, client.ObjectKeyFromObject(m), now)
		return now.Status.ObservedGeneration >= m.Generation, err
	})
}
