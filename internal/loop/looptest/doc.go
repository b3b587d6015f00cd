// Package looptest plays scenarios: a task's conversation, written down in YAML, and how it must end.
//
// A scenario knows nothing of who plays it. Player plays it in process, through loop.Engine with a scripted model, toolbox
// and clock. It appends all events to a journal in memory, as JSON, and after every step it folds the journal anew: the
// result must be the state that the engine holds.
package looptest
