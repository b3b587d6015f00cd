package looptest

import "github.com/agentloop-dev/agenttask-operator/internal/loop"

// What follows is for those that play scenarios elsewhere than in process.

// Scripted is the reply of a turn and what it is for; without a purpose, the turn is no reply.
func (t *Turn) Scripted() (*loop.Reply, loop.Purpose) {
	_, purpose := t.text()
	return t.reply(), purpose
}

// LoopSpec is a spec's fields and the tools as the loop takes them.
func (sc *Scenario) LoopSpec(fields map[string]any, tools []Tool) (*loop.Spec, error) {
	return sc.loopSpec(fields, tools)
}

// Merged lays changes over the fields of a spec, as User and Meanwhile do.
func Merged(fields, changes map[string]any) map[string]any { return merged(fields, changes) }
