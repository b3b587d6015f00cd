// Package harness runs the operator as a real process against a real control plane, for the chaos suite and the benchmarks.
package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/agentloop-dev/agenttask-operator/test/controlplane"
)

// Cluster is a control plane with a client.
type Cluster struct {
	Env        *envtest.Environment
	Client     client.WithWatch
	Kubeconfig string
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

// Manager is an operator process.
type Manager struct {
	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{}
}

// StartManager starts bin/manager, which `make build` made.
func (c *Cluster) StartManager(name string, args ...string) (*Manager, error) {
	root, err := controlplane.Root()
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(filepath.Join(c.folder, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(root, "bin", "manager"), append([]string{
		"--kubeconfig", c.Kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--deny-loopback=false", // the servers of the tests are there, and in a Pod it would be true
	}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run `make build` first: %w", err)
	}
	m := &Manager{cmd: cmd, log: out, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		_ = out.Close()
		close(m.exited)
	}()
	return m, nil
}

// Signal sends a signal and waits for the end.
func (m *Manager) Signal(s syscall.Signal) {
	_ = m.cmd.Process.Signal(s)
	<-m.exited
}

// Exited tells whether the process has ended by itself.
func (m *Manager) Exited() bool {
	select {
	case <-m.exited:
		return true
	default:
		return false
	}
}

// Logs returns the last lines of all managers' logs.
func (c *Cluster) Logs(lines int) string {
	files, _ := filepath.Glob(filepath.Join(c.folder, "*.log"))
	var out []string
	for _, f := range files {
		raw, _ := os.ReadFile(f)
		all := strings.Split(strings.TrimSpace(string(raw)), "\n")
		out = append(out, all[max(0, len(all)-lines):]...)
	}
	return strings.Join(out, "\n")
}

// PeakRSS is the most memory that the process has held, in bytes.
func (m *Manager) PeakRSS() (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, errors.New("no VmHWM")
}

// CPUSeconds is the processor time that the process has used.
func (m *Manager) CPUSeconds() (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	text := string(raw)
	var user, system int64
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, errors.New("unexpected /proc/PID/stat")
	}
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, err
	}
	const ticks = 100 // USER_HZ on every Linux architecture that Go runs on
	return float64(user+system) / ticks, nil
}

// APIWrites counts, at the API server, the writes to a group's kinds and to events, by resource.
func APIWrites(ctx context.Context, cfg *rest.Config, group string) (map[string]int, error) {
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	raw, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(raw)))
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY":
		default:
			continue
		}
		if labels["group"] == group || labels["resource"] == "events" {
			out[strings.Trim(labels["resource"]+"/"+labels["subresource"], "/")] += int(m.GetCounter().GetValue())
		}
	}
	return out, nil
}
