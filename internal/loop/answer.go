package loop

import (
	"fmt"
	"strconv"
	"strings"
)

// answerTo tells whether spec.resumeInput answers q: it is not blank, and it names the question or is not what was there
// when the question was asked.
func answerTo(q *Question, sp *Spec) (*Answered, bool) {
	hash := HashInput(sp.ResumeInput)
	if hash == "" {
		return nil, false
	}
	if sp.ResumeInputID != "" {
		if sp.ResumeInputID != q.ID {
			return nil, false
		}
	} else if hash == q.InputHash {
		return nil, false
	}
	a := &Answered{QuestionID: q.ID, Text: sp.ResumeInput, InputHash: hash}
	if q.Kind == QuestionApproval {
		a.Denied, a.DenyReason = parseApproval(sp.ResumeInput, q.CallIDs)
		a.DenyReason = cutJSON(a.DenyReason, maxReasonGiven) // it is in Text as well, and the event must fit
	}
	return a, true
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

// approvalQuestion asks for the calls of a turn that need a human.
func approvalQuestion(s *State, sp *Spec) *Asked {
	t := s.turn
	a := &Asked{Kind: QuestionApproval, InputHash: HashInput(sp.ResumeInput)}
	var names []string
	for _, c := range t.reply.ToolCalls {
		if t.needApproval[c.ID] {
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
