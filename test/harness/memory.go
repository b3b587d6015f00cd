package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/agentloop-dev/agenttask-operator/test/controlplane"
)

// Memory is what an installation gives each manager.
type Memory struct {
	// Limit of the container, in bytes.
	Limit int64
	// Told is the limit as the manager is told of it in MEMORY_LIMIT, empty where it is not.
	Told string
}

// InstalledMemory is that of the chart's default values. It is read from config/manager, which `make chart-test` holds to
// what the chart renders.
func InstalledMemory() (*Memory, error) {
	root, err := controlplane.Root()
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(root, "config", "manager", "manager.yaml"))
	if err != nil {
		return nil, err
	}
	var d appsv1.Deployment
	if err := yaml.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	if len(d.Spec.Template.Spec.Containers) != 1 {
		return nil, errors.New("config/manager has not one container")
	}
	container := &d.Spec.Template.Spec.Containers[0]
	m := &Memory{Limit: container.Resources.Limits.Memory().Value()}
	if m.Limit == 0 {
		return nil, errors.New("config/manager has no memory limit")
	}
	m.Told, err = m.valueOf(container, "MEMORY_LIMIT")
	return m, err
}

// valueOf is the value that a variable of the container gets, as the kubelet would find it.
func (m *Memory) valueOf(container *corev1.Container, variable string) (string, error) {
	for i := range container.Env {
		env := &container.Env[i]
		switch {
		case env.Name != variable:
		case env.ValueFrom == nil:
			return env.Value, nil
		case env.ValueFrom.ResourceFieldRef != nil && env.ValueFrom.ResourceFieldRef.Resource == "limits.memory":
			return fmt.Sprint(m.Limit / max(1, env.ValueFrom.ResourceFieldRef.Divisor.Value())), nil
		default:
			return "", fmt.Errorf("%s comes from where no test can read it", variable)
		}
	}
	return "", nil
}

// hold makes a command run under the limit: with its MEMORY_LIMIT, and in a memory cgroup of its own where one can be made. The
// returned function removes that again once the command has ended.
func (m *Memory) hold(cmd *exec.Cmd) (release func()) {
	if m == nil {
		return func() {}
	}
	cmd.Env = append(os.Environ(), "MEMORY_LIMIT="+m.Told)
	folder := m.cgroup()
	if folder == "" {
		return func() {}
	}
	// The shell enters the group before it becomes the command, so that no byte of it is outside.
	cmd.Args = append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, folder, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return func() { _ = os.Remove(folder) }
}

// cgroup makes a memory cgroup with the limit, of version 1 or 2. It is empty where the machine does not let us.
func (m *Memory) cgroup() string {
	for _, version := range []struct{ root, limit string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"},
	} {
		folder, err := os.MkdirTemp(version.root, "agenttask-manager-")
		if err != nil {
			continue
		}
		if os.WriteFile(filepath.Join(folder, version.limit), fmt.Append(nil, m.Limit), 0o600) == nil {
			return folder
		}
		_ = os.Remove(folder)
	}
	return ""
}

// Held tells whether a cgroup can hold managers to the limit.
func (m *Memory) Held() bool {
	folder := m.cgroup()
	if folder != "" {
		_ = os.Remove(folder)
	}
	return folder != ""
}
