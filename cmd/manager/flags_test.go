package main

import (
	"flag"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/controller"
	"github.com/agentloop-dev/agenttask-operator/internal/resolve"
)

func parse(t *testing.T, args ...string) *config {
	t.Helper()
	var c config
	fs := flag.NewFlagSet("manager", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	c.bind(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestAFlagThatCannotBeMeantIsRefusedWithWhatToWrite(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		// want are the flag, what was given, and what to write.
		want []string
	}{
		"no turns":                   {[]string{"--max-concurrent-turns=0"}, []string{"--max-concurrent-turns is 0", "use 1 or more"}},
		"no attempts":                {[]string{"--max-turn-attempts=-1"}, []string{"--max-turn-attempts is -1", "use 1 or more"}},
		"a negative duration":        {[]string{"--shutdown-grace=-1s"}, []string{"--shutdown-grace", "1s"}},
		"a model without namespace":  {[]string{"--default-model=gpt"}, []string{`--default-model is "gpt"`, "write namespace/name"}},
		"an address that is no CIDR": {[]string{"--allow-egress=10.0.0.1"}, []string{`--allow-egress has "10.0.0.1"`, "127.0.0.1/32"}},
		"a policy that is none":      {[]string{"--secret-policy=labelled"}, []string{`--secret-policy is "labelled"`, "write Any or Labelled"}},
		"a model that is not watched": {
			[]string{"--default-model=models/gpt", "--watch-namespaces=team-a,team-b"},
			[]string{`--default-model is "models/gpt"`, `--watch-namespaces is "team-a,team-b"`, "add models there"},
		},
		"no certificate for the metrics": {[]string{"--metrics-cert-dir=/nonexistent"}, []string{`--metrics-cert-dir is "/nonexistent"`, "tls.crt"}},

		"no selector": {[]string{"--watch-label-selector=team in (a"}, []string{`--watch-label-selector is "team in (a"`, "team=a"}},
		"two values":  {[]string{"--watch-label-selector=team=a=b"}, []string{`--watch-label-selector is "team=a=b"`, "team=a"}},

		"journals of no size":            {[]string{"--max-journal-bytes="}, []string{`--max-journal-bytes is ""`, "32Mi"}},
		"journals of nothing":            {[]string{"--max-journal-bytes=0"}, []string{`--max-journal-bytes is "0"`, "64Ki"}},
		"journals of less than nothing":  {[]string{"--max-journal-bytes=-32Mi"}, []string{`--max-journal-bytes is "-32Mi"`, "64Ki"}},
		"journals of half a byte":        {[]string{"--max-journal-bytes=100000500m"}, []string{`--max-journal-bytes is "100000500m"`, "whole bytes"}},
		"journals too small for a turn":  {[]string{"--max-journal-bytes=65535"}, []string{`--max-journal-bytes is "65535"`, "64Ki"}},
		"journals larger than any store": {[]string{"--max-journal-bytes=99Ei"}, []string{`--max-journal-bytes is "99Ei"`, "1Gi"}},
		"a unit that does not exist":     {[]string{"--max-journal-bytes=32MB"}, []string{`--max-journal-bytes is "32MB"`, "32Mi"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := parse(t, c.args...)
			_, err := config.controllerOptions()
			if err == nil {
				_, err = config.managerOptions()
			}
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%q is no sentence that has %q", err, want)
				}
			}
		})
	}
}

func TestJournalsAreBoundedInBytesOrByAQuantity(t *testing.T) {
	for given, want := range map[string]int64{"": 32 << 20, "65536": 64 << 10, "100Mi": 100 << 20, "1e6": 1_000_000, "2M": 2_000_000, "1Gi": 1 << 30} {
		args := []string{"--max-journal-bytes=" + given}
		if given == "" {
			args = nil
		}
		if got, err := parse(t, args...).journalBytes(); err != nil || got != want {
			t.Errorf("%q: %d %v, want %d", given, got, err, want)
		}
	}
}

