// Package harness runs the operator as a real process against a real control plane, for the suites and the benchmarks.
package harness

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/agentloop-dev/agenttask-operator/test/controlplane"
)

// Cluster is a control plane with a client.
type Cluster struct {
	Env        *envtest.Environment
	Client     client.WithWatch
	Kubeconfig string
	// Memory is what each manager gets that is started from now on; nil for no limit.
	Memory     *Memory
	folder     string
	apiServers []*exec.Cmd
}

// Start starts a control plane that stops with the test.
func Start(t testing.TB) *Cluster {
	t.Helper()
	env, err := controlplane.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Log(err)
		}
	})
	env.Config.QPS = -1
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: controlplane.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := &Cluster{Env: env, Client: c, Kubeconfig: kubeconfig, folder: folder}
	t.Cleanup(cluster.stopAPIServers)
	return cluster
}

// Create makes objects as fast as the API server takes them, in any order.
func (c *Cluster) Create(ctx context.Context, objects ...client.Object) error {
	const writers = 64
	var (
		wg    sync.WaitGroup
		slots = make(chan struct{}, writers)
		errs  = make([]error, len(objects))
	)
	for i, o := range objects {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = c.Client.Create(ctx, o)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) logFile(name string) string { return filepath.Join(c.folder, name+".log") }

// Log is all that the managers of one name have logged.
func (c *Cluster) Log(name string) (string, error) {
	raw, err := os.ReadFile(c.logFile(name))
	return string(raw), err
}

// Logs returns the last lines of all managers' logs.
func (c *Cluster) Logs(lines int) string {
	files, _ := filepath.Glob(c.logFile("*"))
	var out []string
	for _, f := range files {
		raw, _ := os.ReadFile(f)
		all := strings.Split(strings.TrimSpace(string(raw)), "\n")
		out = append(out, all[max(0, len(all)-lines):]...)
	}
	return strings.Join(out, "\n")
}
