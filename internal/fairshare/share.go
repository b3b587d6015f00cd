package fairshare

import (
	"container/heap"
	"container/list"
)

// namespace is one that has slots or waits.
type namespace[K comparable] struct {
	standing
	waiting int
	groups  map[string]*group[K]
	// ready are the groups that can be served, the next one first.
	ready queue[K]
	// at is its place in Slots.ready, while it is there.
	at int
}

// group is one model's part of a namespace that has slots or waits.
type group[K comparable] struct {
	standing
	id        Group
	namespace *namespace[K]
	model     *model[K]
	// claims wait, in the order in which they came, but first those up to lastFirst (nil for none).
	claims    list.List
	lastFirst *list.Element
	// at is its place in namespace.ready, -1 when it cannot be served.
	at int
}

// model is one that has a limit, slots, or keys that wait.
type model[K comparable] struct {
	name           string
	limit, running int
	groups         map[*group[K]]struct{}
}

func (m *model[K]) full() bool { return m.limit > 0 && m.running >= m.limit }

// standing decides who is next.
type standing struct {
	// used are the slots taken or held.
	used int
	// since is the turn at which it was last given a slot or began to wait, whichever was later.
	since uint64
}

func (a standing) before(b standing) bool {
	return a.used < b.used || a.used == b.used && a.since < b.since
}

// next is the group that a free slot goes to, nil if nobody who waits may have one.
func (s *Slots[K]) next() *group[K] {
	if s.used >= s.Limit() {
		return nil // without a look at each: this is how it stands while there are more namespaces than slots
	}
	var best *namespace[K]
	for _, ns := range s.ready {
		if (best == nil || ns.before(best.standing)) && s.mayHave(ns.ready[0]) {
			best = ns
		}
	}
	if best == nil {
		return nil
	}
	return best.ready[0]
}

// mayHave tells whether g may have one more slot. Of a namespace's groups, those with the fewest slots may first.
func (s *Slots[K]) mayHave(g *group[K]) bool {
	if s.used < s.size {
		return true
	}
	ns := g.namespace
	share, has, left := max(1, s.size/len(s.namespaces)), ns.used, s.Limit()-s.used
	if ns.used >= share {
		has, left = g.used, left-(s.overflow+1)/2
	}
	return has < left && g.used < max(1, share/len(ns.groups))
}

// ask makes key wait for a slot for id, after those who already do, or only after those that go first as well.
func (s *Slots[K]) ask(key K, id Group, first bool) *claim[K] {
	g := s.group(id)
	if g.claims.Len() == 0 {
		g.since = s.turn()
	}
	if g.namespace.waiting == 0 {
		g.namespace.since = s.turn()
	}
	c := &claim[K]{slots: s, key: key, group: g}
	switch {
	case !first:
		c.place = g.claims.PushBack(c)
	case g.lastFirst == nil:
		c.place = g.claims.PushFront(c)
		g.lastFirst = c.place
	default:
		c.place = g.claims.InsertAfter(c, g.lastFirst)
		g.lastFirst = c.place
	}
	g.namespace.waiting++
	s.claims[key] = c
	s.settle(g)
	return c
}

// hold holds a slot for the first who waits in g.
func (s *Slots[K]) hold(g *group[K]) K {
	c := g.claims.Front().Value.(*claim[K])
	s.dequeue(c)
	c.state, c.calls = held, true
	s.held++
	g.since, g.namespace.since = s.turn(), s.turn()
	s.use(g, 1)
	s.change(g.model, func() { g.model.running++ })
	return c.key
}

// end takes c out, whatever it has.
func (s *Slots[K]) end(c *claim[K]) {
	switch c.state {
	case waiting:
		s.dequeue(c)
	case held:
		s.held--
		fallthrough
	case taken:
		s.endCall(c)
		s.use(c.group, -1)
	case over:
	}
	c.state = over
	delete(s.claims, c.key)
	s.settle(c.group)
	s.drop(c.group)
}

