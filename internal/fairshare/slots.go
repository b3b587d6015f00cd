package fairshare

import (
	"container/list"
	"slices"
	"sync"
)

// Group is what a key wants a slot for.
type Group struct {
	// Namespace of the task that calls.
	Namespace string
	// Model is the namespace/name of the AgentModel that is called, which may be another namespace's. Empty for calls of tools alone.
	Model string
}

// Slots shares its slots between keys. Make it with New. All methods may be called by several goroutines at once.
type Slots[K comparable] struct {
	size, overflow int
	wake           func(K)

	mu sync.Mutex
	// used are the slots taken or held, held those that await their key.
	used, held int
	turns      uint64
	claims     map[K]*claim[K]
	namespaces map[string]*namespace[K]
	models     map[string]*model[K]
	// ready are the namespaces with a key that can be served.
	ready []*namespace[K]
}

// New makes slots: size of them, less than 1 being 1, and the overflow. wake tells a key that a slot is held for it. It must
// not block, and may call back.
func New[K comparable](size int, wake func(K)) *Slots[K] {
	size = max(size, 1)
	return &Slots[K]{
		size: size, overflow: max(2, size/4), wake: wake,
		claims: map[K]*claim[K]{}, namespaces: map[string]*namespace[K]{}, models: map[string]*model[K]{},
	}
}

// Limit is the most slots that are ever taken at once: the size and the overflow.
func (s *Slots[K]) Limit() int { return s.size + s.overflow }

// Take gives key a slot for g, or returns nil and notes that key waits for one. Who waits keeps its place however often it
// asks; asking for another group moves it to the end of that one. The slot that key was woken for is what it gets.
func (s *Slots[K]) Take(key K, g Group) *Slot { return s.take(key, g, false) }

// TakeFirst is Take for a key that somebody waits for: it goes before those of its group that do not go first.
func (s *Slots[K]) TakeFirst(key K, g Group) *Slot { return s.take(key, g, true) }

func (s *Slots[K]) take(key K, g Group, first bool) *Slot {
	s.mu.Lock()
	c := s.claims[key]
	if c != nil && (c.state == taken || c.group.id != g) {
		s.end(c)
		c = nil
	}
	if c == nil {
		c = s.ask(key, g, first)
	}
	woken := s.give()
	var slot *Slot
	if c.state == held {
		c.state, slot = taken, &Slot{c}
		s.held--
		woken = slices.DeleteFunc(woken, func(k K) bool { return k == key })
	}
	s.mu.Unlock()
	s.tell(woken)
	return slot
}

// Leave ends the wait of key. A slot that is held for it goes to the next. A slot that it took it keeps: that one needs Release.
func (s *Slots[K]) Leave(key K) {
	s.mu.Lock()
	c := s.claims[key]
	if c == nil || c.state == taken {
		s.mu.Unlock()
		return
	}
	s.end(c)
	s.giveAndUnlock()
}

// Waiting tells whether key waits for a slot. One that is woken waits no longer.
func (s *Slots[K]) Waiting(key K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[key]
	return c != nil && c.state == waiting
}

// ModelFull tells whether as many slots call a model as its limit allows.
func (s *Slots[K]) ModelFull(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models[name]
	return m != nil && m.full()
}

// SetModelLimit bounds the slots that call a model, over all namespaces, to n at once; 0 is no bound. What runs goes on. A
// limit is kept until it is set to 0.
func (s *Slots[K]) SetModelLimit(name string, n int) {
	s.mu.Lock()
	m := s.model(name)
	s.change(m, func() { m.limit = n })
	s.forget(m)
	s.giveAndUnlock()
}

// Stats is how the slots stand.
type Stats struct {
	// Running slots are taken. Held ones await the key that was woken.
	Running, Held int
	// Waiting keys by namespace.
	Waiting map[string]int
}

// Stats tells how the slots stand.
func (s *Slots[K]) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Stats{Running: s.used - s.held, Held: s.held, Waiting: map[string]int{}}
	for name, ns := range s.namespaces {
		if ns.waiting > 0 {
			out.Waiting[name] = ns.waiting
		}
	}
	return out
}

// Slot is one that was taken. Its methods may be called more than once, and by any goroutine.
type Slot struct {
	claim interface {
		modelDone()
		release()
	}
}

// ModelDone tells that the call of the model is over, though tools may still run: its place is free for another.
func (sl *Slot) ModelDone() { sl.claim.modelDone() }

// Release gives the slot back.
func (sl *Slot) Release() { sl.claim.release() }

// claim is one key's wait for a slot, and then its slot.
type claim[K comparable] struct {
	slots *Slots[K]
	key   K
	group *group[K]
	state state
	// place is where it stands in the group's queue, while it waits.
	place *list.Element
	// calls: it counts against the model's limit.
	calls bool
}

type state int

const (
	waiting state = iota
	held
	taken
	over
)

func (c *claim[K]) modelDone() {
	c.slots.mu.Lock()
	c.slots.endCall(c)
	c.slots.giveAndUnlock()
}

func (c *claim[K]) release() {
	c.slots.mu.Lock()
	if c.state != over {
		c.slots.end(c)
	}
	c.slots.giveAndUnlock()
}

// give gives what is free to those who wait, and returns whom.
func (s *Slots[K]) give() (woken []K) {
	for g := s.next(); g != nil; g = s.next() {
		woken = append(woken, s.hold(g))
	}
	return woken
}

func (s *Slots[K]) giveAndUnlock() {
	woken := s.give()
	s.mu.Unlock()
	s.tell(woken)
}

func (s *Slots[K]) tell(woken []K) {
	for _, key := range woken {
		s.wake(key)
	}
}
