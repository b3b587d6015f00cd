// Package loop is the agent loop: what happens in which order, when it ends, and why.
//
// It is pure. It knows no Kubernetes, no provider and no tool protocol, and its time is a Clock that is given to it. A task is a
// list of events, its journal. State is what they fold to. Decide names the next Action for a state, a Spec and a time: the same
// journal, spec and time always give the same action. Engine performs actions, and gives the events that they caused as a Step.
//
// # What the caller has to do
//
//  1. Fold the journal (Fold, or State.Apply part by part) before anything else. A State belongs to one task and one goroutine.
//  2. Open the task (Engine.Open) before its first call as a holder, and append the events to the journal. An append that
//     conflicts means that another holder has the task: stop.
//  3. Append the events of each Step, whole and in order, before the next step, and before anything that follows from them. A
//     step whose events could not be appended is not undone: keep them, and append them later.
//  4. Call Engine.Settle whenever the spec or the time may have changed. It needs no call, so it must not wait for what calls
//     wait for.
//  5. When Step.Next asks for a call, get what the call needs, then call Engine.Advance. Give it a Specs whose newest spec is
//     really the newest: it is asked while the call runs.
//  6. When Step.Next asks to wait, come back at Action.Until, or when the spec changes.
//  7. Say in Spec.Waited and Spec.HeldSince how long the task has waited for you, or was held by nobody: that is no running time.
//  8. Show a question that is open, and say in Spec.Told which one was shown: a plain answer counts only for that one.
//  9. Let the task go with Engine.Release when you stop working on it, so that the next holder counts no crash.
//  10. Stop when Step.Next is ActionDone. Nothing follows the end.
package loop
