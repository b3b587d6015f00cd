package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
)

const (
	// maxBodyBytes is the largest response, or server-sent event, that is read at all.
	maxBodyBytes = 16 << 20
	// maxSmallBytes is how much of an answer is read without a place. It is the most that a model may be shown of one, and
	// more than most have. What is no answer to a call may not be larger.
	maxSmallBytes = 256 << 10
	// largePlaces bounds how many answers between these two are held at once, and two more for namespaces that have none: until
	// it has become a result, one takes some six times its size.
	largePlaces = 1
	// largeTime is how long an answer may have a place, so that a slow server does not keep those of others waiting.
	largeTime = 30 * time.Second
	// listRest is how many times as long as a list took its place stays taken after it, up to maxListRest.
	listRest    = 9
	maxListRest = 5 * time.Second
)

var errSlowBody = errors.New("a large answer comes too slowly")

// places are those for large answers, of all sessions together. Namespaces share them (package fairshare); whoever gets none waits, in
// its own call's time.
type places struct {
	slots *fairshare.Slots[*exchange]
	time  time.Duration
	// rest is how many times as long as a list took its place stays taken after it.
	rest time.Duration

	mu      sync.Mutex
	waiting map[*exchange]chan struct{}
}

func newPlaces(n int) *places {
	p := &places{time: largeTime, rest: listRest, waiting: map[*exchange]chan struct{}{}}
	p.slots = fairshare.New(n, p.wake)
	return p
}

func (p *places) wake(ex *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if woken := p.waiting[ex]; woken != nil {
		close(woken)
		delete(p.waiting, ex)
	}
}

// take waits for a place.
func (p *places) take(ctx context.Context, namespace string, ex *exchange) (*fairshare.Slot, error) {
	for {
		woken := make(chan struct{})
		p.mu.Lock()
		p.waiting[ex] = woken
		p.mu.Unlock()
		slot := p.slots.Take(ex, fairshare.Group{Namespace: namespace})
		if slot == nil {
			select {
			case <-woken:
				continue
			case <-ctx.Done():
				p.slots.Leave(ex)
			}
		}
		p.mu.Lock()
		delete(p.waiting, ex)
		p.mu.Unlock()
		return slot, ctx.Err()
	}
}

// claim gets the exchange a place, unless it has one. The exchange's end gives it back. When the time is up before the
// answer is there, abort is called.
func (p *places) claim(ctx context.Context, namespace string, ex *exchange, abort func()) error {
	has, over := true, true
	ex.set(func(ex *exchange) { has, over = ex.room != nil, ex.over })
	if over {
		return errSlowBody
	}
	if has {
		return nil
	}
	slot, err := p.take(ctx, namespace, ex)
	if slot == nil {
		return err
	}
	began := time.Now()
	held, room := context.WithTimeout(context.Background(), p.time)
	context.AfterFunc(held, func() {
		time.AfterFunc(p.restAfter(ex, time.Since(began)), slot.Release)
		if errors.Is(held.Err(), context.DeadlineExceeded) && ex.late() {
			abort()
		}
	})
	ex.hold(room)
	return nil
}

// restAfter is how long the place of an answer is kept after it, which took so long to read and decode. Many toolsets with large lists
// would else take a processor for themselves.
func (p *places) restAfter(ex *exchange, took time.Duration) (rest time.Duration) {
	ex.set(func(ex *exchange) {
		if ex.most > 0 {
			rest = min(p.rest*took, maxListRest)
		}
	})
	return rest
}

// hold keeps a place for the answer, until the exchange ends.
func (ex *exchange) hold(room context.CancelFunc) {
	ex.set(func(ex *exchange) {
		switch {
		case room == nil:
		case ex.over || ex.room != nil:
			room()
		default:
			ex.room = room
		}
	})
}

// vacate takes the place out, nil when there is none.
func (ex *exchange) vacate() (room context.CancelFunc) {
	ex.set(func(ex *exchange) { room, ex.room = ex.room, nil })
	return room
}

// end gives the place back for good. Whoever makes an exchange ends it when nothing of the answer is held any more.
func (ex *exchange) end() {
	ex.set(func(ex *exchange) { ex.over = true })
	if room := ex.vacate(); room != nil {
		room()
	}
}

// late notes that a place's time is up. It tells whether the answer was not there yet.
func (ex *exchange) late() (late bool) {
	ex.set(func(ex *exchange) {
		if late = !ex.answered && !ex.over; late {
			ex.over, ex.err = true, errSlowBody
		}
	})
	return late
}
