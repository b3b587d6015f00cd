package mcp

import (
	"context"
	"errors"
	"time"
)

const (
	// maxBodyBytes is the largest response, or server-sent event, that is read at all.
	maxBodyBytes = 16 << 20
	// maxSmallBytes is how much of an answer is read without a place. It is the most that a model may be shown of one, and
	// more than most have. What is no answer to a call may not be larger.
	maxSmallBytes = 256 << 10
	// largePlaces bounds how many answers between these two are held at once: until it has become a result, one takes some six
	// times its size.
	largePlaces = 2
	// largeTime is how long an answer may have a place, so that a slow server does not keep those of others waiting.
	largeTime = 30 * time.Second
)

var errSlowBody = errors.New("a large answer comes too slowly")

// places are those for large answers, of all sessions together. The others wait meanwhile, each in its own call's time.
type places struct {
	taken chan struct{}
	time  time.Duration
}

func newPlaces() *places { return &places{taken: make(chan struct{}, largePlaces), time: largeTime} }

// claim gets the exchange a place, unless it has one. The exchange's end gives it back. When the time is up before the
// answer is there, abort is called.
func (p *places) claim(ctx context.Context, ex *exchange, abort func()) error {
	has, over := true, true
	ex.set(func(ex *exchange) { has, over = ex.room != nil, ex.over })
	if over {
		return errSlowBody
	}
	if has {
		return nil
	}
	select {
	case p.taken <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	held, room := context.WithTimeout(context.Background(), p.time)
	context.AfterFunc(held, func() {
		<-p.taken
		if errors.Is(held.Err(), context.DeadlineExceeded) && ex.late() {
			abort()
		}
	})
	ex.hold(room)
	return nil
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
