package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"text/tabwriter"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

const lineFormat = "%-14s %-11s %-20s %5s %7s  %s\n"

// follow shows each change of a task in one line, and plays the human: it answers the question and cancels the task that
// is there to be cancelled. It returns when all tasks have ended.
func (d *demo) follow(ctx context.Context) error {
	w, err := d.client.Watch(ctx, &v1alpha1.AgentTaskList{}, client.InNamespace(namespace))
	if err != nil {
		return err
	}
	defer w.Stop()
	fmt.Println()
	fmt.Printf(lineFormat, "TASK", "PHASE", "REASON", "ITER", "TOKENS", "MESSAGE")
	open := map[string]bool{}
	for name := range expected {
		open[name] = true
	}
	last := map[string]string{}
	for len(open) > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("still running: %v", sortedKeys(open))
		case e := <-w.ResultChan():
			task, ok := e.Object.(*v1alpha1.AgentTask)
			if !ok {
				return fmt.Errorf("the watch ended while tasks were running: %v", sortedKeys(open))
			}
			if line := lineOf(task); line != last[task.Name] {
				fmt.Print(line)
				last[task.Name] = line
			}
			if task.Finished() {
				delete(open, task.Name)
			}
			if err := d.actAsHuman(ctx, task); err != nil {
				return err
			}
		}
	}
	return nil
}

func lineOf(t *v1alpha1.AgentTask) string {
	st := &t.Status
	iterations, tokens := "-", "-"
	if st.Iterations != nil {
		iterations = fmt.Sprint(*st.Iterations)
	}
	if st.Usage != nil && st.Usage.TotalTokens != nil {
		tokens = fmt.Sprint(*st.Usage.TotalTokens)
	}
	message := st.Message
	if q := st.InputRequest; q != nil {
		message = "asks: " + q.Question
	} else if st.Summary != "" {
		message = "says: " + st.Summary
	}
	if st.Phase == "" {
		return "" // just created
	}
	return fmt.Sprintf(lineFormat, t.Name, orDash(string(st.Phase)), orDash(string(st.ExitReason)), iterations, tokens, message)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// actAsHuman does by real patches what a person would do with kubectl.
func (d *demo) actAsHuman(ctx context.Context, t *v1alpha1.AgentTask) error {
	patch := ""
	switch {
	case t.Name == "needs-input" && t.Status.Phase == v1alpha1.PhaseNeedsInput && t.Spec.ResumeInput == nil:
		patch = `{"spec":{"resumeInput":"eu-west-1"}}`
	case t.Name == "with-tools" && t.Status.Phase == v1alpha1.PhaseNeedsInput && t.Spec.ResumeInput == nil:
		patch = fmt.Sprintf(`{"spec":{"resumeInput":"approve","resumeInputID":%q}}`, t.Status.InputRequest.ID)
	case t.Name == "cancelled" && t.Status.Phase == v1alpha1.PhaseRunning && t.Spec.Cancel == nil:
		patch = `{"spec":{"cancel":true}}`
	default:
		return nil
	}
	const manager = "agenttask-answer" // not kubectl's own, whose fields Flux drops
	fmt.Printf("  $ kubectl patch agenttask %s --type=merge --field-manager=%s -p '%s'\n", t.Name, manager, patch)
	return d.client.Patch(ctx, t.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner(manager))
}

// conclude prints the table, and fails for a sample that did not end as it must.
func (d *demo) conclude(ctx context.Context) error {
	var tasks v1alpha1.AgentTaskList
	if err := d.client.List(ctx, &tasks, client.InNamespace(namespace)); err != nil {
		return err
	}
	fmt.Println("\nHow they ended:")
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "TASK\tPHASE\tREASON\tITERATIONS\tTOKENS\tOUTPUT")
	var wrong []string
	for i := range tasks.Items {
		t := &tasks.Items[i]
		st := &t.Status
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%.60q\n", t.Name, st.Phase, st.ExitReason, *st.Iterations, *st.Usage.TotalTokens, st.Output)
		if want, ok := expected[t.Name]; !ok || st.ExitReason != want {
			wrong = append(wrong, fmt.Sprintf("%s ended as %s, want %q", t.Name, st.ExitReason, want))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%v", wrong)
	}
	fmt.Print(byHand)
	return nil
}

const byHand = `
All ended as they should. The same by hand: run "make dev", and with the KUBECONFIG that it prints

  kubectl apply -f config/samples/needs-input.yaml
  kubectl wait agenttask/needs-input --for=jsonpath='{.status.phase}'=NeedsInput
  kubectl get agenttask needs-input -o wide
  kubectl patch agenttask needs-input --type=merge --field-manager=agenttask-answer -p '{"spec":{"resumeInput":"eu-west-1"}}'
  kubectl wait agenttask/needs-input --for=condition=Finished
  kubectl get agenttasks
`

func sortedKeys(m map[string]bool) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
