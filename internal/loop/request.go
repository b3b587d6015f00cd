package loop

import (
	"fmt"
	"strings"
)

const protocol = `You are an autonomous agent. You work on the task in the first message by yourself, over as many turns as it takes.

- When everything that was asked for is done, end your reply with a line that starts with TASK_COMPLETE: followed by a short summary of what was done. Or call the tool task_complete.
- When you cannot go on without a human, end your reply with a line that starts with NEED_INPUT: followed by your question. Or call the tool need_input.
- Write such a line only when you mean it, as a plain line of its own: not in a code block, a list or a quotation.
- Otherwise go on working. Do not ask for permission, and do not say that you are done before you are.`

// buildRequest makes the request of a model call.
func buildRequest(s *State, sp *Spec, p Purpose) *Request {
	if in := s.Input; in != nil { // from its start on, a task is what its journal says
		started := *sp
		started.Prompt, started.Instructions = in.Prompt, in.Instructions
		sp = &started
	}
	switch p {
	case PurposeJudge:
		return judgeRequest(s, sp)
	case PurposeCompaction:
		return compactionRequest(s, sp)
	case PurposeTurn, PurposeWrapUp:
	}
	r := &Request{Purpose: p, System: systemPrompt(sp), Messages: conversation(s, sp)}
	if p == PurposeWrapUp {
		r.Messages = append(r.Messages, UserText(
			"You have reached the task's limit and cannot go on. Say briefly what was done, what is left, and what whoever goes on should know. Call no tools."))
		return r
	}
	r.Tools = builtinTools(sp)
	for _, t := range sp.Tools {
		if !IsBuiltin(t.Name) && !s.RefusedTools[t.Name] { // providers refuse a request that names a tool twice
			r.Tools = append(r.Tools, t)
		}
	}
	return r
}

func systemPrompt(sp *Spec) string {
	var b strings.Builder
	b.WriteString(protocol)
	if schema := sp.outputSchema(); schema != nil {
		fmt.Fprintf(&b, "\n\nThe result of the task must be JSON that satisfies this JSON Schema. Give it as the argument output of task_complete, or as the only text beside your TASK_COMPLETE: line.\n%s", schema)
	}
	if sp.Instructions != "" {
		b.WriteString("\n\n" + sp.Instructions)
	}
	return b.String()
}

// conversation is what the model is shown: the prompt and what came after it, or, in the Fresh context, the prompt with the
// log of the turns so far and the calls that are still under way. What a human answered stands there in any case: nobody
// likes to be asked twice.
func conversation(s *State, sp *Spec) []Message {
	if !sp.Fresh {
		return append([]Message{UserText(sp.Prompt)}, s.Messages...)
	}
	title, log, gone := "What was done so far, one line a turn. "+quoted, s.Log, s.unlogged
	if !sp.ProgressLog {
		title, log, gone.turns = "What a human answered so far. "+quoted, answers(s.Log), 0
	}
	prompt := sp.Prompt
	if lines := logLines(log, gone); len(lines) > 0 {
		prompt += "\n\n" + title + "\n" + strings.Join(lines, "\n")
	}
	return append([]Message{UserText(prompt)}, s.Messages[contextStart(s, sp):]...)
}

// answers are the entries of a log that are no turns.
func answers(log []LogEntry) (out []LogEntry) {
	for _, e := range log {
		if e.Answer {
			out = append(out, e)
		}
	}
	return out
}

// logLines is the log as every request carries it: at a size that does not grow for ever.
func logLines(log []LogEntry, gone unlogged) (lines []string) {
	log, gone = recent(log, gone, shownTurns)
	if gone.turns > 0 {
		lines = append(lines, fmt.Sprintf("(%d earlier turns are left out)", gone.turns))
	}
	if gone.answers > 0 {
		lines = append(lines, fmt.Sprintf("(%d earlier answers are left out)", gone.answers))
	}
	for _, e := range log {
		lines = append(lines, e.Text)
	}
	return lines
}
