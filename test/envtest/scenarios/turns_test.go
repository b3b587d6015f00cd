package scenarios

import (
	"fmt"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// turn plays one step of the scenario. After a reply the operator is held at its append, with all calls of the reply run:
// what happens between two replies happens there.
func (p *player) turn(i int) {
	p.Helper()
	t := &p.sc.Turns[i]
	var following *looptest.Turn
	if i+1 < len(p.sc.Turns) {
		following = &p.sc.Turns[i+1]
	}
	leaves := following != nil && (following.Operator != "" ||
		following.Time != 0 && i+2 < len(p.sc.Turns) && p.sc.Turns[i+2].Operator != "")
	if _, purpose := t.Scripted(); purpose != "" {
		for n := max(1, t.Times); n > 0; n-- {
			p.reply(t, purpose, leaves && n == 1)
		}
		return
	}
	switch {
	case t.User != nil:
		p.user(t.User, leaves)
	case t.Early != nil: // while the operator is held between the question's append and the status that tells of it
		p.patch(t.Early)
	case t.Tools != nil:
		p.offer(t.Tools)
	case t.Time != 0 && leaves: // the operator sees nothing of it
		p.start()
		p.leave(following.Operator)
		p.away = true
		p.clock.Add(t.Time)
	case t.Time != 0:
		p.pass(t)
	case t.Operator != "" && !p.away:
		p.start()
		p.leave(t.Operator)
	case t.Operator != "":
		p.away = false
	case t.Expect != nil:
		if !leaves {
			p.start()
		}
		p.release()
		p.expect(fmt.Sprintf("turn %d", i+1), t.Expect, false)
	}
}

// reply goes on until the model is asked, and answers.
func (p *player) reply(t *looptest.Turn, purpose loop.Purpose, leaves bool) {
	p.Helper()
	p.start()
	p.retry()
	p.release()
	p.until("a "+string(purpose)+" request", func() bool { return p.pending != nil || p.task().Finished() })
	if p.pending == nil {
		p.Fatalf("a reply for %s is never asked for: the task is %s", purpose, p.describe())
	}
	request := p.pending
	p.pending = nil
	p.look(request, t, purpose)
	p.modelCalls++
	if len(t.Calls) > 0 {
		p.kit.script(t.Calls)
	}
	if p.clock != nil {
		p.clock.Add(t.Takes)
	}
	if t.Interrupt != "" {
		p.interrupt(request, t)
		return
	}
	if t.Meanwhile != nil {
		p.patch(t.Meanwhile)
	}
	if t.Crash {
		p.leave("crashes")
		return
	}
	p.arm()
	request.reply <- p.wireReply(t)
	p.settle(leaves)
}

// retry lets the time pass that the loop waits before it tries a failed call again.
func (p *player) retry() {
	p.Helper()
	if p.clock == nil || p.pending != nil {
		return
	}
	a, retry := p.next()
	if !retry {
		return
	}
	p.clock.Add(a.Until.Sub(p.clock.Now()))
	if p.held == nil {
		p.wake()
	}
}

// settle waits until the operator is held with the calls of the reply run, or before them when it is about to end.
func (p *player) settle(leaves bool) {
	p.Helper()
	for {
		p.until("the reply to be in the journal", func() bool { return p.held != nil })
		a, _ := p.next()
		if a.Kind != loop.ActionRunTools || leaves {
			return
		}
		h := p.held
		p.held = nil
		p.arm()
		h.goOn()
	}
}

// interrupt breaks the call off once the operator has read what streamed of its reply.
func (p *player) interrupt(request *asked, t *looptest.Turn) {
	p.Helper()
	read := make(chan struct{})
	reply := p.wireReply(t)
	reply.Stay = func() { close(read) }
	if t.Interrupt != "shuttingDown" {
		p.arm()
	}
	request.reply <- reply
	p.within("the text to be read", read)
	if t.Interrupt == "shuttingDown" {
		p.leave("restarts")
		return
	}
	p.patch(t.Meanwhile)
	p.settle(false)
}

// user changes the spec. While the loop would go on by itself, the change is made where the operator is held; where it
// rests, the operator is awaited to have taken notice, or, when it is about to end, to have kept what it made of it.
func (p *player) user(changes map[string]any, leaves bool) {
	p.Helper()
	p.start()
	if p.held != nil && !p.rests() {
		p.patch(changes)
		if a, retry := p.next(); a.Kind == loop.ActionCallModel || retry {
			return // it does not mind: held until whatever else happens before the next reply
		}
		p.release()
		p.observed()
		return
	}
	p.release()
	if open := p.state().Question; open != nil { // nobody answers what is not shown yet
		p.until("the question", func() bool { return deref(p.task().Status.InputRequest).ID == open.ID })
	}
	if leaves {
		p.arm()
	}
	p.patch(changes)
	p.observed()
}

// rests tells whether the loop waits for somebody, or has ended.
func (p *player) rests() bool {
	p.Helper()
	a, retry := p.next()
	return (a.Kind == loop.ActionWait || a.Kind == loop.ActionDone) && !retry
}

// observed waits until the operator has taken notice of the spec: it says so, or is on to what follows from it.
func (p *player) observed() {
	p.Helper()
	p.until("the operator to observe the spec", func() bool {
		return p.held != nil || p.pending != nil || p.task().Status.ObservedGeneration >= p.generation
	})
}

// pass lets time pass. Where the loop rests, or waits to try again, the operator is woken: its own timers go by the real time.
func (p *player) pass(t *looptest.Turn) {
	p.Helper()
	p.start()
	if p.held != nil && !p.rests() {
		p.clock.Add(t.Time)
		return
	}
	p.release()
	p.clock.Add(t.Time)
	p.wake()
	p.observed()
}
