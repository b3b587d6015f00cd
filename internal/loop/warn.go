package loop

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// remarks are what the agent is told between two turns beside or instead of a nudge: that a limit is near, once for each, and that it
// repeats itself. Warned are the limits that are named for the first time.
func remarks(s *State, sp *Spec, now time.Time) (texts []string, warned []ExitReason) {
	left, warned := nearLimits(s, sp, now)
	if len(left) > 0 {
		texts = append(texts, "Of the task's limits, this is left: "+strings.Join(left, ", ")+". Do what matters most, and bring the task to its end in time.")
	}
	if text := looping(s, sp); text != "" {
		texts = append(texts, text)
	}
	return texts, warned
}

// nearLimits are the limits of which LimitWarningPercent are used up, and that the agent was not told of, with what is left of each.
func nearLimits(s *State, sp *Spec, now time.Time) (left []string, limits []ExitReason) {
	percent := float64(sp.LimitWarningPercent)
	if percent <= 0 {
		return nil, nil
	}
	near := func(reason ExitReason, used, limit int64) bool {
		if limit <= 0 || used >= limit || float64(used)*100 < float64(limit)*percent || slices.Contains(s.warned, reason) {
			return false
		}
		limits = append(limits, reason)
		return true
	}
	if near(ExitTokenBudgetExceeded, s.Usage.Total(), sp.MaxTokens) {
		left = append(left, fmt.Sprintf("%d of %d tokens, which all that you are sent counts against", sp.MaxTokens-s.Usage.Total(), sp.MaxTokens))
	}
	if used := sp.Active(s, now); near(ExitTimeBudgetExceeded, int64(used), int64(sp.MaxDuration)) {
		left = append(left, fmt.Sprintf("%s of %s", (sp.MaxDuration-used).Round(time.Second), sp.MaxDuration))
	}
	if near(ExitIterationCapReached, s.Iterations, sp.MaxIterations) {
		left = append(left, fmt.Sprintf("%d of %d turns", sp.MaxIterations-s.Iterations, sp.MaxIterations))
	}
	return left, limits
}
