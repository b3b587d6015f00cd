package loop

import "time"

// ActionKind says what is to be done next.
type ActionKind int

// The kinds of actions.
const (
	// ActionDone: the task has ended.
	ActionDone ActionKind = iota
	// ActionWait: nothing to do before Until (zero: before the spec changes).
	ActionWait
	// ActionEmit: record Event; it needs no I/O.
	ActionEmit
	// ActionCallModel: make a model call of Purpose.
	ActionCallModel
	// ActionRunTools: run the tool calls of the last reply.
	ActionRunTools
)

// Action is what Decide asks for.
type Action struct {
	Kind ActionKind
	// Until is when an ActionWait ends at the latest.
	Until time.Time
	// Event is the payload of an ActionEmit, without sequence number and time.
	Event Event
	// Purpose, OutputCap (tokens, 0 for none) and EstimatedInput (tokens) are of an ActionCallModel.
	Purpose        Purpose
	OutputCap      int64
	EstimatedInput int64
}

func done() Action                   { return Action{Kind: ActionDone} }
func waitUntil(t time.Time) Action   { return Action{Kind: ActionWait, Until: t} }
func emit(e Event) Action            { return Action{Kind: ActionEmit, Event: e} }
func runTools() Action               { return Action{Kind: ActionRunTools} }
func returned(r []ToolResult) Action { return emit(Event{ToolsReturned: &ToolsReturned{Results: r}}) }

func finish(reason ExitReason, cause Cause, message string) Action {
	return emit(Event{Finished: &Finished{Reason: reason, Cause: cause, Message: message}})
}

// kindOf names the payload of an event.
func kindOf(e *Event) EventKind {
	switch {
	case e.Opened != nil:
		return KindOpened
	case e.ModelReplied != nil:
		return KindModelReplied
	case e.ModelFailed != nil:
		return KindModelFailed
	case e.CallsStarted != nil:
		return KindCallsStarted
	case e.ToolsReturned != nil:
		return KindToolsReturned
	case e.Nudged != nil:
		return KindNudged
	case e.Asked != nil:
		return KindAsked
	case e.InputSeen != nil:
		return KindInputSeen
	case e.Answered != nil:
		return KindAnswered
	case e.Compacted != nil:
		return KindCompacted
	case e.LimitReached != nil:
		return KindLimitReached
	case e.Finished != nil:
		return KindFinished
	}
	return e.Kind // Suspended, Unsuspended and Released have no payload
}
