package chart

import (
	"context"
	"fmt"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// There is no kubelet, so the test Pod is played here: it may do what its ServiceAccount may, and succeeds once what it
// waits for has come.
func TestHelmTestPasses(t *testing.T) {
	c := sharedCluster(t)
	c.startManager(t, namespace, name)
	key := client.ObjectKey{Namespace: namespace, Name: name + "-test"}
	asPod := c.as(t, "system:serviceaccount:"+namespace+":"+key.Name)
	played := make(chan error, 1)
	go func() {
		pod, task := &corev1.Pod{}, &v1alpha1.AgentTask{}
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			if err := c.Get(ctx, key, pod); err != nil {
				return false, client.IgnoreNotFound(err)
			}
			err := asPod.Get(ctx, key, task)
			return task.Status.Phase == v1alpha1.PhaseSucceeded, err
		})
		if err != nil {
			played <- fmt.Errorf("the test Pod sees its task in phase %q: %w", task.Status.Phase, err)
			return
		}
		pod.Status.Phase = corev1.PodSucceeded
		played <- c.Status().Update(t.Context(), pod)
	}()

	config, err := c.helm(namespace)
	if err != nil {
		t.Fatal(err)
	}
	test := action.NewReleaseTesting(config)
	test.Namespace, test.Timeout = namespace, 90*time.Second
	_, shutdown, err := test.Run(name)
	if podErr := <-played; podErr != nil {
		t.Error(podErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := shutdown(); err != nil {
		t.Fatal(err)
	}
	for _, left := range []client.Object{&v1alpha1.AgentTask{}, &v1alpha1.AgentModel{}, &corev1.ServiceAccount{}, &rbacv1.Role{}} {
		if err := c.Get(t.Context(), key, left); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("helm test left %T %s (%v)", left, key.Name, err)
		}
	}
}
