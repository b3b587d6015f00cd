package transcripttest

import (
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 890_000_000, time.UTC)

func event(seq int64, kind loop.EventKind) loop.Event {
	return loop.Event{Version: loop.EventVersion, Seq: seq, Time: start.Add(time.Duration(seq) * time.Second), Kind: kind}
}

// reply is a turn's reply of one text.
func reply(seq int64, text string) loop.Event {
	e := event(seq, loop.KindModelReplied)
	e.ModelReplied = &loop.ModelReplied{Purpose: loop.PurposeTurn, Reply: loop.Reply{
		Blocks: []loop.Block{{Kind: loop.BlockText, Text: text}},
		Finish: loop.FinishStop,
		Usage:  loop.Usage{InputTokens: 100, OutputTokens: 20, TotalTokens: 120},
	}}
	return e
}

// openedBy is what a holder writes first; text stands for whatever makes it large.
func openedBy(seq int64, holder string) loop.Event {
	e := event(seq, loop.KindOpened)
	e.Opened = &loop.Opened{Holder: holder}
	return e
}

// Samples is a journal with every kind of event and every field in use. It is no run that could happen.
func Samples() []loop.Event {
	kinds := []loop.EventKind{
		loop.KindOpened, loop.KindModelReplied, loop.KindCallsStarted, loop.KindToolsReturned, loop.KindNudged,
		loop.KindModelFailed, loop.KindAsked, loop.KindInputSeen, loop.KindAnswered, loop.KindSuspended,
		loop.KindUnsuspended, loop.KindReleased, loop.KindCompacted, loop.KindModelReplied, loop.KindLimitReached, loop.KindFinished,
	}
	events := make([]loop.Event, 0, len(kinds))
	for i, k := range kinds {
		events = append(events, event(int64(i)+1, k))
	}
	events[0].Opened = &loop.Opened{
		Holder: "manager-0_6f1c", Toolsets: []string{"files", "search"}, ToolDigests: map[string]string{"files__read": "sha256:2c26b4", "files__write": "sha256:fcde2b"},
		Input: &loop.Input{
			Prompt: "Write a report on the <notes>.\nName all causes.", Instructions: "Write in plain words.",
			Model: loop.ModelIdentity{
				Namespace: "team-a", Name: "large", Provider: "OpenAI", Model: "example-large", Parameters: []byte(`{"temperature":"0.2"}`),
			},
		},
		Rival: true, Alone: true, Away: 3 * time.Minute,
		Lost: &loop.Lost{
			Purpose: loop.PurposeTurn, Usage: loop.Usage{InputTokens: 700, OutputTokens: 1024, TotalTokens: 1724, Estimated: true},
			Cost: &loop.Cost{Amount: "0.01746", Currency: "USD"},
		},
	}
	events[1].Waited = 90 * time.Second
	events[1].ModelReplied = sampleReply()
	events[2].CallsStarted = &loop.CallsStarted{CallIDs: []string{"call-2"}}
	events[3].ToolsReturned = &loop.ToolsReturned{
		Results: []loop.ToolResult{
			{CallID: "call-1", Name: "files__read", Content: "# Notes\n\t<b>&amp;</b> \"quoted\" \\ \u2028 日本語 🙂\n"},
			{CallID: "call-2", Name: "files__write", Content: "read-only \x1b[31mfile system\x1b[0m", IsError: true},
		},
		Todo: []loop.TodoItem{{Text: "read the notes", Done: true}, {Text: "write the report"}},
	}
	events[4].Nudged = &loop.Nudged{Text: "Go on, or end with TASK_COMPLETE: or NEED_INPUT: on a line of its own.", Aside: true, Warned: []loop.ExitReason{loop.ExitIterationCapReached}}
	events[5].ModelFailed = &loop.ModelFailed{
		Purpose: loop.PurposeTurn, Cause: loop.CauseModelUnavailable, Message: "The model server broke the reply off.", Text: "I was about to",
		Usage: loop.Usage{InputTokens: 900, OutputTokens: 4, TotalTokens: 904, Estimated: true},
		Retry: true, RetryAt: start.Add(time.Minute), RetryAfter: 30 * time.Second, RefusedTool: "bad__query", Interrupted: true, OutputCap: 2000, Cost: &loop.Cost{Amount: "0.00276", Currency: "USD"},
	}
	events[6].Asked = &loop.Asked{ID: "q-7", Kind: loop.QuestionApproval, Question: "May files__write run?", CallIDs: []string{"call-2"}, InputHash: "9f86d081"}
	events[7].InputSeen = &loop.InputSeen{InputHash: "e3b0c442"}
	events[8].Answered = &loop.Answered{QuestionID: "q-7", Text: "deny: not on Fridays", InputHash: "60303ae2", Denied: []string{"call-2"}, DenyReason: "not on Fridays"}
	events[12].Compacted = &loop.Compacted{Summary: "The notes were read.", Kept: 3}
	events[13].ModelReplied = &loop.ModelReplied{
		Purpose: loop.PurposeJudge, Verdict: &loop.Verdict{Answered: true, Reasoning: "The report names all three causes."},
		Reply: loop.Reply{Finish: loop.FinishStop, Usage: loop.Usage{InputTokens: 50, OutputTokens: 9, TotalTokens: 59}},
	}
	events[14].LimitReached = &loop.LimitReached{Reason: loop.ExitTokenBudgetExceeded, Message: "maxTokens (1000) is used up."}
	events[15].Finished = &loop.Finished{
		Reason: loop.ExitError, Cause: loop.CauseModelUnavailable, Message: "The model server stayed away.",
		Summary: "Half of the report.", Output: `{"causes":2}`,
	}
	return events
}

func sampleReply() *loop.ModelReplied {
	return &loop.ModelReplied{
		Purpose: loop.PurposeTurn,
		Reply: loop.Reply{
			Blocks: []loop.Block{
				{Kind: loop.BlockReasoning, Text: "First the notes.", Opaque: "c2lnbmF0dXJl"},
				{Kind: loop.BlockText, Text: "I read the notes and write the report.\n\n- one\n- two"},
				{Kind: loop.BlockRefusal, Text: "I will not delete them."},
			},
			ToolCalls: []loop.ToolCall{
				{ID: "call-1", Name: "files__read", Arguments: `{"path":"notes.md"}`, Opaque: "dGhvdWdodA=="},
				{ID: "call-2", Name: "files__write", Arguments: `{"path":"report.md","text":"<b>`},
			},
			Finish:    loop.FinishToolCalls,
			Usage:     loop.Usage{InputTokens: 800, OutputTokens: 60, CachedInputTokens: 700, TotalTokens: 870, Estimated: true},
			RequestID: "req-42",
			Model:     "example-large-1",
		},
		RequestBytes: 3210,
		NeedApproval: []string{"call-2"},
		ToolDigests:  map[string]string{"files__write": "sha256:fcde2b"},
		OutputCap:    4000,
		Cost:         &loop.Cost{Amount: "0.00141", Currency: "USD"},
		Output:       &loop.OutputCheck{Schema: "9f2c41d07a6b35e8c1d4f0a2", JSON: `{"causes":2}`, Fault: "at '/causes': got string, want integer", TooMuchWork: true},
		StopWhen:     &loop.StopCheck{Expression: "03ab7c5d9e1f24680bdf1357", True: true, Fault: "index out of bounds: 0"},
	}
}
