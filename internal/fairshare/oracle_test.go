package fairshare_test

import (
	"cmp"
	"slices"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
)

// oracle says by the rules, as simply as they can be written, what must become of every operation. It counts anew each time.
type oracle struct {
	size, overflow int
	// claims in the order in which they came.
	claims []*claimed
	limits map[string]int
	turns  int
	// since is when a namespace or group was last given a slot or began to wait, by namespace and by Group.
	since map[any]int
	woken []int
}

type claimed struct {
	key   int
	group fairshare.Group
	state string // waits, held, taken
	calls bool
}

func newOracle(size int) *oracle {
	return &oracle{size: size, overflow: max(2, size/4), limits: map[string]int{}, since: map[any]int{}}
}

func (o *oracle) count(is func(*claimed) bool) (n int) {
	for _, c := range o.claims {
		if is(c) {
			n++
		}
	}
	return n
}

func (o *oracle) used(namespace string) int {
	return o.count(func(c *claimed) bool { return c.state != "waits" && c.group.Namespace == namespace })
}

func (o *oracle) usedBy(g fairshare.Group) int {
	return o.count(func(c *claimed) bool { return c.state != "waits" && c.group == g })
}

func (o *oracle) calls(model string) int {
	return o.count(func(c *claimed) bool { return c.calls && c.group.Model == model })
}

func (o *oracle) total() int { return o.count(func(c *claimed) bool { return c.state != "waits" }) }

func (o *oracle) claim(key int) *claimed {
	for _, c := range o.claims {
		if c.key == key {
			return c
		}
	}
	return nil
}

// fits tells whether one who waits may have a slot now.
func (o *oracle) fits(c *claimed) bool {
	if limit := o.limits[c.group.Model]; limit > 0 && o.calls(c.group.Model) >= limit {
		return false
	}
	if o.total() < o.size {
		return true
	}
	namespaces, models := map[string]bool{}, map[string]bool{}
	for _, other := range o.claims {
		namespaces[other.group.Namespace] = true
		if other.group.Namespace == c.group.Namespace {
			models[other.group.Model] = true
		}
	}
	share := max(1, o.size/len(namespaces))
	if o.usedBy(c.group) >= max(1, share/len(models)) {
		return false
	}
	if o.used(c.group.Namespace) < share {
		return o.used(c.group.Namespace) < o.size+o.overflow-o.total()
	}
	return o.usedBy(c.group) < o.size+max(1, o.overflow/2)-o.total()
}

// best is who is next, nil for nobody.
func (o *oracle) best() *claimed {
	var fit []*claimed
	for _, c := range o.claims {
		if c.state == "waits" && o.fits(c) {
			fit = append(fit, c)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return slices.MinFunc(fit, func(a, b *claimed) int { // the first of equals: who came first
		return cmp.Or(
			cmp.Compare(o.used(a.group.Namespace), o.used(b.group.Namespace)),
			cmp.Compare(o.since[a.group.Namespace], o.since[b.group.Namespace]),
			cmp.Compare(o.usedBy(a.group), o.usedBy(b.group)),
			cmp.Compare(o.since[a.group], o.since[b.group]))
	})
}

func (o *oracle) give(asking int) {
	for c := o.best(); c != nil; c = o.best() {
		c.state, c.calls = "held", true
		o.turns++
		o.since[c.group], o.since[c.group.Namespace] = o.turns, o.turns
		if c.key != asking {
			o.woken = append(o.woken, c.key)
		}
	}
}

func (o *oracle) end(c *claimed) {
	o.claims = slices.DeleteFunc(o.claims, func(other *claimed) bool { return other == c })
}

func (o *oracle) take(key int, g fairshare.Group) bool {
	c := o.claim(key)
	if c != nil && (c.state == "taken" || c.group != g) {
		o.end(c)
		c = nil
	}
	if c == nil {
		c = &claimed{key: key, group: g, state: "waits"}
		o.turns++
		if o.count(func(c *claimed) bool { return c.state == "waits" && c.group == g }) == 0 {
			o.since[g] = o.turns
		}
		if o.count(func(c *claimed) bool { return c.state == "waits" && c.group.Namespace == g.Namespace }) == 0 {
			o.since[g.Namespace] = o.turns
		}
		o.claims = append(o.claims, c)
	}
	o.give(key)
	if c.state == "held" {
		c.state = "taken"
	}
	return c.state == "taken"
}

func (o *oracle) leave(key int) {
	if c := o.claim(key); c != nil && c.state != "taken" {
		o.end(c)
	}
	o.give(-1)
}
