// Package resolve turns what a task refers to into what can be called: AgentModels, AgentToolsets and the Secrets and ConfigMaps that they
// name, as they are now, into clients, rates and plain configuration.
//
// Its errors are *Waiting where a user can do something about them. It writes nothing.
package resolve

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Waiting says why a task does not go on by itself, what a user can do about it, and when to look again (0: when told).
type Waiting struct {
	Reason  string
	Message string
	After   time.Duration
	// Own: it waits for our own slots and limits, which is no running time.
	Own bool
	// Held: nothing else goes on either, so this is told before everything else.
	Held bool
	// Stuck: it does not go on before somebody does something about it.
	Stuck bool
}

func (w *Waiting) Error() string { return w.Message }

// GoesOn ends the message of what waits for a correction.
const GoesOn = " Correct it, and the task goes on."

func deref[T any](p *T) (zero T) {
	if p == nil {
		return zero
	}
	return *p
}

func duration(d *metav1.Duration) time.Duration { return deref(d).Duration }
