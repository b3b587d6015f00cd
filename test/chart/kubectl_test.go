package chart

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/patch"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/wait"
)

// kubectl runs kubectl's own code for apply, patch and wait, so that no kubectl needs to be installed.
func (c *cluster) kubectl(t *testing.T, ns string, args ...string) (out string, err error) {
	t.Helper()
	getter, err := c.getter(ns)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr}
	factory := cmdutil.NewFactory(getter)
	kubectl := &cobra.Command{Use: "kubectl", SilenceUsage: true}
	kubectl.AddCommand(apply.NewCmdApply("kubectl", factory, streams), patch.NewCmdPatch(factory, streams), wait.NewCmdWait(getter, streams))
	kubectl.SetArgs(args)
	kubectl.SetOut(&stdout)
	kubectl.SetErr(&stderr)
	defer func() {
		if fatal := recover(); fatal != nil {
			err = fmt.Errorf("kubectl %s: %v%s", strings.Join(args, " "), fatal, stderr.String())
		}
	}()
	cmdutil.BehaviorOnFatal(func(message string, _ int) { panic(message) })
	err = kubectl.ExecuteContext(t.Context())
	return stdout.String() + stderr.String(), err
}
