package loop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// longJournal is a task of many turns, each with 20 KB of text; every third has a tool call.
func longJournal(turns int) []loop.Event {
	at := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	var out []loop.Event
	add := func(e loop.Event) {
		e.Version, e.Seq, e.Time = loop.EventVersion, int64(len(out)+1), at.Add(time.Duration(len(out))*time.Second)
		out = append(out, e)
	}
	add(loop.Event{Kind: loop.KindOpened, Opened: &loop.Opened{Holder: "bench"}})
	prose := strings.Repeat("A line of ordinary text that an agent might well write.\n", 20_000/56)
	for i := range turns {
		r := says(fmt.Sprintf("Turn %d.\n%s", i, prose))
		r.Usage = loop.Usage{InputTokens: 5000 + int64(i)*5000, OutputTokens: 5000}
		if i%3 == 0 {
			r.ToolCalls = calls("look").ToolCalls
		}
		add(loop.Event{Kind: loop.KindModelReplied, ModelReplied: &loop.ModelReplied{Purpose: loop.PurposeTurn, Reply: *r, RequestBytes: 20_000 * int64(i+1)}})
		if i%3 == 0 {
			add(loop.Event{Kind: loop.KindToolsReturned, ToolsReturned: &loop.ToolsReturned{Results: []loop.ToolResult{{CallID: "c", Name: "look", Content: prose}}}})
		} else {
			add(loop.Event{Kind: loop.KindNudged, Nudged: &loop.Nudged{Text: "Go on."}})
		}
	}
	return out
}

// A holder that takes over folds the whole journal and decides: under a millisecond for 150 turns.
func BenchmarkFoldAndDecide(b *testing.B) {
	journal := longJournal(150)
	sp := &loop.Spec{Prompt: "Do it.", MaxTokens: 1 << 40, MaxIterations: 1000, ContextWindowTokens: 1 << 30, NoProgressTurns: 10}
	now := journal[len(journal)-1].Time
	b.ReportAllocs()
	for b.Loop() {
		s, err := loop.Fold(journal)
		if err != nil {
			b.Fatal(err)
		}
		if a := loop.Decide(s, sp, now); a.Kind != loop.ActionCallModel {
			b.Fatalf("action %d", a.Kind)
		}
	}
}
