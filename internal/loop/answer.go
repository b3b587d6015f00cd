package loop

import (
	"fmt"
	"strconv"
	"strings"
)

// answerTo tells whether spec.resumeInput answers q: it is not blank, and it names the question. Plain text answers a
// Question, too, once that is shown, unless it was there before. An Approval is answered by its id alone: what was meant for
// one call must not approve another.
func answerTo(q *Question, sp *Spec) (*Answered, bool) {
	hash := HashInput(sp.ResumeInput)
	plain := q.Kind != QuestionApproval && sp.ResumeInputID == "" && sp.Told == q.ID && hash != q.InputHash
	if hash == "" || sp.ResumeInputID != q.ID && !plain {
		return nil, false
	}
	a := &Answered{QuestionID: q.ID, Text: sp.ResumeInput, InputHash: hash}
	if q.Kind == QuestionApproval {
		a.Denied, a.DenyReason = parseApproval(sp.ResumeInput, q.CallIDs)
		a.DenyReason = cutJSON(a.DenyReason, maxReasonGiven) // it is in Text as well, and the event must fit
	}
	return a, true
}

// noAnswer tells what spec.resumeInput holds that must never count as plain text: what was written before the question was
// shown. An emptied field is noted as well: then even the words of before are a new answer.
func noAnswer(q *Question, sp *Spec) (hash string, changed bool) {
	hash = HashInput(sp.ResumeInput)
	early := sp.ResumeInputID == "" && sp.Told != q.ID
	return hash, hash != q.InputHash && (hash == "" || early)
}

// UnusedAnswer says in one sentence why what spec.resumeInput holds answers nothing, though a question is open. It is empty
// where there is none, where the field holds what it held before the question, and where it is an answer.
func UnusedAnswer(s *State, sp *Spec) string {
	q := s.Question
	if q == nil || HashInput(sp.ResumeInput) == "" || sp.ResumeInputID == q.ID {
		return ""
	}
	old := HashInput(sp.ResumeInput) == q.InputHash
	switch {
	case old && !q.early:
		return ""
	case sp.ResumeInputID != "":
		return fmt.Sprintf("spec.resumeInput is not taken: spec.resumeInputID is %q, but the open question is %q. Set spec.resumeInputID to %q.",
			cutAt(sp.ResumeInputID, 100), q.ID, q.ID)
	case q.Kind == QuestionApproval:
		return fmt.Sprintf("spec.resumeInput is not taken: an approval is answered by its id alone. Set spec.resumeInputID to %q beside it.", q.ID)
	case old:
		return fmt.Sprintf("spec.resumeInput is not taken: it was written before question %q was shown. If it is the answer, set spec.resumeInputID to %q.", q.ID, q.ID)
	}
	return ""
}

// parseApproval reads the answer to an approval. Each line is `approve` or `deny`, then ids (none: all calls), and after a
// colon a reason. Only what a line approves and no line denies is approved; any other text denies everything, with the
// text as the reason.
func parseApproval(text string, ids []string) (denied []string, reason string) {
	approved, refused := map[string]bool{}, map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		verb, named, why, ok := parseApprovalLine(line, ids)
		if !ok {
			return ids, strings.TrimSpace(text)
		}
		if len(named) == 0 {
			named = ids
		}
		for _, id := range named {
			if verb == "approve" {
				approved[id] = true
			} else {
				refused[id] = true
			}
		}
		if why != "" && verb == "deny" {
			reason = why
		}
	}
	for _, id := range ids {
		if !approved[id] || refused[id] {
			denied = append(denied, id)
		}
	}
	return denied, reason
}

// parseApprovalLine reads a verb, ids and a reason. An id may itself hold a colon.
func parseApprovalLine(line string, ids []string) (verb string, named []string, reason string, ok bool) {
	const between = " ,\t\r"
	rest := strings.TrimSpace(line)
	end := strings.IndexAny(rest+":", between+":")
	verb, rest = strings.ToLower(rest[:end]), rest[end:]
	if verb != "approve" && verb != "deny" {
		return "", nil, "", false
	}
	for {
		rest = strings.TrimLeft(rest, between)
		if rest == "" || rest[0] == ':' {
			return verb, named, strings.TrimSpace(strings.TrimPrefix(rest, ":")), true
		}
		found := ""
		for _, id := range ids {
			after, is := strings.CutPrefix(rest, id)
			if is && len(id) > len(found) && (after == "" || strings.ContainsRune(between+":", rune(after[0]))) {
				found = id
			}
		}
		if found == "" {
			return "", nil, "", false
		}
		named, rest = append(named, found), rest[len(found):]
	}
}

// shownWhole are the calls that the status can show whole, of those that need approval: the first ones that fit. A human
// approves what runs, so no other can be approved. An id or a name that must be escaped could be taken for another one.
func shownWhole(calls []ToolCall, need map[string]bool) map[string]bool {
	shown, left := map[string]bool{}, MaxShownCalls
	for _, c := range calls {
		if !need[c.ID] || !showsItself(c.ID) || !showsItself(c.Name) {
			continue
		}
		arguments := len(Visible(orEmptyObject(c.Arguments)))
		if n := len(c.ID) + len(c.Name) + arguments; arguments <= MaxShownArguments && n <= left {
			shown[c.ID], left = true, left-n
		}
	}
	return shown
}

func showsItself(name string) bool {
	return name != "" && len(name) <= MaxShownName && Visible(name) == name
}

// approvalQuestion asks for the calls of a turn that need a human, and that one can be shown.
func approvalQuestion(s *State, sp *Spec) *Asked {
	t := s.turn
	a := &Asked{Kind: QuestionApproval, InputHash: HashInput(sp.ResumeInput)}
	var names []string
	for _, c := range t.reply.ToolCalls {
		if t.shown[c.ID] {
			a.CallIDs = append(a.CallIDs, c.ID)
			names = append(names, c.Name)
		}
	}
	a.ID = questionID(s, QuestionApproval)
	a.Question = fmt.Sprintf("May the agent call %s? Answer approve, or deny: reason.", strings.Join(names, ", "))
	return a
}

// questionID names a question: its kind, the turn that asked it (a turn asks one of a kind at the most), and the run, so that
// an answer left in a manifest does not answer the same question of a task that was created anew.
func questionID(s *State, kind QuestionKind) string {
	return fmt.Sprintf("%s-%d-%s", strings.ToLower(string(kind)), s.Iterations, digest(strconv.FormatInt(s.StartedAt.UnixNano(), 10))[:6])
}
