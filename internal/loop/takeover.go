package loop

import (
	"cmp"
	"encoding/json"
	"math"
	"time"
)

// How long a call may take where the spec does not say.
const (
	defaultRequestTimeout = 10 * time.Minute
	defaultCallTimeout    = time.Minute
)

// lostReplyTokens is the least that a lost reply is taken to have had where nothing caps replies.
const lostReplyTokens = 1024

// takeOver completes what is known of an opening. At a task's start that is what it is asked; later it is what the former
// holder may have been doing since the last event, and for how long nobody was there.
func (e *Engine) takeOver(s *State, sp *Spec, o *Opened) (err error) {
	if !s.Started() {
		o.Input, err = newInput(sp, o.Input)
		return err
	}
	now := e.Clock.Now()
	o.Input = nil
	o.Lost = lostCall(s, sp, now)
	if !s.activeSince.IsZero() {
		gap := max(0, now.Sub(s.lastAt)) - s.sinceLast(now, sp.Waited)
		if !sp.HeldSince.IsZero() {
			gap = sp.unheld(s, now)
		}
		o.Away = gap - e.ran(s, sp, gap, o.Lost != nil)
	}
	return nil
}

// newInput is what a task is started with: the spec's own texts and the model that was given. Its parameters are written as
// they will come back from the journal. Texts that do not fit there are left out, and end the task (Decide).
func newInput(sp *Spec, given *Input) (*Input, error) {
	if promptBytes(sp) > maxPromptBytes {
		return nil, nil
	}
	in := &Input{Prompt: sp.Prompt, Instructions: sp.Instructions}
	if given != nil {
		in.Model = given.Model
	}
	if in.Model.Parameters == nil {
		return in, nil
	}
	parameters, err := json.Marshal(in.Model.Parameters)
	in.Model.Parameters = parameters
	return in, err
}

// ran is the part of a gap in which the task may have run: the backoff of a failed call, which was due in any case, and then
// the call that was lost, for as long as one can take. So no crash hides running time.
func (e *Engine) ran(s *State, sp *Spec, gap time.Duration, lostCall bool) time.Duration {
	backoff := max(0, min(gap, s.RetryAt.Sub(s.lastAt)))
	var call time.Duration
	switch {
	case lostCall:
		call = cmp.Or(sp.RequestTimeout, defaultRequestTimeout)
	case s.toolsUnderWay():
		rounds := ceilDiv(int64(len(s.turn.reply.ToolCalls)), int64(e.parallel()))
		call = time.Duration(rounds) * cmp.Or(sp.CallTimeout, defaultCallTimeout)
	}
	return backoff + min(gap-backoff, call)
}

// lostCall is the model call that the former holder may have been making, nil for none.
func lostCall(s *State, sp *Spec, now time.Time) *Lost {
	if s.idle(now) {
		return nil
	}
	// What has come into the spec meanwhile, such as a cancel or a lower limit, held no call up then.
	then := *sp
	then.Cancel, then.Suspend, then.Held = false, false, false
	then.MaxTokens, then.MaxDuration, then.MaxIterations, then.MaxJournalBytes, then.NoProgressTurns = 0, 0, 0, 0, 0
	then.Retry, then.JudgeRetry, then.MaxTurnAttempts = Retry{MaxAttempts: math.MaxInt}, Retry{MaxAttempts: math.MaxInt}, math.MaxInt
	due := Decide(s, &then, now)
	if due.Kind != ActionCallModel {
		return nil
	}
	output := outputCap(s, sp, due.Purpose, due.EstimatedInput)
	if output < minReplyTokens {
		output = cmp.Or(outputCap(s, &then, due.Purpose, due.EstimatedInput), max(s.largest, lostReplyTokens))
	}
	u := Usage{InputTokens: due.EstimatedInput, OutputTokens: output, TotalTokens: due.EstimatedInput + output, Estimated: true}
	return &Lost{Purpose: due.Purpose, Usage: u, Cost: sp.price(due.Purpose).cost(u)}
}

func (s *State) applyOpened(e *Event) {
	o := e.Opened
	only := s.pinsOnly(o)
	s.Pins.see(o)
	if only {
		return
	}
	s.Holder = o.Holder
	switch {
	case s.StartedAt.IsZero():
		s.StartedAt, s.Input = e.Time, o.Input
		s.startClock(e.Time)
	case !s.idle(e.Time) && !o.Rival:
		s.Attempts++
		s.blamed = s.alone
	}
	s.alone = o.Alone
	s.skip(e.Time, o.Away)
	if l := o.Lost; l != nil {
		s.use(l.Usage, l.Cost)
		s.chargeFailed(l.Usage)
	}
	if s.toolsUnderWay() {
		s.turn.lost = true
	}
	s.Released = false
}

// idle tells that no call can have been under way since the last event.
func (s *State) idle(now time.Time) bool {
	return s.Question != nil || s.Suspended || s.Released || now.Before(s.RetryAt)
}

// toolsUnderWay tells that tool calls may have begun whose results are not there.
func (s *State) toolsUnderWay() bool {
	return s.turn != nil && s.turn.started && !s.turn.returned && !s.Released
}
