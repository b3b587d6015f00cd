// Command manager runs the agenttask-operator.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/agentloop-dev/agenttask-operator/internal/controller"
	"github.com/agentloop-dev/agenttask-operator/internal/telemetry"
)

// Set by the build.
var (
	version = "dev"
	commit  = "unknown"
)

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
	c.memory = limitMemory()
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
	options.Tools, options.Metrics = controller.NewToolPool(c.memory), telemetry.NewMetrics(metrics.Registry)
	traces, err := telemetry.NewProvider(ctx, version)
	if err != nil {
		return err
	}
	if traces != nil {
		options.Tracer = telemetry.NewTracer(traces)
	}
	rest, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := c.manager(rest)
	if err != nil {
		return err
	}
	if err := controller.SetupWithManager(mgr, options); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	ready, err := newReadiness(mgr, c)
	if err != nil {
		return err
	}
	ctrl.Log.Info("Starting", "version", version, "commit", commit, "holder", options.Holder, "loopbackAllowed", !options.Guard.DenyLoopback)
	ready.ask(ctx) // starts the informers, so that the manager waits for them before it tries to lead
	go ready.run(ctx)
	err = mgr.Start(ctx)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err = errors.Join(err, options.Tools.Shutdown(end))
	if traces != nil {
		err = errors.Join(err, traces.Shutdown(end))
	}
	return err
}

// closeTimeout bounds what is closed once nothing runs any more: sessions with tool servers, and traces.
const closeTimeout = 5 * time.Second