func TestOptionsFollowTheFlags(t *testing.T) {
	o, err := parse(t, "--default-model=team-b/gpt", "--watch-namespaces= team-a, team-b", "--max-journal-bytes=1Mi",
		"--allow-egress=127.0.0.1/32,::1/128", "--max-concurrent-turns=7",
		"--secret-policy=Labelled", "--allow-plaintext-credentials", "--deny-private-networks").controllerOptions()
	if err != nil {
		t.Fatal(err)
	}
	if o.SecretPolicy != resolve.SecretsLabelled || !o.AllowPlaintextCredentials || !o.Guard.DenyPrivate || o.Guard.OnFailure == nil {
		t.Errorf("%+v", o)
	}
	byDefault, err := parse(t).controllerOptions()
	if err != nil || byDefault.SecretPolicy != resolve.SecretsAny || byDefault.AllowPlaintextCredentials || byDefault.Guard.DenyPrivate {
		t.Errorf("by default %+v, %v", byDefault, err)
	}
	if o.DefaultModel != (types.NamespacedName{Namespace: "team-b", Name: "gpt"}) || o.MaxJournalBytes != 1<<20 ||
		len(o.Guard.Allow) != 2 || o.MaxConcurrentTurns != 7 || o.Holder == "" {
		t.Errorf("%+v", o)
	}
}

func TestTheCacheHoldsTheTasksThatAreAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		args       []string
		selects    []labels.Set
		not        []labels.Set
		namespaces []string
	}{
		"everything":             {nil, []labels.Set{nil, {"team": "a"}}, nil, nil},
		"an empty selector":      {[]string{"--watch-label-selector="}, []labels.Set{nil, {"team": "a"}}, nil, nil},
		"one team":               {[]string{"--watch-label-selector=team=a"}, []labels.Set{{"team": "a"}}, []labels.Set{nil, {"team": "b"}}, nil},
		"all the others":         {[]string{"--watch-label-selector=team notin (a)"}, []labels.Set{nil, {"team": "b"}}, []labels.Set{{"team": "a"}}, nil},
		"a team in its rooms":    {[]string{"--watch-label-selector=team=a", "--watch-namespaces=x,y"}, []labels.Set{{"team": "a"}}, []labels.Set{nil}, []string{"x", "y"}},
		"namespaces without one": {[]string{"--watch-namespaces=x"}, []labels.Set{nil, {"team": "a"}}, nil, []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(t, c.args...).managerOptions()
			if err != nil {
				t.Fatal(err)
			}
			if len(o.Cache.ByObject) != 1 || len(o.Cache.DefaultNamespaces) != len(c.namespaces) {
				t.Errorf("%+v", o.Cache)
			}
			for _, ns := range c.namespaces {
				if _, ok := o.Cache.DefaultNamespaces[ns]; !ok {
					t.Errorf("namespace %s is left out", ns)
				}
			}
			for object, by := range o.Cache.ByObject {
				if _, ok := object.(*v1alpha1.AgentTask); !ok || by.Namespaces != nil {
					t.Errorf("%T is selected, in %v", object, by.Namespaces)
				}
				checkSelector(t, by, c.selects, c.not)
			}
		})
	}
}

func checkSelector(t *testing.T, by cache.ByObject, selects, not []labels.Set) {
	t.Helper()
	for _, set := range selects {
		if !by.Label.Matches(set) {
			t.Errorf("%v is left out", set)
		}
	}
	for _, set := range not {
		if by.Label.Matches(set) {
			t.Errorf("%v is selected", set)
		}
	}
}

// A drain that is shorter than what it waits for loses replies that are paid for.
func TestTheDrainOutlastsCallsAndTheAppendsAfterThem(t *testing.T) {
	for _, grace := range []time.Duration{0, 30 * time.Second, time.Hour} {
		o, err := parse(t, "--shutdown-grace="+grace.String()).managerOptions()
		if err != nil {
			t.Fatal(err)
		}
		if got, least := *o.GracefulShutdownTimeout, grace+controller.AppendTimeout; got <= least {
			t.Errorf("the drain takes at most %s, but calls and an append %s", got, least)
		}
	}
}

// The page that people read knows every flag, and no other.
func TestTheDocsListEveryFlag(t *testing.T) {
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| (`([^`]*)`)?").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = row[3]
	}
	var c config
	fs := flag.NewFlagSet("manager", flag.ContinueOnError)
	c.bind(fs)
	fs.VisitAll(func(f *flag.Flag) {
		got, ok := documented[f.Name]
		if !ok {
			t.Errorf("--%s is not in docs/install.md", f.Name)
			return
		}
		if f.Name != "deny-loopback" && got != f.DefValue { // whose default depends on where it runs
			t.Errorf("docs/install.md says that --%s is %q by default, but it is %q", f.Name, got, f.DefValue)
		}
		delete(documented, f.Name)
	})
	for name := range documented {
		t.Errorf("docs/install.md has --%s, which does not exist", name)
	}
}
