package loop

// What stands around the text of an event, and of each part of one, as JSON: about, and never more than it is.
const (
	eventOverhead = 76
	partOverhead  = 24
)

// MaxTurnBytes is what one model call and all that follows from it up to the next one can add to State.JournalBytes at the
// most: the reply, the results of its calls, an approval and a question with their answers, the next message, and toolsets
// that are seen for the first time. So far a journal may pass Spec.MaxJournalBytes.
const MaxTurnBytes = 1280 << 10

// eventBytes is the size of an event in the journal, before compression: its texts, which JSON may make longer, and what
// stands around them. It is the same for an event that has come back from the journal.
func eventBytes(e *Event) int64 {
	n := eventOverhead
	switch {
	case e.Opened != nil:
		n += openedBytes(e.Opened)
	case e.ModelReplied != nil:
		n += repliedBytes(e.ModelReplied)
	case e.ModelFailed != nil:
		n += len(e.ModelFailed.Message) + len(e.ModelFailed.Text) + len(e.ModelFailed.RefusedTool)
	case e.CallsStarted != nil:
		n += partsBytes(e.CallsStarted.CallIDs)
	case e.ToolsReturned != nil:
		for _, r := range e.ToolsReturned.Results {
			n += len(r.CallID) + len(r.Name) + len(r.Content) + partOverhead
		}
		for _, item := range e.ToolsReturned.Todo {
			n += len(item.Text) + partOverhead
		}
	case e.Nudged != nil:
		n += len(e.Nudged.Text)
	case e.Asked != nil:
		n += len(e.Asked.Question) + partsBytes(e.Asked.CallIDs)
	case e.Answered != nil:
		n += len(e.Answered.Text) + len(e.Answered.DenyReason) + partsBytes(e.Answered.Denied)
	case e.Compacted != nil:
		n += len(e.Compacted.Summary)
	case e.LimitReached != nil:
		n += len(e.LimitReached.Message)
	case e.Finished != nil:
		n += len(e.Finished.Message) + len(e.Finished.Summary) + len(e.Finished.Output)
	}
	return int64(n)
}

func openedBytes(o *Opened) int {
	n := len(o.Holder) + partsBytes(o.Toolsets) + digestsBytes(o.ToolDigests)
	if in := o.Input; in != nil {
		n += len(in.Prompt) + len(in.Instructions) + len(in.Model.Parameters)
	}
	return n
}

func repliedBytes(r *ModelReplied) int {
	n := partsBytes(r.NeedApproval) + digestsBytes(r.ToolDigests)
	for i := range r.Reply.Blocks {
		n += len(r.Reply.Blocks[i].Text) + len(r.Reply.Blocks[i].Opaque) + partOverhead
	}
	for i := range r.Reply.ToolCalls {
		c := &r.Reply.ToolCalls[i]
		n += len(c.ID) + len(c.Name) + len(c.Arguments) + len(c.Opaque) + partOverhead
	}
	if r.Verdict != nil {
		n += len(r.Verdict.Reasoning)
	}
	if r.Output != nil {
		n += len(r.Output.JSON) + len(r.Output.Fault)
	}
	if r.StopWhen != nil {
		n += len(r.StopWhen.Fault)
	}
	return n
}

func digestsBytes(digests map[string]string) int {
	n := 0
	for name, digest := range digests {
		n += len(name) + len(digest) + len(`"":"",`)
	}
	return n
}

func partsBytes(parts []string) int {
	n := 0
	for _, p := range parts {
		n += len(p) + len(`"",`)
	}
	return n
}
