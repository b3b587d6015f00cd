package fairshare

import "sync"

// Bytes is an amount of memory that namespaces share. It never waits: what does not fit is refused.
//
// A namespace may have most of it while nobody else wants it. The last quarter is for those that have less than an eighth each, so
// what one or two namespaces hold for long leaves some to the next.
type Bytes struct {
	mu    sync.Mutex
	size  int64
	used  int64
	holds map[string]int64
}

// NewBytes makes an amount of so many bytes.
func NewBytes(size int64) *Bytes { return &Bytes{size: size, holds: map[string]int64{}} }

// Take takes n bytes for a namespace, if it may have them. All of it is free, so even more than that is given to who comes first.
func (b *Bytes) Take(namespace string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > 0 && !b.fits(namespace, n) {
		return false
	}
	b.add(namespace, n)
	return true
}

// Give gives n bytes back.
func (b *Bytes) Give(namespace string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(namespace, -n)
}

// Used is what is taken, by all namespaces.
func (b *Bytes) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

func (b *Bytes) fits(namespace string, n int64) bool {
	switch left := b.size - b.used - n; {
	case b.used == 0, left >= b.size/4:
		return true
	default:
		return left >= 0 && b.holds[namespace]+n <= b.size/8
	}
}

func (b *Bytes) add(namespace string, n int64) {
	b.used += n
	if b.holds[namespace] += n; b.holds[namespace] == 0 {
		delete(b.holds, namespace)
	}
}
