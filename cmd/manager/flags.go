package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/controller"
	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/resolve"
)

// config is what the flags say.
type config struct {
	metricsAddr, probeAddr           string
	pprofAddr                        string
	metricsSecure                    bool
	metricsCertDir                   string
	leaderElect                      bool
	leaderNamespace                  string
	watchNamespaces                  string
	watchLabelSelector               string
	secretNamespaces                 string
	defaultModel                     string
	maxJournalBytes                  string
	allowEgress                      string
	denyLoopback, denyPrivate        bool
	secretPolicy                     string
	allowPlaintext                   bool
	maxConcurrentTurns, turnAttempts int
	statusInterval, shutdownGrace    time.Duration
	maxCallTimeout                   time.Duration
	leaseDuration, renewDeadline     time.Duration
	retryPeriod                      time.Duration
	showVersion                      bool
	// memory is what the process may take, in bytes; 0 for no limit.
	memory int64
}

// allNamespaces as a flag's value is all that the manager works in.
const allNamespaces = "*"

// inCluster tells whether the manager runs in a pod.
func inCluster() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

func (c *config) bind(fs *flag.FlagSet) {
	fs.StringVar(&c.metricsAddr, "metrics-bind-address", ":8443", "address of the metrics endpoint; 0 switches it off")
	fs.BoolVar(&c.metricsSecure, "metrics-secure", true, "serve metrics by HTTPS, to those whom the API server allows")
	fs.StringVar(&c.metricsCertDir, "metrics-cert-dir", "", "directory with tls.crt and tls.key to serve metrics with, read anew when they change; a certificate that is signed at each start by default")
	fs.StringVar(&c.probeAddr, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 switches them off")
	fs.StringVar(&c.pprofAddr, "pprof-bind-address", "", "address of net/http/pprof, without authentication: keep it on loopback; off by default")
	fs.BoolVar(&c.leaderElect, "leader-elect", false, "run as one of several replicas, of which one works")
	fs.StringVar(&c.leaderNamespace, "leader-election-namespace", "", "namespace of the lease; the pod's own by default")
	fs.DurationVar(&c.leaseDuration, "leader-election-lease-duration", 15*time.Second, "how long others wait for a leader that does not renew its lease")
	fs.DurationVar(&c.renewDeadline, "leader-election-renew-deadline", 10*time.Second, "how long a leader tries to renew its lease before it stops")
	fs.DurationVar(&c.retryPeriod, "leader-election-retry-period", 2*time.Second, "time between two tries to get or renew the lease")
	fs.StringVar(&c.watchNamespaces, "watch-namespaces", "", "comma-separated namespaces to work in; all by default")
	fs.StringVar(&c.watchLabelSelector, "watch-label-selector", "", "label selector of the AgentTasks to run, such as team=a; all by default")
	fs.StringVar(&c.secretNamespaces, "secret-namespaces", allNamespaces, "comma-separated namespaces whose Secrets the operator must be allowed to get before it is ready; * for all that it works in")
	fs.IntVar(&c.maxConcurrentTurns, "max-concurrent-turns", 256, "turns that run at once, over all tasks")
	fs.DurationVar(&c.statusInterval, "status-interval", time.Second, "shortest time between two status writes of one task, unless its phase, exit reason or question changes")
	fs.IntVar(&c.turnAttempts, "max-turn-attempts", 3, "times that one turn may end in a crash of the operator before its task fails as TurnCrashed")
	fs.StringVar(&c.maxJournalBytes, "max-journal-bytes", "32Mi", "size at which a task's journal ends it, in bytes or as a quantity")
	fs.DurationVar(&c.maxCallTimeout, "max-call-timeout", resolve.DefaultMaxCallTimeout, "longest requestTimeout, callTimeout and scripted delay; a larger one in an object is lowered, and its Ready condition says so")
	fs.DurationVar(&c.shutdownGrace, "shutdown-grace", 30*time.Second, "time that running calls get to end when the operator is stopped")
	fs.StringVar(&c.defaultModel, "default-model", "", "namespace/name of the AgentModel for tasks without modelRef, where their namespace has none named default")
	fs.StringVar(&c.allowEgress, "allow-egress", "", "comma-separated CIDRs that models and toolsets may be in although they are refused (link-local; loopback and private ones, where those are denied), and to which credentials may go by http")
	fs.BoolVar(&c.denyLoopback, "deny-loopback", inCluster(), "refuse model and tool servers on loopback addresses; true in a cluster")
	fs.BoolVar(&c.denyPrivate, "deny-private-networks", false, "refuse model and tool servers on private addresses, such as those of Pods and Services; --allow-egress opens some of them")
	fs.StringVar(&c.secretPolicy, "secret-policy", string(resolve.SecretsAny), "Secrets that models and tools may use: Any, or Labelled, which are those with the label "+v1alpha1.LabelAllowUse+"=true or of type "+v1alpha1.SecretTypeCredentials)
	fs.BoolVar(&c.allowPlaintext, "allow-plaintext-credentials", false, "let http:// carry what is from a Secret to public addresses too; private ones and loopback are always allowed")
	fs.BoolVar(&c.showVersion, "version", false, "print the version and exit")
}

// controllerOptions are those of the controllers. An error names the flag, what was given and what to write instead.
func (c *config) controllerOptions() (o controller.Options, err error) {
	for _, f := range []struct {
		name string
		got  int
	}{{"max-concurrent-turns", c.maxConcurrentTurns}, {"max-turn-attempts", c.turnAttempts}} {
		if f.got < 1 {
			return o, fmt.Errorf("--%s is %d: use 1 or more", f.name, f.got)
		}
	}
	if c.statusInterval < 0 || c.shutdownGrace < 0 {
		return o, fmt.Errorf("--status-interval and --shutdown-grace cannot be negative: use a duration such as 1s")
	}
	if c.maxCallTimeout <= 0 {
		return o, fmt.Errorf("--max-call-timeout is %s: use a duration such as 1h", c.maxCallTimeout)
	}
	policy := resolve.SecretPolicy(c.secretPolicy)
	if policy != resolve.SecretsAny && policy != resolve.SecretsLabelled {
		return o, fmt.Errorf("--secret-policy is %q: write %s or %s", policy, resolve.SecretsAny, resolve.SecretsLabelled)
	}
	o = controller.Options{
		Holder: holder(), MaxConcurrentTurns: c.maxConcurrentTurns, StatusInterval: c.statusInterval,
		MaxTurnAttempts: c.turnAttempts, ShutdownGrace: c.shutdownGrace, MaxCallTimeout: c.maxCallTimeout, Memory: c.memory,
		SecretPolicy: policy, AllowPlaintextCredentials: c.allowPlaintext,
		Guard: &egress.Guard{DenyLoopback: c.denyLoopback, DenyPrivate: c.denyPrivate, OnFailure: logUnreachable},
	}
	if o.MaxJournalBytes, err = c.journalBytes(); err != nil {
		return o, err
	}
	if o.DefaultModel, err = c.model(); err != nil {
		return o, err
	}
	o.Guard.Allow, err = c.allowed()
	return o, err
}

// logUnreachable tells who runs the operator what the author of an endpoint inside is not told.
func logUnreachable(ctx context.Context, f egress.Failure) {
	log.FromContext(ctx).Info("An endpoint within own networks could not be reached", "host", f.Host, "reason", f.Reason)
}

// The bounds of --max-journal-bytes, which are those of spec.maxJournalBytes.
const minJournalBytes, mostJournalBytes = 64 << 10, 1 << 30

func (c *config) journalBytes() (int64, error) {
	quantity, err := resource.ParseQuantity(c.maxJournalBytes)
	bytes, whole := quantity.AsInt64()
	if err != nil || !whole || bytes < minJournalBytes || bytes > mostJournalBytes {
		return 0, fmt.Errorf("--max-journal-bytes is %q: write whole bytes, or a quantity such as 32Mi, from 64Ki to 1Gi", c.maxJournalBytes)
	}
	return bytes, nil
}

func (c *config) model() (out types.NamespacedName, err error) {
	if c.defaultModel == "" {
		return out, nil
	}
	ns, name, ok := strings.Cut(c.defaultModel, "/")
	if !ok || ns == "" || name == "" {
		return out, fmt.Errorf("--default-model is %q: write namespace/name", c.defaultModel)
	}
	if watched := split(c.watchNamespaces); len(watched) > 0 && !slices.Contains(watched, ns) {
		return out, fmt.Errorf("--default-model is %q, but --watch-namespaces is %q: add %s there, or name a model in one of these",
			c.defaultModel, c.watchNamespaces, ns)
	}
	return types.NamespacedName{Namespace: ns, Name: name}, nil
}

func (c *config) allowed() (out []netip.Prefix, err error) {
	for _, cidr := range split(c.allowEgress) {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("--allow-egress has %q: write CIDRs such as 127.0.0.1/32", cidr)
		}
		out = append(out, prefix)
	}
	return out, nil
}

// selector selects the AgentTasks to run.
func (c *config) selector() (labels.Selector, error) {
	selector, err := labels.Parse(c.watchLabelSelector)
	if err != nil {
		return nil, fmt.Errorf("--watch-label-selector is %q: write a label selector such as team=a, or team notin (a,b): %w", c.watchLabelSelector, err)
	}
	return selector, nil
}

// holder names this process; its random part keeps two processes of one host apart.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + string(uuid.NewUUID())
}

func split(list string) []string {
	var out []string
	for _, part := range strings.Split(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
