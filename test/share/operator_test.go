//go:build share

package share

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/agentloop-dev/agenttask-operator/test/harness"
)

// operator is a manager whose memory is watched, and that must not end by itself.
type operator struct {
	*harness.Manager
	r       *rig
	name    string
	peak    atomic.Int64
	stopped atomic.Bool
}

func (r *rig) operator(name string, args ...string) *operator {
	r.Helper()
	m, err := r.cluster.StartManager(name, args...)
	r.must(err)
	o := &operator{Manager: m, r: r, name: name}
	go o.watch()
	r.Cleanup(o.kill)
	return o
}

func (o *operator) watch() {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if o.look(); o.peak.Load() > o.r.cluster.Memory.Limit {
			o.r.abort(fmt.Errorf("%s took %s of memory", o.name, mib(o.peak.Load()))) // the kernel would end it, where it could
		}
		select {
		case <-tick.C:
		case <-o.Done():
			if !o.stopped.Load() {
				o.r.abort(errors.New(o.name + " ended by itself"))
			}
			return
		}
	}
}

// look keeps the peak of the memory for when the process is gone.
func (o *operator) look() {
	if rss, err := o.PeakRSS(); err == nil {
		o.peak.Store(rss)
	}
}

// kill ends the operator without a warning, as a node that fails does.
func (o *operator) kill() {
	o.r.Helper()
	if o.stopped.Swap(true) {
		return
	}
	if o.Exited() {
		o.r.Errorf("%s ended by itself, at a peak of %s\n%s", o.name, mib(o.peak.Load()), o.r.cluster.Logs(10))
		return
	}
	o.look()
	o.Signal(syscall.SIGKILL)
	o.r.peaks = append(o.r.peaks, o.peak.Load())
}

// weigh holds the operators that ran to the memory that the chart gives each.
func (r *rig) weigh() {
	if len(r.peaks) == 0 {
		return
	}
	memory, peak := r.cluster.Memory, slices.Max(r.peaks)
	r.Logf("peak RSS of %d operator processes: %s of %s (MEMORY_LIMIT %q, held by memory cgroups: %v)", len(r.peaks), mib(peak), mib(memory.Limit), memory.Told, memory.Held())
	if peak > memory.Limit {
		r.Errorf("an operator took %s of memory, more than the chart's limit of %s", mib(peak), mib(memory.Limit))
	}
}
