package loop_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

// Whatever events a journal holds, in whatever order: there is one exit reason, iterations and tokens never go down, nothing
// changes after the end, every prefix folds, folding twice gives the same, and the loop settles.
func TestRandomEventSequences(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("first seed %d", seed)
	for n := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed+n, 0))
		journal := randomJournal(r)
		before, err := loop.Fold(journal[:0])
		if err != nil {
			t.Fatal(err)
		}
		for i := range journal {
			s, err := loop.Fold(journal[:i+1])
			if err != nil {
				t.Fatal(err)
			}
			neverBack(t, i+1, before, s)
			if before.End != nil && s.End != before.End {
				t.Errorf("event %d changes the end", i+1)
			}
			before = s
		}
		again := &loop.State{}
		for i := range journal {
			if err := again.Apply(journal[i]); err != nil {
				t.Fatal(err)
			}
		}
		looptest.SameState(t, again, before)
		settles(t, r, before)
		if t.Failed() {
			t.Fatalf("seed %d", seed+n)
		}
	}
}

func neverBack(t *testing.T, event int, before, after *loop.State) {
	t.Helper()
	if after.Iterations < before.Iterations || after.Usage.Total() < before.Usage.Total() ||
		after.Usage.InputTokens < before.Usage.InputTokens || after.Usage.OutputTokens < before.Usage.OutputTokens {
		t.Errorf("event %d: iterations %d to %d, tokens %+v to %+v", event, before.Iterations, after.Iterations, before.Usage, after.Usage)
	}
	if after.JournalBytes <= before.JournalBytes {
		t.Errorf("event %d: the journal has %d bytes, and had %d", event, after.JournalBytes, before.JournalBytes)
	}
	if now := time.Date(2027, 1, 5, 9, 0, 0, 0, time.UTC); after.Active(now) < 0 || after.Active(now) > now.Sub(time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)) {
		t.Errorf("event %d: active for %s", event, after.Active(now))
	}
	if reason := after.ExitReason(); after.End == nil && reason != "" && reason != loop.ExitNeedInput {
		t.Errorf("event %d: exit reason %q without an end", event, after.ExitReason())
	}
}

