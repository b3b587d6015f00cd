package main

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/controller"
)

// leaseName is the leader election lease of every installation.
const leaseName = "agenttask-operator.agentloop.dev"

func (c *config) manager(config *rest.Config) (ctrl.Manager, error) {
	options, err := c.managerOptions()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the API server's own priority and fairness limits us, and tells us when to slow down
	return ctrl.NewManager(config, options)
}

func (c *config) managerOptions() (o ctrl.Options, err error) {
	selector, err := c.selector()
	if err != nil {
		return o, err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return o, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return o, err
	}
	if c.metricsCertDir != "" {
		if _, err := tls.LoadX509KeyPair(filepath.Join(c.metricsCertDir, "tls.crt"), filepath.Join(c.metricsCertDir, "tls.key")); err != nil {
			return o, fmt.Errorf("--metrics-cert-dir is %q: name a directory with a certificate in tls.crt and its key in tls.key: %w", c.metricsCertDir, err)
		}
	}
	metricsOptions := metricsserver.Options{BindAddress: c.metricsAddr, SecureServing: c.metricsSecure, CertDir: c.metricsCertDir}
	if c.metricsSecure {
		metricsOptions.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	namespaces := map[string]cache.Config{}
	for _, ns := range split(c.watchNamespaces) {
		namespaces[ns] = cache.Config{}
	}
	drain := c.drain()
	return ctrl.Options{
		Scheme: scheme, Metrics: metricsOptions, HealthProbeBindAddress: c.probeAddr, PprofBindAddress: c.pprofAddr,
		Cache: cache.Options{
			DefaultNamespaces: namespaces,
			ByObject:          map[client.Object]cache.ByObject{&v1alpha1.AgentTask{}: {Label: selector, Transform: controller.StripCached}},
		},
		LeaderElection: c.leaderElect, LeaderElectionID: leaseName, LeaderElectionNamespace: c.leaderNamespace,
		LeaseDuration: &c.leaseDuration, RenewDeadline: &c.renewDeadline, RetryPeriod: &c.retryPeriod,
		// Safe, since the lease is released only after running calls were drained, and the process exits right after.
		LeaderElectionReleaseOnCancel: true, GracefulShutdownTimeout: &drain,
	}, nil
}

// drain is how long the controllers may take to stop: calls end, what they gave is appended, and the rest is written.
func (c *config) drain() time.Duration {
	return c.shutdownGrace + controller.AppendTimeout + 5*time.Second
}
