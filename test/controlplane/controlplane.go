// Package controlplane starts a real kube-apiserver and etcd with this project's CRDs: for the suites, the demo and the
// benchmarks.
package controlplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// Scheme knows the kinds of Kubernetes and of this project.
var Scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// Root is the folder of the checkout that holds the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "hack", "controlplane", "ensure.sh")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("not inside a checkout of agenttask-operator")
}

// Start starts a control plane, which the caller stops, building its programs first where the machine does not have them.
func Start() (*envtest.Environment, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	build := exec.Command(filepath.Join(root, "hack", "controlplane", "ensure.sh"))
	build.Stderr = os.Stderr
	assets, err := build.Output()
	if err != nil {
		return nil, fmt.Errorf("no control plane: %w", err)
	}
	env := &envtest.Environment{
		Scheme:                Scheme,
		CRDDirectoryPaths:     []string{filepath.Join(root, "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: strings.TrimSpace(string(assets)),
	}
	if _, err := env.Start(); err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return env, nil
}
