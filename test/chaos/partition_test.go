//go:build chaos

package chaos

import (
	"testing"
	"time"
)

// A paid reply is kept in memory, and its append is tried again, for as long as the operator may hold its tasks.
func TestThirtySecondsWithoutAnAPIServerCostNoCall(t *testing.T) {
	const away = 30 * time.Second
	tests := map[string]struct {
		managers int
		args     []string
		exact    bool
		why      string
	}{
		"one manager": {
			managers: 1, exact: true, why: "without a lease nobody else can have taken its tasks, so it keeps what it paid for",
		},
		"two managers with a lease": {
			managers: 2, args: leased, why: "the leader stops, since it cannot renew its lease: what it held may be paid again, but no effect happens twice",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Log(test.why)
			cluster, chat, effects := world(t)
			managers := startFleet(t, cluster, test.managers, test.args...)
			defer managers.stop()
			for chat.Calls() < int64(*tasks) { // all are under way
				<-time.After(100 * time.Millisecond)
			}
			if err := cluster.HangAPIServer(away); err != nil {
				t.Fatal(err)
			}
			managers.awaitAll(t)
			verify(t, cluster, chat, effects)
			t.Logf("the API server was away for %s; %d managers were started", away, managers.starts)
			if want := int64(*tasks * *turns); test.exact && chat.Calls() != want {
				t.Errorf("%d model calls were paid for %d turns", chat.Calls(), want)
			}
			if want := *tasks * (*turns - 1); test.exact && len(effects.bumps) != want {
				t.Errorf("%d side effects happened of %d", len(effects.bumps), want)
			}
		})
	}
}