// endCall gives the model's place back that c has, if it has one.
func (s *Slots[K]) endCall(c *claim[K]) {
	if c.calls {
		c.calls = false
		m := c.group.model
		s.change(m, func() { m.running-- })
	}
}

func (s *Slots[K]) dequeue(c *claim[K]) {
	if c.place == c.group.lastFirst {
		c.group.lastFirst = c.place.Prev() // which goes first as well
	}
	c.group.claims.Remove(c.place)
	c.group.namespace.waiting--
	c.place = nil
}

func (s *Slots[K]) use(g *group[K], n int) {
	s.used += n
	g.used += n
	g.namespace.used += n
	s.settle(g)
}

func (s *Slots[K]) turn() uint64 {
	s.turns++
	return s.turns
}

// change changes a model. If it is full now, or no longer, those who wait for it cannot be served, or can.
func (s *Slots[K]) change(m *model[K], f func()) {
	was := m.full()
	f()
	if m.full() != was {
		for g := range m.groups {
			s.settle(g)
		}
	}
}

// settle puts g where it belongs among those that can be served, after anything of it has changed.
func (s *Slots[K]) settle(g *group[K]) {
	ns, can := g.namespace, g.claims.Len() > 0 && !g.model.full()
	before := len(ns.ready)
	switch {
	case can && g.at < 0:
		heap.Push(&ns.ready, g)
	case can:
		heap.Fix(&ns.ready, g.at)
	case g.at >= 0:
		heap.Remove(&ns.ready, g.at)
	}
	switch now := len(ns.ready); {
	case before == 0 && now == 1:
		ns.at = len(s.ready)
		s.ready = append(s.ready, ns)
	case before == 1 && now == 0:
		last := len(s.ready) - 1
		s.ready[ns.at] = s.ready[last]
		s.ready[ns.at].at = ns.at
		s.ready[last] = nil
		s.ready = s.ready[:last]
	}
}

// group finds the group of id, or makes it.
func (s *Slots[K]) group(id Group) *group[K] {
	ns := s.namespaces[id.Namespace]
	if ns == nil {
		ns = &namespace[K]{groups: map[string]*group[K]{}}
		s.namespaces[id.Namespace] = ns
	}
	g := ns.groups[id.Model]
	if g == nil {
		g = &group[K]{id: id, namespace: ns, model: s.model(id.Model), at: -1}
		ns.groups[id.Model] = g
		g.model.groups[g] = struct{}{}
	}
	return g
}

// model finds a model, or makes it.
func (s *Slots[K]) model(name string) *model[K] {
	m := s.models[name]
	if m == nil {
		m = &model[K]{name: name, groups: map[*group[K]]struct{}{}}
		s.models[name] = m
	}
	return m
}

// drop lets go of g, its namespace and its model where nothing is left of them.
func (s *Slots[K]) drop(g *group[K]) {
	if g.used > 0 || g.claims.Len() > 0 {
		return
	}
	delete(g.namespace.groups, g.id.Model)
	if len(g.namespace.groups) == 0 {
		delete(s.namespaces, g.id.Namespace)
	}
	delete(g.model.groups, g)
	s.forget(g.model)
}

func (s *Slots[K]) forget(m *model[K]) {
	if m.limit <= 0 && len(m.groups) == 0 {
		delete(s.models, m.name)
	}
}

// queue is a heap of groups.
type queue[K comparable] []*group[K]

func (q queue[K]) Len() int           { return len(q) }
func (q queue[K]) Less(i, j int) bool { return q[i].before(q[j].standing) }
func (q queue[K]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

func (q *queue[K]) Push(x any) {
	g := x.(*group[K])
	g.at = len(*q)
	*q = append(*q, g)
}

func (q *queue[K]) Pop() any {
	last := len(*q) - 1
	g := (*q)[last]
	g.at = -1
	(*q)[last] = nil
	*q = (*q)[:last]
	return g
}
