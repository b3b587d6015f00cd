package scenarios

import (
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
)

const folder = "../../../internal/loop/testdata/scenarios"

// inProcessOnly are the scenarios that cannot be played over the wire, by name, and why.
var inProcessOnly = map[string]string{
	"blocks are read each by itself":                                                         "the content of a chat completion is one string, so its text has no blocks",
	"a panic in a tool is that call's failure":                                               "a tool server is another process: its panic cannot be one inside the operator",
	"cancel wins over a completion that arrived with it":                                     "the reply's last byte and the cancel must come in the same instant",
	"an approval without its id approves nothing":                                            "the API refuses such an answer (test/envtest)",
	"a call that was broken off by a shutdown is charged once":                               "over the wire a stream that is broken off has told no usage",
	"the clock stands still while the task waits for a slot":                                 "a wait for a slot takes calls of other tasks (internal/controller)",
	"the clock stands still while the task waits for a slot, also when it is suspended then": "a wait for a slot takes calls of other tasks (internal/controller)",
	"calls that an operator let go before they began are run by the next":                    "the controller runs the tools of a reply that it has kept before it stops",
	"operators that take a task from one another crash nothing":                              "two operators that live are played by internal/controller",
	"an interrupt that cancels holds though the spec is not seen yet":                        "the interrupt and the spec come to the controller in one watch event",
}

func load(t *testing.T) []looptest.Scenario {
	t.Helper()
	all, err := looptest.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A scenario knows nothing of who plays it, so it must end the same through the API, the controller, a provider's protocol
// and a tool server as it does in process.
func TestEveryScenarioGivesTheSameEndThroughTheRealController(t *testing.T) {
	for _, sc := range load(t) {
		if inProcessOnly[sc.Name] != "" {
			continue
		}
		t.Run(sc.File+"/"+sc.Name, func(t *testing.T) {
			t.Parallel()
			play(t, &sc)
		})
	}
}

// No scenario is left out without a reason, and none that is gone is still said to be.
func TestOnlyNamedScenariosStayInProcess(t *testing.T) {
	all := load(t)
	found := 0
	for i := range all {
		if inProcessOnly[all[i].Name] != "" {
			found++
		}
	}
	if found != len(inProcessOnly) {
		t.Errorf("%d scenarios are in process only, but %d are named so", found, len(inProcessOnly))
	}
	own := 0
	for i := range all {
		if inProcessOnly[all[i].Name] == "" && ownOperator(&all[i]) {
			own++
		}
	}
	t.Logf("%d scenarios: %d through the controller, %d of them with operators of their own; %d in process only",
		len(all), len(all)-found, own, found)
}
