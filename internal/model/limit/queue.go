package limit

import (
	"fmt"
	"slices"
	"time"
)

const (
	// maxWait bounds what a Wait says.
	maxWait = time.Hour
	// grace is how late somebody may come and still find its turn. Then the turn goes on to the next ones, and its place
	// before them is kept for as long as keep.
	grace = 2 * time.Second
	keep  = 10 * time.Minute
	// slack is by how much a turn must come earlier than was told to be worth a call of OnTurn.
	slack = 100 * time.Millisecond
)

// Wait says when to call Take again.
type Wait struct {
	// After is when the turn comes: exactly then, if those before come at theirs and use what they said. It is at most an
	// hour, and grows with the number of those before, so that they do not all come at once.
	After time.Duration
	// Detail is one clause for people. It does not change while time passes.
	Detail string
}

// place is where somebody waits.
type place struct {
	key    string
	tokens int64
	// due is when it was told to come.
	due time.Time
}

func (p *place) late(now time.Time) bool { return now.After(p.due.Add(grace)) }

// demand is what those before somebody will take.
type demand struct{ requests, tokens float64 }

func (d *demand) add(tokens float64) { d.requests++; d.tokens += tokens }

// Take takes a ticket for one call of about so many tokens, input and output. Where the call has to wait, nothing is taken,
// and the key has a place behind those that came before it. It keeps that place when it asks again, however early; it holds
// up nobody once it is two seconds late; and it loses it ten minutes after its turn, or by Leave. Calls of different tasks need
// different keys. Behind 10,000 others, Take costs about 0.25 ms.
func (l *Limiter) Take(key string, tokens int64) (ticket *Ticket, wait *Wait) {
	l.update(func(now time.Time) {
		l.expire(now)
		at, before := l.before(key, now)
		after, why := l.after(now, before)
		if after == 0 {
			l.leave(key)
			l.requests.take(now, 1)
			ticket = &Ticket{limiter: l, tokens: int64(l.tokens.booked(tokens))}
			l.tokens.take(now, ticket.tokens)
			return
		}
		if at == len(l.queue) {
			l.queue = append(l.queue, &place{key: key})
		}
		l.queue[at].tokens, l.queue[at].due = tokens, now.Add(after)
		wait = &Wait{After: after, Detail: why}
	})
	return ticket, wait
}

// Leave gives up the place of a key that will not ask again, if it has one.
func (l *Limiter) Leave(key string) {
	l.update(func(time.Time) { l.leave(key) })
}

// Waiting is how many keys wait.
func (l *Limiter) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(l.clock())
	return len(l.queue)
}

func (l *Limiter) leave(key string) {
	l.queue = slices.DeleteFunc(l.queue, func(p *place) bool { return p.key == key })
}

func (l *Limiter) expire(now time.Time) {
	l.queue = slices.DeleteFunc(l.queue, func(p *place) bool { return now.After(p.due.Add(keep)) })
}

// before is the index of a key's place, which may be the next free one, and what those before it will take.
func (l *Limiter) before(key string, now time.Time) (int, demand) {
	var d demand
	for i, p := range l.queue {
		if p.key == key {
			return i, d
		}
		if !p.late(now) {
			d.add(l.tokens.booked(p.tokens))
		}
	}
	return len(l.queue), d
}

// after is how long a call has to wait behind others, and why.
func (l *Limiter) after(now time.Time, before demand) (time.Duration, string) {
	var pause time.Duration
	var why string
	if l.pausedUntil.After(now) {
		pause, why = l.pausedUntil.Sub(now), "the provider asked to be left alone for a while"
	}
	start, longest := now.Add(pause), time.Duration(0)
	if d := l.requests.until(start, before.requests); d > longest {
		longest, why = d, fmt.Sprintf("the model's requestsPerMinute (%d) are used up", l.limits.RequestsPerMinute)
	}
	if d := l.tokens.until(start, before.tokens); d > longest {
		longest, why = d, fmt.Sprintf("the model's tokensPerMinute (%d) are used up", l.limits.TokensPerMinute)
	}
	return min(pause+longest, maxWait), why
}

// sooner are the keys whose turn comes earlier than they were told: those whose turn is now, and the next one. So whoever is
// next knows its turn exactly, and no turn is lost.
func (l *Limiter) sooner(now time.Time) (keys []string) {
	if l.OnTurn == nil {
		return nil
	}
	var before demand
	for _, p := range l.queue {
		if p.late(now) {
			continue
		}
		after, _ := l.after(now, before)
		if turn := now.Add(after); turn.Add(slack).Before(p.due) {
			p.due = turn
			keys = append(keys, p.key)
		}
		if after > 0 {
			return keys
		}
		before.add(l.tokens.booked(p.tokens))
	}
	return keys
}
