package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// RestartAPIServer kills the API server and starts it again with the same arguments and more, after a pause. envtest's own Stop
// and Start would give it another certificate authority, which no real restart does.
func (c *Cluster) RestartAPIServer(ctx context.Context, pause time.Duration, more ...string) error {
	pid, err := c.apiServer()
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return err
	}
	args := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	<-time.After(pause)
	if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, c.portIsFree); err != nil {
		return err
	}
	cmd := exec.Command(args[0], append(args[1:], more...)...)
	cmd.Dir = c.folder
	if err := cmd.Start(); err != nil {
		return err
	}
	c.apiServers = append(c.apiServers, cmd)
	kube, err := kubernetes.NewForConfig(c.Env.Config)
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := kube.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, nil
	})
}

// HangAPIServer stops the API server in its tracks for a time: requests get no answer, watches bring nothing, and connections stay open.
func (c *Cluster) HangAPIServer(during time.Duration) error {
	pid, err := c.apiServer()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	<-time.After(during)
	return syscall.Kill(pid, syscall.SIGCONT)
}

func (c *Cluster) address() string {
	return strings.Trim(strings.TrimPrefix(c.Env.Config.Host, "https://"), "/")
}

// portIsFree tells whether a killed API server has let go of its port: the next one would end at once otherwise.
func (c *Cluster) portIsFree(context.Context) (bool, error) {
	l, err := net.Listen("tcp", c.address())
	if err == nil {
		err = l.Close()
	}
	return err == nil, nil
}

// apiServer finds the process that listens on the cluster's port.
func (c *Cluster) apiServer() (int, error) {
	_, port, err := net.SplitHostPort(c.address())
	if err != nil {
		return 0, err
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		line := string(raw)
		if strings.Contains(line, "kube-apiserver\x00") && strings.Contains(line, "--secure-port="+port+"\x00") {
			return strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	return 0, errors.New("no kube-apiserver on port " + port)
}

// stopAPIServers ends the ones that RestartAPIServer started.
func (c *Cluster) stopAPIServers() {
	for _, cmd := range c.apiServers {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
