package fairshare_test

import (
	"fmt"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/fairshare"
)

// What a call costs that ends, the key that is woken for its slot, and its own key that waits again, beside 10,000 that wait.
func BenchmarkOneCallAfterAnother(b *testing.B) {
	const waiting, size = 10_000, 256
	for _, c := range []struct {
		name  string
		group func(key int) fairshare.Group
		limit int
	}{
		{"one group", func(int) fairshare.Group { return fairshare.Group{Namespace: "a", Model: "a/m"} }, 0},
		{"1,000 namespaces", func(k int) fairshare.Group {
			return fairshare.Group{Namespace: fmt.Sprint(k % 1000), Model: fmt.Sprint(k%1000, "/m")}
		}, 0},
		{"1,000 namespaces with one model that is always full", func(k int) fairshare.Group {
			return fairshare.Group{Namespace: fmt.Sprint(k % 1000), Model: "shared/m"}
		}, 100},
		{"10,000 namespaces", func(k int) fairshare.Group {
			return fairshare.Group{Namespace: fmt.Sprint(k), Model: fmt.Sprint(k, "/m")}
		}, 0},
		{"10,000 models of one namespace", func(k int) fairshare.Group { return fairshare.Group{Namespace: "a", Model: fmt.Sprint("a/", k)} }, 0},
		{"10,000 models of one namespace that are all full", func(k int) fairshare.Group { return fairshare.Group{Namespace: "a", Model: fmt.Sprint("a/", k%5000)} }, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			var woken []int
			s := fairshare.New(size, func(k int) { woken = append(woken, k) })
			groups := make([]fairshare.Group, waiting+2*size)
			for k := range groups {
				groups[k] = c.group(k)
				if c.limit > 0 {
					s.SetModelLimit(groups[k].Model, c.limit)
				}
			}
			type call struct {
				key  int
				slot *fairshare.Slot
			}
			var running []call
			for k := range groups {
				if slot := s.Take(k, groups[k]); slot != nil {
					running = append(running, call{k, slot})
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				done := running[0]
				running = running[1:]
				done.slot.ModelDone()
				done.slot.Release()
				if slot := s.Take(done.key, groups[done.key]); slot != nil {
					running = append(running, call{done.key, slot})
				}
				for _, k := range woken {
					running = append(running, call{k, s.Take(k, groups[k])})
				}
				woken = woken[:0]
			}
		})
	}
}
