// Package cli is what the kubectl plugin does.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

const usage = `usage: kubectl agenttask logs NAME [-n NAMESPACE] [--context CONTEXT] [--kubeconfig FILE]

Prints the transcript of an AgentTask: what was said and done, in order.`

// ErrUsage is a wrong call; its text says how to call.
var ErrUsage = errors.New(usage) //nolint:staticcheck // it is shown as it is, in several lines

// Run runs the plugin with the arguments after its name.
func Run(ctx context.Context, args []string, out io.Writer) error {
	config, task, err := target(args)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return Logs(ctx, c, task.Namespace, task.Name, out)
}

// target is the cluster and the task that the arguments name.
func target(args []string) (*rest.Config, client.ObjectKey, error) {
	var task client.ObjectKey
	fs := flag.NewFlagSet("agenttask", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	fs.StringVar(&overrides.Context.Namespace, "n", "", "namespace")
	fs.StringVar(&overrides.Context.Namespace, "namespace", "", "namespace")
	fs.StringVar(&overrides.CurrentContext, "context", "", "context")
	fs.StringVar(&rules.ExplicitPath, "kubeconfig", "", "kubeconfig")
	var words []string
	for len(args) > 0 { // flags may stand before, between and after the words, as everywhere in kubectl
		if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, task, ErrUsage
		} else if err != nil {
			return nil, task, fmt.Errorf("%w\n\n%w", err, ErrUsage)
		}
		if args = fs.Args(); len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	if len(words) != 2 || words[0] != "logs" {
		return nil, task, ErrUsage
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, task, err
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, task, err
	}
	config.QPS = -1 // a long journal has hundreds of segments, one request each
	return config, client.ObjectKey{Namespace: namespace, Name: words[1]}, nil
}

// Logs prints the transcript of one task.
func Logs(ctx context.Context, c client.Client, namespace, name string, out io.Writer) error {
	task := &v1alpha1.AgentTask{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, task); err != nil {
		return err
	}
	_, events, err := transcript.Load(ctx, transcript.NewKubernetes(c), transcript.RefOf(task))
	if err != nil {
		return err
	}
	if len(events) == 0 {
		_, err = fmt.Fprintf(out, "AgentTask %s/%s %s\n", namespace, name, loop.Visible(whyEmpty(task)))
		return err
	}
	return transcript.Render(out, events)
}

// whyEmpty tells why there is no transcript.
func whyEmpty(task *v1alpha1.AgentTask) string {
	switch {
	case task.Status.ObservedGeneration <= 0: // -1 is the default of a new object
		return "has not been seen by an operator yet. Is one running that watches this namespace?"
	case task.Status.StartTime != nil:
		return "has started, but its transcript is gone. Its status says: " + task.Status.Message
	case task.Finished():
		return "ended before it started, so it has no transcript: " + task.Status.Message
	default:
		return "has not started: " + task.Status.Message
	}
}
