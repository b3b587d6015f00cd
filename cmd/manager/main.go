// Command manager runs the agenttask-operator.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/controller"
	"github.com/agentloop-dev/agenttask-operator/internal/model/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/telemetry"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/mcp"
)

// Set by the build.
var (
	version = "dev"
	commit  = "unknown"
)

// leaseName is the leader election lease of every installation.
const leaseName = "agenttask-operator.agentloop.dev"

type config struct {
	metricsAddr, probeAddr           string
	pprofAddr                        string
	metricsSecure                    bool
	leaderElect                      bool
	leaderNamespace                  string
	watchNamespaces                  string
	defaultModel                     string
	allowEgress                      string
	denyLoopback                     bool
	maxConcurrentTurns, turnAttempts int
	statusInterval, shutdownGrace    time.Duration
	maxCallTimeout                   time.Duration
	leaseDuration, renewDeadline     time.Duration
	retryPeriod                      time.Duration
	showVersion                      bool
}

// inCluster tells whether the manager runs in a pod.
func inCluster() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

func (c *config) bind(fs *flag.FlagSet) {
	fs.StringVar(&c.metricsAddr, "metrics-bind-address", ":8443", "address of the metrics endpoint; 0 switches it off")
	fs.BoolVar(&c.metricsSecure, "metrics-secure", true, "serve metrics by HTTPS, to those whom the API server allows")
	fs.StringVar(&c.probeAddr, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 switches them off")
	fs.StringVar(&c.pprofAddr, "pprof-bind-address", "", "address of net/http/pprof, without authentication: keep it on loopback; off by default")
	fs.BoolVar(&c.leaderElect, "leader-elect", false, "run as one of several replicas, of which one works")
	fs.StringVar(&c.leaderNamespace, "leader-election-namespace", "", "namespace of the lease; the pod's own by default")
	fs.DurationVar(&c.leaseDuration, "leader-election-lease-duration", 15*time.Second, "how long others wait for a leader that does not renew its lease")
	fs.DurationVar(&c.renewDeadline, "leader-election-renew-deadline", 10*time.Second, "how long a leader tries to renew its lease before it stops")
	fs.DurationVar(&c.retryPeriod, "leader-election-retry-period", 2*time.Second, "time between two tries to get or renew the lease")
	fs.StringVar(&c.watchNamespaces, "watch-namespaces", "", "comma-separated namespaces to work in; all by default")
	fs.IntVar(&c.maxConcurrentTurns, "max-concurrent-turns", 256, "turns that run at once, over all tasks")
	fs.DurationVar(&c.statusInterval, "status-interval", time.Second, "shortest time between two status writes of one task, unless its phase, exit reason or question changes")
	fs.IntVar(&c.turnAttempts, "max-turn-attempts", 3, "times that one turn may end in a crash of the operator before its task fails as TurnCrashed")
	fs.DurationVar(&c.shutdownGrace, "shutdown-grace", 30*time.Second, "time that running calls get to end when the operator is stopped")
	fs.DurationVar(&c.maxCallTimeout, "max-call-timeout", controller.DefaultMaxCallTimeout, "longest requestTimeout, callTimeout and scripted delay; a larger one in an object is lowered, and its Ready condition says so")
	fs.StringVar(&c.defaultModel, "default-model", "", "namespace/name of the AgentModel for tasks without modelRef, where their namespace has none named default")
	fs.StringVar(&c.allowEgress, "allow-egress", "", "comma-separated CIDRs that models and toolsets may be in although they are refused by default (link-local, loopback)")
	fs.BoolVar(&c.denyLoopback, "deny-loopback", inCluster(), "refuse model and tool servers on loopback addresses; true in a cluster")
	fs.BoolVar(&c.showVersion, "version", false, "print the version and exit")
}

func main() {
	var c config
	c.bind(flag.CommandLine)
	zapOptions := zap.Options{}
	zapOptions.BindFlags(flag.CommandLine)
	flag.Parse()
	if c.showVersion {
		fmt.Printf("agenttask-operator %s (%s)\n", version, commit)
		return
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&zapOptions)))
	if err := run(ctrl.SetupSignalHandler(), &c); err != nil {
		ctrl.Log.Error(err, "The operator stops")
		os.Exit(1)
	}
}

func run(ctx context.Context, c *config) error {
	options, err := c.controllerOptions()
	if err != nil {
		return err
	}
	traces, err := telemetry.NewProvider(ctx, version)
	if err != nil {
		return err
	}
	if traces != nil {
		options.Tracer = telemetry.NewTracer(traces)
	}
	mgr, err := c.manager()
	if err != nil {
		return err
	}
	if err := controller.SetupWithManager(mgr, options); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	ctrl.Log.Info("Starting", "version", version, "commit", commit, "holder", options.Holder, "loopbackAllowed", !options.Guard.DenyLoopback)
	err = mgr.Start(ctx)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, options.Tools.Shutdown(end))
	if traces != nil {
		err = errors.Join(err, traces.Shutdown(end))
	}
	return err
}

func (c *config) controllerOptions() (controller.Options, error) {
	o := controller.Options{
		Holder: holder(), MaxConcurrentTurns: c.maxConcurrentTurns, StatusInterval: c.statusInterval,
		Tools:           mcp.NewPool(),
		Metrics:         telemetry.NewMetrics(metrics.Registry),
		MaxTurnAttempts: c.turnAttempts, ShutdownGrace: c.shutdownGrace, MaxCallTimeout: c.maxCallTimeout,
		Guard: &egress.Guard{DenyLoopback: c.denyLoopback},
	}
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
	if c.defaultModel != "" {
		ns, name, ok := strings.Cut(c.defaultModel, "/")
		if !ok || ns == "" || name == "" {
			return o, fmt.Errorf("--default-model is %q: write namespace/name", c.defaultModel)
		}
		o.DefaultModel = types.NamespacedName{Namespace: ns, Name: name}
	}
	for _, cidr := range split(c.allowEgress) {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return o, fmt.Errorf("--allow-egress has %q: write CIDRs such as 127.0.0.1/32", cidr)
		}
		o.Guard.Allow = append(o.Guard.Allow, prefix)
	}
	return o, nil
}

func (c *config) manager() (ctrl.Manager, error) {
	rest, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	rest.QPS = -1 // the API server's own priority and fairness limits us, and tells us when to slow down
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metricsOptions := metricsserver.Options{BindAddress: c.metricsAddr, SecureServing: c.metricsSecure}
	if c.metricsSecure {
		metricsOptions.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	namespaces := map[string]cache.Config{}
	for _, ns := range split(c.watchNamespaces) {
		namespaces[ns] = cache.Config{}
	}
	drain := c.shutdownGrace + 15*time.Second // calls, and then the appends of what they gave
	return ctrl.NewManager(rest, ctrl.Options{
		Scheme: scheme, Metrics: metricsOptions, HealthProbeBindAddress: c.probeAddr, PprofBindAddress: c.pprofAddr,
		Cache:          cache.Options{DefaultNamespaces: namespaces},
		LeaderElection: c.leaderElect, LeaderElectionID: leaseName, LeaderElectionNamespace: c.leaderNamespace,
		LeaseDuration: &c.leaseDuration, RenewDeadline: &c.renewDeadline, RetryPeriod: &c.retryPeriod,
		// Safe, since the lease is released only after running calls were drained, and the process exits right after.
		LeaderElectionReleaseOnCancel: true, GracefulShutdownTimeout: &drain,
	})
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
