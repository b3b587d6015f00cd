package loop

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// maxPeriod is the longest loop that is looked for, in turns: A-B-C-D-E-A-B-C-D-E.
const maxPeriod = 5

// repeats is what of the last turns comes back, for loops of each period.
type repeats struct {
	last []trace        // of at most maxPeriod turns, the newest at the end
	runs [maxPeriod]int // by period, less one: how many of the last turns were the same as the one that many turns before
}

// trace is what of a turn must come back to be a repeat, as a digest, and what a person would call it.
type trace struct {
	digest [sha256.Size]byte
	name   string
}

// turnTrace is the trace of a turn's calls with their results, or of its texts. Results are the same that differ in a time alone.
func turnTrace(texts []string, calls []ToolCall, results []ToolResult) trace {
	if len(calls) == 0 {
		return trace{digest: digestOf(strings.TrimSpace(joinTexts(texts))), name: "you say the same"}
	}
	parts, names := make([]string, 0, 2*len(calls)+len(results)), make([]string, 0, len(calls))
	for _, c := range calls {
		parts = append(parts, c.Name, c.Arguments)
		if name := quote(c.Name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, r := range results {
		parts = append(parts, withoutTimes(r.Content))
	}
	return trace{digest: digestOf(parts...), name: "you call " + cutAt(strings.Join(names, ", "), 200)}
}

// digestOf tells lists of texts apart.
func digestOf(parts ...string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, p := range parts {
		_ = json.NewEncoder(h).Encode(len(p)) // a hash takes everything
		h.Write([]byte(p))
	}
	h.Sum(sum[:0])
	return sum
}

func (r *repeats) add(t trace) {
	for k := range r.runs {
		if n := len(r.last); n > k && r.last[n-1-k].digest == t.digest {
			r.runs[k]++
		} else {
			r.runs[k] = 0
		}
	}
	if len(r.last) == maxPeriod {
		r.last = slices.Delete(r.last, 0, 1)
	}
	r.last = append(r.last, t)
}

// longest is the longest loop that the last turns are, and its period: as many turns in all as come back, the first of each included.
// It takes two whole rounds to be one. Ahead counts that many turns more, as if they repeated, too.
func (r *repeats) longest(ahead int) (turns, period int) {
	if len(r.last) == 0 {
		return 0, 1
	}
	turns, period = 1, 1
	for k, run := range r.runs {
		if run += ahead; run > k && run+k+1 > turns {
			turns, period = run+k+1, k+1
		}
	}
	return turns, period
}

// looping tells the agent what repeats, when the next repeat would be the last; empty otherwise.
func looping(s *State, sp *Spec) string {
	if sp.NoProgressTurns < 3 || s.Repeats >= sp.NoProgressTurns {
		return ""
	}
	turns, period := s.repeats.longest(1)
	if turns < sp.NoProgressTurns {
		return ""
	}
	round := s.repeats.last[max(0, len(s.repeats.last)-period):]
	names := make([]string, 0, period)
	for i := range round {
		names = append(names, round[i].name)
	}
	return fmt.Sprintf("Your last turns repeat themselves, with the same outcome: %s. If the next one repeats them again, the task ends. "+
		"Do something else, or end it yourself: with TASK_COMPLETE: if everything is done, or with NEED_INPUT: and what you need.", strings.Join(names, ", then "))
}
