package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// replica is a manager that another one does not let lead.
type replica struct {
	t     *testing.T
	probe string
	// tick lets it ask once more for what is missing, until it has found all.
	tick  chan time.Time
	found chan struct{}
	mu    sync.Mutex
	log   strings.Builder
}

func startReplica(t *testing.T, s *apiServer, args ...string) *replica {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	c := parse(t, append([]string{"--leader-elect", "--leader-election-namespace=ops", "--metrics-bind-address=0",
		"--health-probe-bind-address=" + address}, args...)...)
	mgr, err := c.manager(s.config())
	if err != nil {
		t.Fatal(err)
	}
	ready, err := newReadiness(mgr, c)
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{t: t, probe: "http://" + address, tick: make(chan time.Time), found: make(chan struct{})}
	ready.after = func(time.Duration) <-chan time.Time { return r.tick }
	ready.log = funcr.New(func(_, line string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.log.WriteString(line + "\n")
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ready.ask(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(r.found)
		ready.run(ctx)
	})
	wg.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		s.CloseClientConnections()
		cancel()
		wg.Wait()
	})
	return r
}

// get is the answer of a probe, once the server is there.
func (r *replica) get(path string) (code int, body string) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		response, err := http.Get(r.probe + path)
		if err == nil {
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			return response.StatusCode, string(text)
		}
		if time.Now().After(deadline) {
			r.t.Fatal(err)
		}
	}
}

// failed are the checks that /readyz names as failed.
func (r *replica) failed() (names []string) {
	r.t.Helper()
	code, body := r.get("/readyz")
	for _, m := range regexp.MustCompile(`(?m)^\[-\](\S+) `).FindAllStringSubmatch(body, -1) {
		names = append(names, m[1])
	}
	if (code == http.StatusOK) != (len(names) == 0) {
		r.t.Errorf("%d: %s", code, body)
	}
	return names
}

// await lets it ask again until these are missing and nothing else.
func (r *replica) await(want ...string) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		got := r.failed()
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("missing: %q, want %q", got, want)
		}
		select {
		case r.tick <- time.Time{}:
		case <-r.found:
		}
	}
}

func (r *replica) wantLog(want string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !strings.Contains(r.log.String(), want) {
		r.t.Errorf("the log lacks %q:\n%s", want, r.log.String())
	}
}

func TestAReplicaThatDoesNotLeadIsReadyOnceItSeesAndMayDoAll(t *testing.T) {
	s := newAPIServer(t)
	r := startReplica(t, s, "--watch-namespaces=team-a,team-b", "--watch-label-selector=team=a")
	r.await()
	s.mu.Lock()
	defer s.mu.Unlock()
	for list, want := range map[string]string{
		"agenttasks team-a": "team=a", "agenttasks team-b": "team=a", "agentmodels team-a": "", "agenttoolsets team-b": "",
	} {
		if got, ok := s.selectors[list]; !ok || got != want {
			t.Errorf("%s: listed %v by %q, want %q", list, ok, got, want)
		}
	}
}

func TestWhatIsMissingIsNamedAndAskedForUntilItIsThere(t *testing.T) {
	s := newAPIServer(t)
	s.missing["agenttoolsets"], s.silent["agentmodels"], s.answered = true, true, make(chan struct{})
	s.denied["get secrets team-b"], s.denied["update agenttasks/status team-a"] = true, true
	r := startReplica(t, s, "--watch-namespaces=team-a,team-b")
	r.await("agentmodels-synced", "agenttoolsets-synced", "may-get-secrets", "may-update-agenttasks-status")
	for range 2 { // when it asks for the second time, the first is in the log
		r.tick <- time.Time{}
	}
	for path, want := range map[string]string{
		"/readyz/may-get-secrets":      "team-b",
		"/readyz/agentmodels-synced":   "not all agentmodels have been seen yet",
		"/readyz/agenttoolsets-synced": "install the CRDs of this version",
	} {
		if code, body := r.get(path); code != http.StatusInternalServerError || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %q", path, code, body, want)
		}
		r.wantLog(want)
	}

	close(s.answered)
	s.change(func() { delete(s.missing, "agenttoolsets") })
	r.await("may-get-secrets", "may-update-agenttasks-status")
	s.change(func() { delete(s.denied, "get secrets team-b") })
	r.await("may-update-agenttasks-status")
	s.change(func() { clear(s.denied) })
	r.await()
	<-r.found
	r.wantLog("Ready")
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.asked["get secrets team-a"]; n != 1 {
		t.Errorf("it asked %d times for what it was allowed at once", n)
	}
}

func TestSecretsAreAskedForWhereTheyMayBeReadOnly(t *testing.T) {
	for name, c := range map[string]struct {
		flag  string
		asked []string
	}{
		"one namespace of two": {"team-b", []string{"get secrets team-b"}},
		"none":                 {"", nil},
		"all that are watched": {"*", []string{"get secrets team-a", "get secrets team-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			r := startReplica(t, s, "--watch-namespaces=team-a,team-b", "--secret-namespaces="+c.flag)
			r.await()
			s.mu.Lock()
			defer s.mu.Unlock()
			var asked []string
			for what := range s.asked {
				if strings.Contains(what, " secrets ") {
					asked = append(asked, what)
				}
			}
			slices.Sort(asked)
			if !slices.Equal(asked, c.asked) {
				t.Errorf("it asked for %q, want %q", asked, c.asked)
			}
		})
	}
}

func TestAnAPIServerThatDoesNotAnswerIsNoPermission(t *testing.T) {
	s := newAPIServer(t)
	s.failing = true
	r := startReplica(t, s)
	if failed := r.failed(); !slices.Contains(failed, "may-get-secrets") {
		t.Errorf("missing: %q", failed)
	}
	s.change(func() { s.failing, s.denied["get secrets "] = false, true })
	r.await("may-get-secrets")
	if _, body := r.get("/readyz/may-get-secrets"); !strings.Contains(body, "in all namespaces") {
		t.Error(body)
	}
	s.change(func() { clear(s.denied) })
	r.await()
}

// A permission that the chart does not give would keep every replica from being ready.
func TestEveryPermissionAskedForIsOneThatIsGiven(t *testing.T) {
	text, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(text, role); err != nil {
		t.Fatal(err)
	}
	for _, p := range append(slices.Clone(mustDo), getSecrets) {
		resource := strings.TrimSuffix(p.Resource+"/"+p.Subresource, "/")
		if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, p.Group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, p.Verb)
		}) {
			t.Errorf("%s is not given by config/rbac/role.yaml", nameOf(p))
		}
	}
}
