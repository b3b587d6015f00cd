package chart

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// cluster is a real kube-apiserver and etcd, with RBAC on and nothing else: no controllers, no nodes.
type cluster struct {
	client.Client
	config *rest.Config
	dir    string
}

// operator and teamOperator are the accounts of the shared installation, and of a team's own beside it.
const (
	operator     = "system:serviceaccount:" + namespace + ":" + name
	teamOperator = "system:serviceaccount:team-a:team-" + name
)

// shared is one cluster with the chart installed, for all tests that leave the installation alone.
var shared = sync.OnceValues(func() (*cluster, error) {
	c, err := startCluster()
	if err != nil {
		return nil, err
	}
	return c, c.helmInstall(chartDir, name, namespace, map[string]any{"rbac": map[string]any{"journalPolicy": map[string]any{"accounts": []any{teamOperator}}}})
})

var stopAll []func() error

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code := m.Run()
	for _, stop := range stopAll {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

func sharedCluster(t *testing.T) *cluster {
	t.Helper()
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func startCluster() (*cluster, error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		var stderr bytes.Buffer
		ensure := exec.Command(root + "/hack/controlplane/ensure.sh")
		ensure.Stderr = &stderr
		out, err := ensure.Output()
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, stderr.String())
		}
		assets = strings.TrimSpace(string(out))
	}
	env := &envtest.Environment{BinaryAssetsDirectory: assets}
	// As on OpenShift: whoever sets an owner reference needs rights on the owner.
	env.ControlPlane.GetAPIServer().Configure().Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	config, err := env.Start()
	if err != nil {
		return nil, err
	}
	stopAll = append(stopAll, env.Stop)
	dir, err := os.MkdirTemp("", "chart-test-")
	if err != nil {
		return nil, err
	}
	stopAll = append(stopAll, func() error { return os.RemoveAll(dir) })
	config.QPS = -1
	c, err := clientFor(config)
	return &cluster{Client: c, config: config, dir: dir}, err
}

func clientFor(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// as is the same cluster seen by somebody else.
func (c *cluster) as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	out, err := clientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// kubeconfig writes a kubeconfig file for config, and returns its path.
func (c *cluster) kubeconfig(config *rest.Config, file string) (string, error) {
	path := filepath.Join(c.dir, file)
	return path, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {
			Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
		}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, path)
}

// getter is how Helm and kubectl are told of a cluster.
func (c *cluster) getter(ns string) (*genericclioptions.ConfigFlags, error) {
	path, err := c.kubeconfig(c.config, "admin.kubeconfig")
	if err != nil {
		return nil, err
	}
	flags := genericclioptions.NewConfigFlags(true)
	cache := filepath.Join(c.dir, "cache")
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &path, &ns, &cache
	return flags, nil
}

func (c *cluster) helm(ns string) (*action.Configuration, error) {
	getter, err := c.getter(ns)
	if err != nil {
		return nil, err
	}
	config := action.NewConfiguration()
	return config, config.Init(getter, ns, "secret")
}

func (c *cluster) helmInstall(dir, release, ns string, values map[string]any) error {
	config, err := c.helm(ns)
	if err != nil {
		return err
	}
	loaded, err := loadChart(dir)
	if err != nil {
		return err
	}
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = release, ns, true
	// No kubelet will ever make the Deployment ready.
	install.WaitStrategy = kube.HookOnlyStrategy
	_, err = install.Run(loaded, values)
	return err
}

// newNamespace makes a namespace that the test has for itself.
func (c *cluster) newNamespace(t *testing.T, prefix string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func (c *cluster) ensureNamespace(t *testing.T, ns string) {
	t.Helper()
	err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// eventually waits until check is content, which says what it still misses.
func eventually(t *testing.T, timeout time.Duration, check func(context.Context) (missing string)) {
	t.Helper()
	missing := "not looked at yet"
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		missing = check(ctx)
		return missing == "", nil
	})
	if err != nil {
		t.Fatalf("after %s: %s", timeout, missing)
	}
}

// waitForTask waits until the task is as wanted, and returns it.
func waitForTask(t *testing.T, c client.Client, ns, task string, wanted func(*v1alpha1.AgentTask) bool) *v1alpha1.AgentTask {
	t.Helper()
	got := &v1alpha1.AgentTask{}
	eventually(t, 60*time.Second, func(ctx context.Context) string {
		if err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: task}, got); err != nil {
			return err.Error()
		}
		if !wanted(got) {
			return fmt.Sprintf("task %s is in phase %q, exit reason %q: %s", task, got.Status.Phase, got.Status.ExitReason, got.Status.Message)
		}
		return ""
	})
	return got
}

func inPhase(phase v1alpha1.AgentTaskPhase) func(*v1alpha1.AgentTask) bool {
	return func(task *v1alpha1.AgentTask) bool { return task.Status.Phase == phase }
}
