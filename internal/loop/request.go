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
	switch p {
	case PurposeJudge:
		return judgeRequest(s, sp)
	case PurposeCompaction:
		return compactionRequest(s, sp)
	}
	r := &Request{Purpose: p, System: systemPrompt(sp), Messages: conversation(s, sp)}
	if p == PurposeWrapUp {
		r.Messages = append(r.Messages, UserText(
			"You have reached the task's limit and cannot go on. Say briefly what was done, what is left, and what whoever goes on should know. Call no tools."))
		return r
	}
	r.Tools = builtinTools(sp)
	for _, t := range sp.Tools {
		if !IsBuiltin(t.Name) { // providers refuse a request that names a tool twice
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
// log of the turns so far and the calls that are still under way.
func conversation(s *State, sp *Spec) []Message {
	if !sp.Fresh {
		return append([]Message{UserText(sp.Prompt)}, s.Messages...)
	}
	prompt := sp.Prompt
	if sp.ProgressLog && len(s.Log) > 0 {
		prompt += "\n\nWhat was done so far, one line a turn:\n" + strings.Join(recentLog(s.Log), "\n")
	}
	return append([]Message{UserText(prompt)}, s.Messages[contextStart(s, sp):]...)
}

// recentLog keeps the log that every request carries at a size that does not grow for ever.
func recentLog(log []string) []string {
	const most = 100
	if len(log) <= most {
		return log
	}
	return append([]string{fmt.Sprintf("(%d earlier turns are left out)", len(log)-most)}, log[len(log)-most:]...)
}
