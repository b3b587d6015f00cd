package chart

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// binary is the manager, built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "chart-test-bin-")
	if err != nil {
		return "", err
	}
	stopAll = append(stopAll, func() error { return os.RemoveAll(dir) })
	out := filepath.Join(dir, "manager")
	build := exec.Command("go", "build", "-o", out, "./cmd/manager")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	text, err := build.CombinedOutput()
	if err != nil {
		return "", &exec.Error{Name: string(text), Err: err}
	}
	return out, nil
})

// manager is the operator as the chart runs it: its arguments, its ServiceAccount's token, and nothing more.
type manager struct {
	config  *rest.Config // of the ServiceAccount
	client  client.Client
	metrics string
	stop    func()
	log     *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// serviceAccountConfig is a config with a token that the API server issues for the ServiceAccount.
func (c *cluster) serviceAccountConfig(t *testing.T, ns, account string) *rest.Config {
	t.Helper()
	token := &authenticationv1.TokenRequest{}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account}}
	if err := c.SubResource("token").Create(t.Context(), sa, token); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken, config.QPS = token.Status.Token, -1
	return config
}

// startManager runs what the Deployment in ns would run in its Pod.
func (c *cluster) startManager(t *testing.T, ns, deployment string) *manager {
	t.Helper()
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: deployment}, d); err != nil {
		t.Fatal(err)
	}
	pod := d.Spec.Template.Spec
	m := &manager{config: c.serviceAccountConfig(t, ns, pod.ServiceAccountName), metrics: freeAddress(t), log: &lockedBuffer{}}
	if m.client, err = clientFor(m.config); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := c.kubeconfig(m.config, t.Name()[strings.LastIndex(t.Name(), "/")+1:]+".kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	probes := freeAddress(t)
	// The Pod's ports may be taken on this machine; everything else stays as the chart has it.
	var args []string
	for _, arg := range pod.Containers[0].Args {
		switch {
		case strings.HasPrefix(arg, "--metrics-bind-address=:"):
			arg = "--metrics-bind-address=" + m.metrics
		case strings.HasPrefix(arg, "--health-probe-bind-address="):
			arg = "--health-probe-bind-address=" + probes
		}
		args = append(args, strings.ReplaceAll(arg, "$(POD_NAMESPACE)", ns))
	}
	command := exec.Command(program, args...)
	command.Env = []string{"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=" + ns, "PATH=/nonexistent", "HOME=/nonexistent"}
	command.Stdout, command.Stderr = m.log, m.log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	m.stop = sync.OnceFunc(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the manager did not end well: %v", err)
			}
		case <-time.After(grace):
			_ = command.Process.Kill()
			t.Errorf("the manager was still there after its grace period of %s", grace)
		}
	})
	t.Cleanup(func() {
		m.stop()
		if t.Failed() {
			t.Logf("the manager's log:\n%s", m.log)
		}
	})
	for _, probe := range []string{"/readyz", "/healthz"} {
		eventually(t, 60*time.Second, func(ctx context.Context) string {
			code, err := get(ctx, "http://"+probes+probe, "")
			if err != nil {
				return err.Error()
			}
			if code != http.StatusOK {
				return probe + " answers " + http.StatusText(code)
			}
			return ""
		})
	}
	return m
}

// get is the status code of a GET. The manager signs its own certificate.
func get(ctx context.Context, url, token string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.StatusCode, nil
}
