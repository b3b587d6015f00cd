package fairshare_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
)

// Whatever is done in whatever order: who gets a slot and who is woken is what the rules say, no bound is passed, nobody who
// could have a slot waits beside a free one, nobody has two or is told twice of one, and nothing is kept after all have left.
func TestRandomOperations(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("first seed %d", seed)
	var operations, woken int
	for n := range uint64(400) {
		p := newPlayed(t, rand.New(rand.NewPCG(seed+n, 0)))
		for range 250 {
			p.step()
			operations++
			if t.Failed() {
				t.Fatalf("seed %d", seed+n)
			}
		}
		woken += p.told
		p.leave()
	}
	if woken < operations/20 {
		t.Errorf("of %d operations only %d woke somebody: they test little", operations, woken)
	}
}

// played does the same to the slots and to the oracle.
type played struct {
	t      *testing.T
	r      *rand.Rand
	slots  *fairshare.Slots[int]
	oracle *oracle
	groups []fairshare.Group
	keys   int
	// mine are all slots ever taken by a key, the last one still taken unless it was given back.
	mine  map[int][]*fairshare.Slot
	woken []int
	told  int
	last  string
}

func newPlayed(t *testing.T, r *rand.Rand) *played {
	p := &played{t: t, r: r, oracle: newOracle(1 + r.IntN(20)), keys: 5 + r.IntN(40), mine: map[int][]*fairshare.Slot{}}
	p.slots = fairshare.New(p.oracle.size, func(key int) { p.woken = append(p.woken, key) })
	for namespace := range 1 + r.IntN(5) {
		for model := range 1 + r.IntN(4) {
			p.groups = append(p.groups, fairshare.Group{Namespace: fmt.Sprint("ns", namespace), Model: fmt.Sprint("m", model)})
		}
	}
	return p
}

func (p *played) step() {
	p.woken, p.oracle.woken = nil, nil
	key := p.r.IntN(p.keys)
	c := p.oracle.claim(key)
	switch n := p.r.IntN(100); {
	case n < 50:
		g := p.groups[p.r.IntN(len(p.groups))]
		if c != nil && c.state != "taken" && p.r.IntN(10) > 0 {
			g = c.group // most ask again for what they wait for
		}
		p.last = fmt.Sprintf("Take(%d, %v)", key, g)
		slot, want := p.slots.Take(key, g), p.oracle.take(key, g)
		if (slot != nil) != want {
			p.t.Errorf("%s: a slot %v, want %v", p.last, slot != nil, want)
		}
		if slot != nil {
			p.mine[key] = append(p.mine[key], slot)
		}
	case n < 60:
		p.last = fmt.Sprintf("Leave(%d)", key)
		p.slots.Leave(key)
		p.oracle.leave(key)
	case n < 65:
		model, limit := fmt.Sprint("m", p.r.IntN(4)), p.r.IntN(7)-1
		p.last = fmt.Sprintf("SetModelLimit(%s, %d)", model, limit)
		p.slots.SetModelLimit(model, limit)
		p.oracle.limits[model] = limit
		p.oracle.give(-1)
	default:
		p.endOne(n < 80)
	}
	p.check()
}

// endOne ends a call, or only its model's part, of a slot that is taken or, now and then, was given back before.
func (p *played) endOne(modelOnly bool) {
	key := p.r.IntN(p.keys)
	slots := p.mine[key]
	if len(slots) == 0 {
		p.last = "nothing"
		return
	}
	i := len(slots) - 1
	if p.r.IntN(5) == 0 {
		i = p.r.IntN(len(slots))
	}
	c := p.oracle.claim(key)
	current := c != nil && c.state == "taken" && i == len(slots)-1
	p.last = fmt.Sprintf("end of slot %d of %d of key %d, its model's alone: %v", i+1, len(slots), key, modelOnly)
	if modelOnly {
		slots[i].ModelDone()
	} else {
		slots[i].Release()
	}
	switch {
	case current && modelOnly:
		c.calls = false
	case current:
		p.oracle.end(c)
	}
	p.oracle.give(-1)
}

func (p *played) check() {
	p.t.Helper()
	o := p.oracle
	p.told += len(p.woken)
	if !slices.Equal(p.woken, o.woken) {
		p.t.Errorf("%s: woken %v, want %v", p.last, p.woken, o.woken)
	}
	want := fairshare.Stats{Waiting: map[string]int{}}
	for _, c := range o.claims {
		switch c.state {
		case "waits":
			want.Waiting[c.group.Namespace]++
			if o.fits(c) {
				p.t.Errorf("%s: %d waits beside a slot that it could have", p.last, c.key)
			}
		case "held":
			want.Held++
		case "taken":
			want.Running++
		}
		if got := p.slots.Waiting(c.key); got != (c.state == "waits") {
			p.t.Errorf("%s: %d waits: %v, but it %s", p.last, c.key, got, c.state)
		}
	}
	got := p.slots.Stats()
	if !reflect.DeepEqual(got, want) {
		p.t.Errorf("%s: %+v, want %+v", p.last, got, want)
	}
	if got.Running+got.Held > p.slots.Limit() {
		p.t.Errorf("%s: %d slots are in use, of %d", p.last, got.Running+got.Held, p.slots.Limit())
	}
}

func (p *played) leave() {
	p.t.Helper()
	for key := range p.keys {
		p.slots.Leave(key)
		for _, slot := range p.mine[key] {
			slot.Release()
		}
	}
	for key := range p.keys { // those who were woken meanwhile
		p.slots.Leave(key)
	}
	for model := range p.oracle.limits {
		p.slots.SetModelLimit(model, -p.r.IntN(2))
	}
	if left := p.slots.Left(); left != 0 {
		p.t.Errorf("%d things are kept after everybody has left", left)
	}
}

// Keys that ask, wait to be woken, call and give up at the same time all get through: a wake-up that is lost would hang this.
func TestKeysInParallel(t *testing.T) {
	const keys, calls, modelLimit = 60, 100, 2
	wake := make([]chan struct{}, keys)
	for key := range wake {
		wake[key] = make(chan struct{}, 1)
	}
	s := fairshare.New(8, func(key int) {
		select {
		case wake[key] <- struct{}{}:
		default: // it has yet to look since the last time
		}
	})
	s.SetModelLimit("m0", modelLimit)
	var all, limited atomic.Int32
	var wg sync.WaitGroup
	for key := range keys {
		r := rand.New(rand.NewPCG(uint64(key), 0))
		g := fairshare.Group{Namespace: fmt.Sprint(key % 4), Model: fmt.Sprint("m", key%3)}
		wg.Go(func() {
			for range calls {
				slot := s.Take(key, g)
				for slot == nil {
					if r.IntN(10) == 0 {
						s.Leave(key)
					} else {
						<-wake[key]
					}
					slot = s.Take(key, g)
				}
				if n := int(all.Add(1)); n > s.Limit() {
					t.Errorf("%d calls at once", n)
				}
				if g.Model == "m0" {
					if n := limited.Add(1); n > modelLimit {
						t.Errorf("%d calls of the model at once", n)
					}
					runtime.Gosched()
					limited.Add(-1)
				}
				slot.ModelDone()
				runtime.Gosched()
				all.Add(-1)
				slot.Release()
			}
		})
	}
	wg.Wait()
	s.SetModelLimit("m0", 0)
	if left := s.Left(); left != 0 {
		t.Errorf("%d things are kept after everybody has left", left)
	}
}
