package loop

import (
	"fmt"
	"strings"
)

// nudgeText is the user message that sends the agent into its next turn.
func nudgeText(s *State, sp *Spec, claimed bool, outputErr error) string {
	t := s.turn
	var b strings.Builder
	switch {
	case outputErr != nil && (claimed || sp.Strategy == StrategyJudge):
		fmt.Fprintf(&b, "The result does not satisfy the output schema: %s\nCorrect it and give it again.", quote(cutJSON(outputErr.Error(), 4000)))
	case t.verdict != nil:
		b.WriteString("The request is not answered yet. ")
		if why := t.verdict.Reasoning; why != "" {
			b.WriteString("The judge says: " + quote(cutJSON(why, maxReasoning)))
		} else {
			b.WriteString("Look again at what it asks for.")
		}
	case truncated(&t.reply):
		b.WriteString("Your last reply was cut off at its size limit. Go on from there, in shorter steps.")
	case len(t.reply.Texts()) == 0:
		b.WriteString("Your last reply was empty. Go on with the task.")
	case sp.Nudge != "":
		b.WriteString(sp.Nudge)
	default:
		b.WriteString("Go on with the task. When everything is done, end with a line that starts with TASK_COMPLETE: and a summary. If you cannot go on without a human, end with a line that starts with NEED_INPUT: and your question.")
	}
	if open := openItems(s.Todo); len(open) > 0 {
		b.WriteString("\n\nOpen items of your list:" + list(open))
	}
	return b.String()
}

// list puts each item on a line of its own.
func list(items []string) string {
	var b strings.Builder
	for _, item := range items {
		b.WriteString("\n- " + quote(item))
	}
	return b.String()
}
