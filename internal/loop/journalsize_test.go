package loop

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// The size is that of the events as JSON, before they are compressed, for what JSON needs no escapes for; and it is the same
// for an event that comes back from the journal.
func TestJournalBytesAreAboutTheSizeOfTheJournal(t *testing.T) {
	text := strings.Repeat("Plain words. ", 3000)
	for name, e := range map[string]Event{
		"a start": {Opened: &Opened{Holder: "h", Input: &Input{Prompt: text, Instructions: text}, Toolsets: []string{text}, ToolDigests: map[string]string{"a": text}}},
		"a reply": {ModelReplied: &ModelReplied{Purpose: PurposeTurn, Reply: Reply{
			Blocks:    []Block{{Kind: BlockReasoning, Text: text, Opaque: text}, {Kind: BlockText, Text: text}},
			ToolCalls: []ToolCall{{ID: "a", Name: "look", Arguments: text, Opaque: text}},
		}, NeedApproval: []string{"a"}, ToolDigests: map[string]string{"look": text}}},
		"a verdict":   {ModelReplied: &ModelReplied{Purpose: PurposeJudge, Verdict: &Verdict{Reasoning: text}}},
		"a failure":   {ModelFailed: &ModelFailed{Text: text, Message: text}},
		"a start of":  {CallsStarted: &CallsStarted{CallIDs: []string{text, text}}},
		"results":     {ToolsReturned: &ToolsReturned{Results: []ToolResult{{CallID: text, Name: text, Content: text}}, Todo: []TodoItem{{Text: text}}}},
		"a nudge":     {Nudged: &Nudged{Text: text}},
		"a question":  {Asked: &Asked{Question: text, CallIDs: []string{text}}},
		"an answer":   {Answered: &Answered{Text: text, DenyReason: text, Denied: []string{text}}},
		"a summary":   {Compacted: &Compacted{Summary: text}},
		"a limit":     {LimitReached: &LimitReached{Message: text}},
		"the end":     {Finished: &Finished{Message: text, Summary: text, Output: text}},
		"a small one": {Nudged: &Nudged{Text: "Go on."}},
		"no payload":  {Kind: KindSuspended},
	} {
		e.Version, e.Seq, e.Time, e.Kind = EventVersion, 100, time.Date(2026, 1, 5, 9, 0, 0, 123, time.UTC), kindOf(&e)
		got, want := eventBytes(&e), int64(size(t, e))
		if got > want || got < want*19/20-100 {
			t.Errorf("%s takes %d bytes as JSON, and counts as %d", name, want, got)
		}
		var back Event
		if text, err := json.Marshal(e); err != nil || json.Unmarshal(text, &back) != nil {
			t.Fatal(err)
		}
		if again := eventBytes(&back); again != got {
			t.Errorf("%s counts as %d, and as %d once it comes back", name, got, again)
		}
	}
}

// To measure an event makes no copy of it: a journal of any size is folded through here.
func TestMeasuringAnEventAllocatesNothing(t *testing.T) {
	e := Event{ModelReplied: &ModelReplied{Reply: fullReplies()[0]}}
	if n := testing.AllocsPerRun(10, func() { eventBytes(&e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// One call, with all that follows from it up to the next one, adds no more than is stated, however it is shaped.
func TestWhatOneTurnAddsToAJournal(t *testing.T) {
	most := int64(0)
	for _, unit := range filler {
		for _, reply := range append(fullReplies(), fullReplies()[0]) {
			answer := strings.Repeat(unit, 64<<10/len(unit)) // the API takes no longer one
			sum := int64(0)
			for what, e := range eventsOf(t, &reply, strings.Repeat(unit, maxResultsBytes), answer) {
				switch what {
				case "failed", "denied": // instead of the others
				case "answered":
					sum += 2 * eventBytes(&e) // the approval, and a question
				default:
					sum += eventBytes(&e)
				}
			}
			question := Event{Asked: &Asked{Question: strings.Repeat("q", maxTextBytes+maxCallsBytes)}}
			nudge := Event{Nudged: &Nudged{Text: strings.Repeat("n", 48<<10)}}
			pins := int64(150 << 10) // of toolsets that are seen for the first time
			most = max(most, sum+eventBytes(&question)+eventBytes(&nudge)+pins)
		}
	}
	t.Logf("one turn adds at most %d bytes", most)
	if most > MaxTurnBytes || most < MaxTurnBytes*3/4 {
		t.Errorf("%d bytes are stated", MaxTurnBytes)
	}
}
