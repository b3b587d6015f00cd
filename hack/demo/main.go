// Command demo starts a control plane and the operator. It runs the tasks of config/samples and shows them until each has
// ended; with -keep it stays up for use by hand.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/agentloop-dev/agenttask-operator/test/controlplane"
)

func main() {
	log.SetLogger(logr.Discard())
	keep := flag.Bool("keep", false, "stay up, without running the samples")
	manager := flag.String("manager", "bin/manager", "the operator's program")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *manager, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nfailed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, manager string, keep bool) (err error) {
	fmt.Println("Starting a control plane (kube-apiserver and etcd) ...")
	env, err := controlplane.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	folder, err := os.MkdirTemp("", "agenttask-demo-")
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		return err
	}
	logFile := filepath.Join(folder, "operator.log")
	stopOperator, err := startOperator(manager, kubeconfig, logFile)
	if err != nil {
		return err
	}
	defer stopOperator()
	fmt.Printf("The operator runs, its log is %s\n", logFile)
	if keep {
		return stayUp(ctx, kubeconfig, env.BinaryAssetsDirectory)
	}
	defer func() { // a failed demo leaves its log behind
		if err == nil {
			err = os.RemoveAll(folder)
		}
	}()
	return runSamples(ctx, env)
}

func startOperator(manager, kubeconfig, logFile string) (stop func(), err error) {
	out, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	// The demo's tool server and a local model are on loopback, which is refused by default where the demo runs in a Pod.
	cmd := exec.Command(manager, "--kubeconfig", kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--shutdown-grace=1s", "--deny-loopback=false")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the operator did not start: %w", err)
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = out.Close()
	}, nil
}

func stayUp(ctx context.Context, kubeconfig, assets string) error {
	fmt.Printf(`
In another terminal:

  export KUBECONFIG=%s
  kubectl apply -f config/samples/completes.yaml
  kubectl get agenttasks --watch

%sCtrl-C here stops everything.
`, kubeconfig, kubectlHint(assets))
	<-ctx.Done()
	return nil
}

// kubectlHint tells how to get a kubectl where there is none. A downloaded control plane has one beside it.
func kubectlHint(assets string) string {
	if _, err := exec.LookPath("kubectl"); err == nil {
		return ""
	}
	folder, cost := "$(hack/controlplane/ensure.sh kubectl)", ", after some minutes of building it, once for this machine"
	if _, err := os.Stat(filepath.Join(assets, "kubectl")); err == nil {
		folder, cost = assets, ""
	}
	return fmt.Sprintf(`There is no kubectl on the PATH. This puts one there%s:

  export PATH="%s:$PATH"

`, cost, folder)
}

func runSamples(ctx context.Context, env *envtest.Environment) error {
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: controlplane.Scheme})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	d := &demo{client: c}
	if err := d.apply(ctx); err != nil {
		return err
	}
	if err := d.follow(ctx); err != nil {
		return err
	}
	return d.conclude(ctx)
}
