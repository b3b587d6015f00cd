package modeltest

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// startTimeout is how long a server may take to listen.
const startTimeout = time.Minute

// npm installs the servers once a test process.
var npm = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(filepath.Join(root, "hack", "npm", "install.sh")).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
})

// NPM is the folder that holds node_modules with the servers of hack/npm, installed first where that was not done yet.
func NPM(t testing.TB) string {
	t.Helper()
	dir, err := npm()
	if err != nil {
		t.Fatalf("the servers of hack/npm cannot be installed: %v", err)
	}
	return dir
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the test")
		}
	}
	return "", err
}

// NodeServer is how to start one server.
type NodeServer struct {
	// Script is the path of its JavaScript below node_modules, such as @copilotkit/aimock/dist/cli.js.
	Script string
	// Args and Env may hold $PORT, which becomes the port to listen on.
	Args []string
	Env  []string
	// Dir is where it runs; empty is the test's own folder.
	Dir string
}

// StartNode starts a server on a free port of 127.0.0.1, waits until it listens, and returns "127.0.0.1:port". It is
// killed when the test ends; what it printed is logged when the test failed.
func StartNode(t testing.TB, s NodeServer) string {
	t.Helper()
	dir := NPM(t)
	port := freePort(t)
	fill := func(in []string) []string {
		out := make([]string, len(in))
		for i, v := range in {
			out[i] = strings.ReplaceAll(v, "$PORT", port)
		}
		return out
	}
	args := append([]string{filepath.Join(dir, "node_modules", filepath.FromSlash(s.Script))}, fill(s.Args)...)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Env = append(os.Environ(), fill(s.Env)...)
	cmd.Dir = s.Dir
	var printed strings.Builder // read only after the process ended
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatalf("node cannot be started: %v", err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	t.Cleanup(func() {
		cancel()
		<-exited
		if t.Failed() {
			t.Logf("%s printed:\n%s", s.Script, printed.String())
		}
	})
	addr := net.JoinHostPort("127.0.0.1", port)
	if err := waitListening(addr, exited); err != nil {
		t.Fatalf("%s: %v", s.Script, err)
	}
	return addr
}

// waitListening tries to connect until it works, the process ended or startTimeout is over.
func waitListening(addr string, exited <-chan struct{}) error {
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if conn, err := net.Dial("tcp", addr); err == nil {
			return conn.Close()
		}
		select {
		case <-exited:
			return errors.New("it ended before it listened")
		case <-timeout.C:
			return errors.New("it does not listen after " + startTimeout.String())
		case <-again.C:
		}
	}
}

// freePort finds a port that nobody listens on. Another process could take it before the server does, which the server
// then says.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
