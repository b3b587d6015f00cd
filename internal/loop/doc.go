// Package loop is the agent loop: what happens in which order, when it ends and why.
//
// It is pure. A task is a list of events (its journal); State is what they fold to, Decide names the next action for a
// state, and Engine.Act performs it and returns the events that it caused. It knows no Kubernetes and no provider: models
// and tools come in as the interfaces Model and Toolbox, time as a Clock.
package loop
