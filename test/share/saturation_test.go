//go:build share

package share

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/harness"
)

// What needs no call never waits behind what does, and another tenant is no worse off for it.
func TestSaturation(t *testing.T) {
	sizes := []struct {
		name         string
		flags        []string
		slots, tasks int
	}{
		{name: "4 slots, 60 tasks", flags: []string{"--max-concurrent-turns=4"}, slots: 4, tasks: 60},
		{name: "default flags, 600 tasks", slots: 256, tasks: 600},
	}
	tries := 50
	if testing.Short() {
		sizes, tries = sizes[:1], 3
	}
	for _, size := range sizes {
		t.Run(size.name, func(t *testing.T) {
			s := &saturated{rig: newRig(t), hang: newHang(), tries: tries, slots: size.slots}
			s.model(namespace, "default", s.hang.answer)
			s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
			s.model("other", "default", steps(1))
			s.operator("manager", size.flags...)
			s.ask("answer", tries)
			s.ask("timeout", tries)
			s.saturate(size.tasks)
			for _, k := range s.kinds() {
				s.measure(k.name, k.try)
			}
			s.inputTimeouts()
		})
	}
}

// saturated is an operator all of whose slots are held by calls that hang.
type saturated struct {
	*rig
	hang         *hang
	tries, slots int
	spares       int
}

// ask makes tasks that wait for an answer, before there is anything else.
func (s *saturated) ask(prefix string, n int) {
	s.Helper()
	s.create(tasks(prefix, n)...)
	s.await("questions", time.Minute, n, are(prefix, v1alpha1.PhaseNeedsInput))
}

// saturate also holds every task that waits to a first status: who looks at it is to see that it waits.
func (s *saturated) saturate(n int) {
	s.Helper()
	began := time.Now()
	s.create(tasks("hung", n)...)
	created := time.Now()
	s.until("all slots are held", time.Minute, s.full)
	seen, err := s.see(30*time.Second, n, func(t sight) bool { return strings.HasPrefix(t.Name, "hung-") && told(t) })
	if err != nil {
		s.Errorf("a first status of every task that hangs or waits: %v", err)
		return
	}
	s.Logf("%d tasks created in %s; all have a status after %s; %d calls hang", n, ms(created.Sub(began)), ms(seen.Sub(began)), s.hang.calls())
}

func (s *saturated) full() bool { return s.hang.calls() >= s.slots }

func told(t sight) bool {
	return !t.Gone && t.Status.Phase != "" && len(t.Status.Conditions) > 0
}

type kind struct {
	name string
	try  func(i int) (time.Duration, error)
}

// kinds are what must take no second at saturation. Most need a task that waits for a slot, which the first status gives them.
func (s *saturated) kinds() []kind {
	return []kind{
		{"first status of a new task, then its cancel", s.waiting("cancelled", `{"cancel":true}`, v1alpha1.PhaseCancelled)},
		{"first status of a new task, then its suspension", s.waiting("suspended", `{"suspend":true}`, v1alpha1.PhaseSuspended)},
		{"first status of a new task, then its deletion", func(i int) (time.Duration, error) {
			name := numbered("deleted", i)
			first, err := s.appears(name)
			if err != nil {
				return first, err
			}
			deleted, err := s.deletion(name)
			return max(first, deleted), err
		}},
		{"cancel of a task in its call", func(int) (time.Duration, error) {
			name := s.calling()
			return s.timed(func() { s.patch(name, `{"cancel":true}`) }, is(name, v1alpha1.PhaseCancelled))
		}},
		{"deletion of a task in its call", func(int) (time.Duration, error) { return s.deletion(s.calling()) }},
		{"answer", func(i int) (time.Duration, error) {
			name := numbered("answer", i)
			question := s.get(name).Status.InputRequest.ID
			return s.timed(func() { s.patch(name, fmt.Sprintf(`{"resumeInput":"yes","resumeInputID":%q}`, question)) }, func(t sight) bool {
				return t.Name == name && !t.In(v1alpha1.PhaseNeedsInput) && t.Status.InputRequest == nil
			})
		}},
		{"refusal of a bad spec", func(i int) (time.Duration, error) {
			bad := task(numbered("refused", i), func(t *v1alpha1.AgentTask) { t.Spec.Completion = &v1alpha1.Completion{StopWhen: "iteration >"} })
			return s.timed(func() { s.create(bad) }, is(bad.Name, v1alpha1.PhaseFailed))
		}},
		{"task of another namespace on another model", func(i int) (time.Duration, error) {
			fast := task(numbered("other", i), in("other"))
			return s.timed(func() { s.create(fast) }, is(fast.Name, v1alpha1.PhaseSucceeded))
		}},
	}
}

