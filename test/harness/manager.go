package harness

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/agentloop-dev/agenttask-operator/test/controlplane"
)

// Manager is an operator process.
type Manager struct {
	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{}
}

// StartManager starts bin/manager, which `make build` made, under the cluster's Memory if it has one. The log of managers of
// one name is one.
func (c *Cluster) StartManager(name string, args ...string) (*Manager, error) {
	root, err := controlplane.Root()
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(c.logFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(root, "bin", "manager"), append([]string{
		"--kubeconfig", c.Kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--deny-loopback=false", // the servers of the tests are there, and in a Pod it would be true
	}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	release := c.Memory.hold(cmd)
	if err := cmd.Start(); err != nil {
		release()
		return nil, fmt.Errorf("run `make build` first: %w", err)
	}
	m := &Manager{cmd: cmd, log: out, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		release()
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

// Done is closed once the process has ended, by itself or not.
func (m *Manager) Done() <-chan struct{} { return m.exited }

// Exited tells whether the process has ended.
func (m *Manager) Exited() bool {
	select {
	case <-m.exited:
		return true
	default:
		return false
	}
}

// PeakRSS is the most memory that the process has held, in bytes.
func (m *Manager) PeakRSS() (int64, error) { return m.status("VmHWM") }

// RSS is the memory that the process holds, in bytes.
func (m *Manager) RSS() (int64, error) { return m.status("VmRSS") }

// status reads a size from /proc/PID/status, in bytes.
func (m *Manager) status(field string) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), field+": %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, errors.New("no " + field)
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