// settles checks that what follows without I/O comes to an end, whatever state a journal leaves.
func settles(t *testing.T, r *rand.Rand, s *loop.State) {
	t.Helper()
	e := &loop.Engine{Clock: looptest.NewClock()}
	step, err := e.Settle(s, randomSpec(r))
	if err != nil {
		t.Errorf("the loop does not settle: %v", err)
	}
	ends := 0
	for i := range step.Events {
		if step.Events[i].Finished != nil {
			ends++
		}
	}
	if ends > 1 || ends == 1 && step.Events[len(step.Events)-1].Finished == nil {
		t.Errorf("%d ends, or events after one", ends)
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomSpec(r *rand.Rand) *loop.Spec {
	sp := &loop.Spec{
		Prompt: "Do it.", MaxIterations: pick[int64](r, 0, 1, 3, 20), MaxTokens: pick[int64](r, 0, 1000, 5000, 50_000),
		MaxDuration: pick[time.Duration](r, 0, time.Minute, time.Hour), InputTimeout: pick[time.Duration](r, 0, time.Minute),
		Strategy: pick(r, loop.StrategySignal, loop.StrategyJudge, loop.StrategySignalThenJudge),
		Fresh:    r.IntN(3) == 0, ProgressLog: r.IntN(2) == 0, NoProgressTurns: pick(r, 0, 2, 10), WrapUp: r.IntN(2) == 0,
		Cancel: r.IntN(20) == 0, Suspend: r.IntN(10) == 0, ResumeInput: pick(r, "", "", "yes", "approve", "deny: no"),
		ResumeInputID: pick(r, "", "", "q", "p"), Told: pick(r, "q", "q", ""), MaxJournalBytes: pick[int64](r, 0, 0, 5000),
		Waited: pick[time.Duration](r, 0, 0, time.Minute, -time.Minute), Price: pick(r, nil, &loop.Price{Input: "1", Output: "2.5"}),
		ContextWindowTokens: pick[int64](r, 0, 1500, 100_000), ReplyTokens: pick[int64](r, 0, 100),
		Tools: []loop.ToolDefinition{{Name: "look", Repeatable: true}, {Name: "pay"}, {Name: "deploy", RequireApproval: true}},
	}
	if r.IntN(4) == 0 {
		sp.StopWhen = pick(r, mustPredicate("iteration > 4"), mustPredicate(`toolCalls[0].name == "look"`))
	}
	return sp
}

func randomReply(r *rand.Rand) loop.Reply {
	out := loop.Reply{
		Finish: pick(r, loop.FinishStop, loop.FinishStop, loop.FinishStop, loop.FinishLength, loop.FinishCut, loop.FinishContentFilter, ""),
		Usage:  loop.Usage{InputTokens: r.Int64N(3000) - 100, OutputTokens: r.Int64N(300) - 10, TotalTokens: r.Int64N(4000) - 2000},
	}
	for range r.IntN(3) {
		out.Blocks = append(out.Blocks, loop.Block{
			Kind: pick(r, loop.BlockText, loop.BlockText, loop.BlockReasoning),
			Text: pick(r, "", "Working.", "TASK_COMPLETE: done", "NEED_INPUT: which?", fmt.Sprint("Step ", r.IntN(5)), "```\nTASK_COMPLETE: code"),
		})
	}
	for i := range max(0, r.IntN(5)-2) {
		out.ToolCalls = append(out.ToolCalls, loop.ToolCall{
			ID: fmt.Sprint("c", i), Name: pick(r, "look", "pay", "deploy", "magic", loop.ToolTaskComplete, loop.ToolNeedInput, loop.ToolTodo),
			Arguments: pick(r, "", "{}", `{"summary":"s","question":"q","items":[{"text":"t"}]}`, `{"half":`, "null", "[]"),
		})
	}
	return out
}

// randomJournal is a journal that no engine would write.
func randomJournal(r *rand.Rand) []loop.Event {
	at := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	out := make([]loop.Event, r.IntN(40))
	for i := range out {
		e := randomEvent(r)
		at = at.Add(time.Duration(r.IntN(100)-5) * time.Second) // clocks of two operators differ
		e.Version, e.Seq, e.Time, e.Waited = loop.EventVersion, int64(i+1), at, pick[time.Duration](r, 0, 0, time.Second, time.Hour, -time.Hour)
		out[i] = e
	}
	return out
}

func randomEvent(r *rand.Rand) loop.Event {
	purpose := pick(r, loop.PurposeTurn, loop.PurposeTurn, loop.PurposeTurn, loop.PurposeJudge, loop.PurposeCompaction, loop.PurposeWrapUp)
	kind := pick(r, loop.QuestionInput, loop.QuestionApproval)
	ids := []string{"c0", "c1"}[:r.IntN(3)]
	reply := randomReply(r)
	switch r.IntN(16) {
	case 0:
		o := &loop.Opened{Holder: "h", Rival: r.IntN(4) == 0, Alone: r.IntN(2) == 0, Away: pick[time.Duration](r, 0, time.Minute, -time.Hour)}
		if r.IntN(3) == 0 {
			o.Toolsets, o.ToolDigests = pick(r, nil, []string{"a"}), pick(r, nil, map[string]string{"look": "1"}, map[string]string{"look": "2", "pay": "3"})
		}
		if r.IntN(3) == 0 {
			o.Input = &loop.Input{Prompt: "Do this."}
			o.Lost = &loop.Lost{Purpose: purpose, Usage: reply.Usage, Cost: pick(r, nil, &loop.Cost{Amount: "0.5"}, &loop.Cost{Amount: "1e9"})}
		}
		return loop.Event{Opened: o}
	case 1:
		return loop.Event{ModelFailed: &loop.ModelFailed{
			Purpose: purpose, Cause: pick(r, "", loop.CauseContextWindowExceeded, loop.CauseModelUnavailable), Text: "half",
			Usage: reply.Usage, Retry: r.IntN(2) == 0, Interrupted: r.IntN(3) == 0,
		}}
	case 2:
		return loop.Event{CallsStarted: &loop.CallsStarted{CallIDs: ids}}
	case 3, 4:
		var results []loop.ToolResult
		for _, id := range ids {
			results = append(results, loop.ToolResult{CallID: id, Content: "r", IsError: r.IntN(3) == 0})
		}
		return loop.Event{ToolsReturned: &loop.ToolsReturned{Results: results, Todo: pick(r, nil, []loop.TodoItem{}, []loop.TodoItem{{Text: "t"}})}}
	case 5:
		return loop.Event{Nudged: &loop.Nudged{Text: "go on"}}
	case 6:
		return loop.Event{Asked: &loop.Asked{ID: "q", Kind: kind, Question: "?", CallIDs: ids, InputHash: pick(r, "", loop.HashInput("yes"))}}
	case 7:
		return loop.Event{InputSeen: &loop.InputSeen{InputHash: pick(r, "", loop.HashInput("approve"))}}
	case 8:
		return loop.Event{Answered: &loop.Answered{QuestionID: "q", Text: "yes", Denied: ids}}
	case 9:
		return loop.Event{Kind: pick(r, loop.KindSuspended, loop.KindUnsuspended, loop.KindReleased)}
	case 10:
		return loop.Event{Compacted: &loop.Compacted{Summary: "s", Kept: r.IntN(20) - 3}}
	case 11:
		if r.IntN(4) == 0 {
			return loop.Event{LimitReached: &loop.LimitReached{Reason: loop.ExitIterationCapReached}}
		}
	case 12:
		if r.IntN(6) == 0 {
			return loop.Event{Finished: &loop.Finished{Reason: pick(r, loop.ExitCompleted, loop.ExitCancelled)}}
		}
	}
	return loop.Event{ModelReplied: &loop.ModelReplied{
		Purpose: purpose, Reply: reply, Verdict: &loop.Verdict{Answered: r.IntN(2) == 0}, RequestBytes: r.Int64N(9000), NeedApproval: ids,
	}}
}
