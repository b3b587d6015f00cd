// Package cli is what the kubectl plugin does.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

const usage = `usage: kubectl agenttask logs NAME [-n NAMESPACE] [--context CONTEXT] [--kubeconfig FILE]

Prints the transcript of an AgentTask: what was said and done, in order.`

// ErrUsage is a wrong call; its text says how to call.
var ErrUsage = errors.New(usage) //nolint:staticcheck // it is shown as it is, in several lines

// Run runs the plugin with the arguments after its name.
func Run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) < 2 || args[0] != "logs" {
		return ErrUsage
	}
	name, flags := args[1], args[2:]
	fs := flag.NewFlagSet("logs", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	fs.StringVar(&overrides.Context.Namespace, "n", "", "namespace")
	fs.StringVar(&overrides.Context.Namespace, "namespace", "", "namespace")
	fs.StringVar(&overrides.CurrentContext, "context", "", "context")
	fs.StringVar(&rules.ExplicitPath, "kubeconfig", "", "kubeconfig")
	if err := fs.Parse(flags); err != nil || fs.NArg() > 0 {
		return ErrUsage
	}
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	namespace, _, err := config.Namespace()
	if err != nil {
		return err
	}
	rest, err := config.ClientConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return Logs(ctx, c, namespace, name, out)
}

// Logs prints the transcript of one task.
func Logs(ctx context.Context, c client.Client, namespace, name string, out io.Writer) error {
	task := &v1alpha1.AgentTask{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, task); err != nil {
		return err
	}
	_, events, err := transcript.NewKubernetes(c).Load(ctx, transcript.TaskRef{Namespace: namespace, Name: name, UID: task.UID})
	if err != nil {
		return err
	}
	if len(events) == 0 {
		_, err = fmt.Fprintf(out, "AgentTask %s/%s has not started: %s\n", namespace, name, task.Status.Message)
		return err
	}
	return transcript.Render(out, events)
}