// giveUp is when a try is not waited for any longer.
const giveUp = 5 * time.Second

// timed does something, and tells how long it took until that was seen.
func (s *saturated) timed(do func(), seen match) (time.Duration, error) {
	s.Helper()
	expected, err := s.view.Expect(1, seen)
	s.must(err)
	ctx, cancel := s.within(giveUp)
	defer cancel()
	began := time.Now()
	do()
	at, err := expected.Wait(ctx)
	return at.Sub(began), err
}

func (s *saturated) appears(name string) (time.Duration, error) {
	s.Helper()
	return s.timed(func() { s.create(task(name)) }, func(t sight) bool { return t.Name == name && told(t) })
}

func (s *saturated) deletion(name string) (time.Duration, error) {
	s.Helper()
	return s.timed(func() { s.must(s.cluster.Client.Delete(s.ctx, task(name))) }, func(t sight) bool { return t.Name == name && t.Gone })
}

// calling is a task whose call hangs. As it is about to go, there is a new one at the end of those that wait.
func (s *saturated) calling() string {
	s.Helper()
	s.spares++
	s.create(task(numbered("hung-spare", s.spares)))
	var name string
	s.until("a call hangs", giveUp, func() bool {
		name = s.hang.pick()
		return name != ""
	})
	return name
}

// waiting makes a task that waits for a slot, changes its spec, and takes it away again.
func (s *saturated) waiting(prefix, spec string, becomes v1alpha1.AgentTaskPhase) func(int) (time.Duration, error) {
	return func(i int) (time.Duration, error) {
		name := numbered(prefix, i)
		first, err := s.appears(name)
		if err != nil {
			return first, err
		}
		then, err := s.timed(func() { s.patch(name, spec) }, is(name, becomes))
		if err != nil {
			return then, err
		}
		_, err = s.deletion(name)
		return max(first, then), err
	}
}

// within is what nobody has to wait longer for. The short part runs beside other things, and measures nothing.
func within() time.Duration {
	if testing.Short() {
		return giveUp
	}
	return time.Second
}

// measure tries one kind of thing often, at saturation each time, and holds the worst to a second.
func (s *saturated) measure(name string, try func(i int) (time.Duration, error)) {
	s.Helper()
	var took []time.Duration
	for i := range s.tries {
		s.until("all slots are held", giveUp, s.full)
		d, err := try(i)
		if err != nil {
			s.Errorf("%s: try %d of %d: %v", name, i+1, s.tries, err)
			return
		}
		took = append(took, d)
	}
	s.judge(name, took)
}

func (s *saturated) judge(name string, took []time.Duration) {
	s.Helper()
	bound := within()
	worst := slices.Max(took)
	s.Logf("%s: worst of %d %s, p50 %s", name, len(took), ms(worst), ms(harness.Percentile(took, 50)))
	if worst > bound {
		s.Errorf("%s: the worst of %d took %s, want at most %s", name, len(took), ms(worst), bound)
	}
}

// inputTimeouts gives each of the tasks that wait for an answer a deadline that is some seconds away, one after the other.
func (s *saturated) inputTimeouts() {
	s.Helper()
	const name = "inputTimeout that runs out"
	first := time.Now().Add(3 * time.Second)
	deadlines := map[string]time.Time{}
	for i := range s.tries {
		task := numbered("timeout", i)
		asked := s.askedAt(task)
		most := first.Add(time.Duration(i) * 100 * time.Millisecond).Sub(asked).Round(time.Millisecond)
		deadlines[task] = asked.Add(most)
		s.patch(task, fmt.Sprintf(`{"inputTimeout":%q}`, most))
	}
	if time.Now().After(first) {
		s.Fatalf("%s: the first deadline passed while the others were being set", name)
	}
	s.until("all slots are held", giveUp, s.full)
	var took []time.Duration
	_, err := s.see(time.Until(deadlines[numbered("timeout", s.tries-1)])+giveUp, s.tries, func(t sight) bool {
		ended := strings.HasPrefix(t.Name, "timeout-") && t.Status.ExitReason == v1alpha1.ExitInputTimeout
		if ended {
			took = append(took, time.Since(deadlines[t.Name]))
		}
		return ended
	})
	if err != nil {
		s.Errorf("%s: %v", name, err)
		return
	}
	if early := slices.Min(took); early < 0 {
		s.Errorf("%s: one ended %s before its deadline", name, -early)
	}
	s.judge(name, took)
}

// askedAt is when a task asked, to the instant: the status has whole seconds.
func (s *saturated) askedAt(name string) (at time.Time) {
	s.Helper()
	for _, e := range s.events(name) {
		if e.Asked != nil {
			at = e.Time
		}
	}
	return at
}
