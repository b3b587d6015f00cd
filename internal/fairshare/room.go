package fairshare

import (
	"container/list"
	"slices"
)

// Room shares memory between keys that wait for it. Like Slots it never blocks, but each key wants an amount of its own, by the rules
// of Bytes. What becomes free goes to the namespace that has the least of those whose first key fits, and within it to who came first.
// Make it with NewRoom. All methods may be called by several goroutines at once.
type Room[K comparable] struct {
	bytes  *Bytes
	wake   func(K)
	claims map[K]*want
	// queues are the namespaces with keys that wait.
	queues map[string]*list.List
}

// want is what a key wants or has.
type want struct {
	namespace string
	bytes     int64
	place     *list.Element // nil once it has it
}

// NewRoom makes a room of so many bytes. wake tells a key that what it wants is held for it. It must not block, and may call back.
func NewRoom[K comparable](size int64, wake func(K)) *Room[K] {
	return &Room[K]{bytes: NewBytes(size), wake: wake, claims: map[K]*want{}, queues: map[string]*list.List{}}
}

// Take gives key so many bytes, all in all, or returns false and notes that it waits for them. What it has it keeps if it is enough;
// otherwise it gives it back, and waits at the end. Whoever calls Take calls Leave in the end.
func (r *Room[K]) Take(key K, namespace string, bytes int64) bool {
	r.bytes.mu.Lock()
	c := r.claims[key]
	if c != nil && (c.namespace != namespace || c.bytes < bytes) {
		r.end(key, c)
		c = nil
	}
	if c == nil {
		c = &want{namespace: namespace, bytes: bytes}
		if r.queues[namespace] == nil {
			r.queues[namespace] = list.New()
		}
		c.place = r.queues[namespace].PushBack(key)
		r.claims[key] = c
	}
	woken := slices.DeleteFunc(r.give(), func(k K) bool { return k == key })
	has := c.place == nil
	r.bytes.mu.Unlock()
	r.tell(woken)
	return has
}

// Leave gives back what key has, and ends its wait.
func (r *Room[K]) Leave(key K) {
	r.bytes.mu.Lock()
	if c := r.claims[key]; c != nil {
		r.end(key, c)
	}
	woken := r.give()
	r.bytes.mu.Unlock()
	r.tell(woken)
}

// Used is what is taken or held, in bytes.
func (r *Room[K]) Used() int64 { return r.bytes.Used() }

// end takes a key out. The caller holds the lock.
func (r *Room[K]) end(key K, c *want) {
	delete(r.claims, key)
	if c.place == nil {
		r.bytes.add(c.namespace, -c.bytes)
		return
	}
	r.dequeue(c)
}

func (r *Room[K]) dequeue(c *want) {
	queue := r.queues[c.namespace]
	queue.Remove(c.place)
	c.place = nil
	if queue.Len() == 0 {
		delete(r.queues, c.namespace)
	}
}

// give gives what is free to those who wait, and tells whom.
func (r *Room[K]) give() (woken []K) {
	for {
		var best *want
		var next K
		for _, queue := range r.queues {
			key := queue.Front().Value.(K)
			c := r.claims[key]
			if r.bytes.fits(c.namespace, c.bytes) && (best == nil || r.before(c, best)) {
				best, next = c, key
			}
		}
		if best == nil {
			return woken
		}
		r.dequeue(best)
		r.bytes.add(best.namespace, best.bytes)
		woken = append(woken, next)
	}
}

func (r *Room[K]) before(a, b *want) bool {
	x, y := r.bytes.holds[a.namespace], r.bytes.holds[b.namespace]
	return x < y || x == y && a.namespace < b.namespace
}

func (r *Room[K]) tell(woken []K) {
	for _, key := range woken {
		r.wake(key)
	}
}
