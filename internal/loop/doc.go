// Package loop is the agent loop: what happens in which order, when it ends and why.
//
// It is pure. A task is a list of events (its journal). State is what they fold to (Fold, State.Apply), Decide names the next
// Action for a state, a Spec and a time, and Engine performs it and returns the events that it caused as a Step. It knows no
// Kubernetes and no provider: models and tools come in as the interfaces Model and Toolbox, time as a Clock, and the spec,
// which may change while a call runs, as Specs.
//
// Who runs a task calls Engine.Open before it acts, Engine.Advance for each call, Engine.Settle for what needs none, and
// Engine.Release when it lets the task go. After each it appends the step's events to the journal before it goes on.
package loop
