package envtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// causes are what an API server finds wrong, each as field and message; nil for an object that it takes.
func causes(err error) (out []string) {
	status := (*apierrors.StatusError)(nil)
	if !errors.As(err, &status) || status.ErrStatus.Details == nil {
		if err != nil {
			out = append(out, err.Error())
		}
		return out
	}
	for _, c := range status.ErrStatus.Details.Causes {
		out = append(out, c.Field+": "+c.Message)
	}
	return out
}

func TestWhatARuleOfTheAPISays(t *testing.T) {
	const (
		invalid  = `Invalid value: `
		twoCAs   = "spec: " + invalid + "spec.caBundle and spec.caBundleRef are both set: keep one of them"
		noAuth   = "spec.auth: " + invalid + "spec.auth needs exactly one way to authenticate: set spec.auth.secretRef to the name and key of a Secret, or remove spec.auth"
		noLog    = "spec.context: " + invalid + "spec.context.progressLog does nothing in mode Accumulate: set spec.context.mode to Fresh, or remove progressLog"
		currency = "spec.pricing.currency: " + invalid + `"eur": ` + "spec.pricing.currency must be an ISO 4217 code of three capital letters, such as USD"
		// beside what the schema refuses
		unchecked = "\n<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
		ref       = "caBundleRef: {kind: ConfigMap, name: c, key: k}"
		pem       = "LS0tLS1CRUdJTg=="
	)
	model := func(rest string) string { return "{provider: OpenAI, model: m, endpoint: 'http://m/v1', " + rest + "}" }
	toolset := func(rest string) string { return "{url: 'http://t/mcp', " + rest + "}" }
	prices := func(rest string) string {
		return model("pricing: {inputPerMillion: '1', outputPerMillion: '2'" + rest + "}")
	}
	task := func(rest string) string { return "{prompt: x, " + rest + "}" }
	tests := map[string]struct{ kind, spec, want string }{
		"model, bundle":             {"AgentModel", model("caBundle: " + pem), ""},
		"model, bundle of another":  {"AgentModel", model(ref), ""},
		"model, two bundles":        {"AgentModel", model("caBundle: " + pem + ", " + ref), twoCAs}, // which of them was meant?
		"model, auth without a way": {"AgentModel", model("auth: {}"), noAuth},
		"toolset, two bundles":      {"AgentToolset", toolset("caBundle: " + pem + ", " + ref), twoCAs},
		"toolset, bundle in Secret": {"AgentToolset", toolset("caBundleRef: {kind: Secret, name: c, key: k}"), ""},
		"toolset, auth without way": {"AgentToolset", toolset("auth: {}"), noAuth},
		"toolset, auth":             {"AgentToolset", toolset("auth: {secretRef: {name: s, key: k}}"), ""},
		"bundle of a Pod": {"AgentModel", model("caBundleRef: {kind: Pod, name: c, key: k}"),
			`spec.caBundleRef.kind: Unsupported value: "Pod": supported values: "ConfigMap", "Secret"` + unchecked},
		"prices without currency":      {"AgentModel", prices(""), ""},
		"prices in euros":              {"AgentModel", prices(", currency: EUR"), ""},
		"prices in words":              {"AgentModel", prices(", currency: eur"), currency},
		"progress log, mode Fresh":     {"AgentTask", task("context: {mode: Fresh, progressLog: false}"), ""},
		"progress log, Accumulate":     {"AgentTask", task("context: {mode: Accumulate, progressLog: true}"), noLog},
		"progress log, default mode":   {"AgentTask", task("context: {progressLog: false}"), noLog},
		"a journal of 64 KiB":          {"AgentTask", task("maxJournalBytes: 65536"), ""},
		"a journal of a GiB":           {"AgentTask", task("maxJournalBytes: 1073741824"), ""},
		"a journal of nearly nothing":  {"AgentTask", task("maxJournalBytes: 65535"), "spec.maxJournalBytes: " + invalid + "65535: spec.maxJournalBytes in body should be greater than or equal to 65536"},
		"a journal of more than a GiB": {"AgentTask", task("maxJournalBytes: 1073741825"), "spec.maxJournalBytes: " + invalid + "1073741825: spec.maxJournalBytes in body should be less than or equal to 1073741824"},
	}
	f := newFixture(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(causes(f.admit(tc.kind, tc.spec)), "\n"); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// What is no base64 could not be read, and would stop the operator from reading any object of the kind.
func TestPEMInTheClearIsNoBundle(t *testing.T) {
	f := newFixture(t)
	for name, text := range map[string]string{"PEM": `"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"`, "odd": "LS0tLS1CRUdJTg=", "a break": `"LS0t\nLS1C"`} {
		err := f.admit("AgentModel", "{provider: OpenAI, model: m, endpoint: 'http://m/v1', caBundle: "+text+"}")
		if err == nil || !strings.Contains(err.Error(), "spec.caBundle in body must be of type byte") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// asked is a task that no operator looks at, with an open question.
func (f *fixture) asked(kind v1alpha1.InputRequestKind, spec string) *v1alpha1.AgentTask {
	f.Helper()
	task := f.ownTask("asked")
	f.patch(task.Name, spec)
	f.must(kube.Get(f.ctx, client.ObjectKeyFromObject(task), task))
	task.Status.Phase, task.Status.ExitReason = v1alpha1.PhaseNeedsInput, v1alpha1.ExitNeedInput
	task.Status.InputRequest = &v1alpha1.InputRequest{ID: "approval-1-abc", Kind: kind, Question: "May I?", AskedAt: metav1.Now()}
	f.must(kube.Status().Update(f.ctx, task))
	return task
}

const idMissing = "spec.resumeInputID: Invalid value: spec.resumeInputID is missing: an approval is answered by its id, so look at status.inputRequest, and set spec.resumeInputID to its id together with spec.resumeInput"

func TestAnApprovalIsAnsweredByItsID(t *testing.T) {
	const (
		nothing = `{"spec":{}}`
		before  = `{"spec":{"resumeInput":"approve"}}`
		both    = `{"spec":{"resumeInput":"approve","resumeInputID":"approval-0-abc"}}`
	)
	tests := map[string]struct {
		reason         string
		kind           v1alpha1.InputRequestKind
		before, answer string
		want           string
	}{
		"ByID":               {"it is meant for this call", v1alpha1.InputApproval, nothing, `{"spec":{"resumeInput":"approve","resumeInputID":"approval-1-abc"}}`, ""},
		"ByIDOverAnotherOne": {"the next approval of a task", v1alpha1.InputApproval, both, `{"spec":{"resumeInput":"approve","resumeInputID":"approval-1-abc"}}`, ""},
		"WithoutID":          {"it may be meant for another call", v1alpha1.InputApproval, nothing, `{"spec":{"resumeInput":"approve"}}`, idMissing},
		"DenialWithoutID":    {"whatever it says", v1alpha1.InputApproval, before, `{"spec":{"resumeInput":"deny: no"}}`, idMissing},
		"IDTakenAway":        {"the answer would be one to any call", v1alpha1.InputApproval, both, `{"spec":{"resumeInputID":null}}`, idMissing},
		"OfAFormerOne":       {"the operator ignores and tells it", v1alpha1.InputApproval, nothing, both, ""},
		"TakenAway":          {"a former answer may go", v1alpha1.InputApproval, both, `{"spec":{"resumeInput":null,"resumeInputID":null}}`, ""},
		"Blank":              {"that is no answer", v1alpha1.InputApproval, before, `{"spec":{"resumeInput":" \n"}}`, ""},
		"FormerOneStays":     {"an edit of something else", v1alpha1.InputApproval, before, `{"spec":{"maxIterations":60}}`, ""},
		"SameAgain":          {"GitOps applies what is there", v1alpha1.InputApproval, before, before, ""},
		"AQuestion":          {"it takes plain text", v1alpha1.InputQuestion, nothing, `{"spec":{"resumeInput":"blue"}}`, ""},
		"AnUnknownKind":      {"the operator may be newer than the CRD", "Election", nothing, `{"spec":{"resumeInput":"blue"}}`, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.asked(tc.kind, tc.before)
			if got := strings.Join(causes(f.tryPatch("asked", tc.answer)), "\n"); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// A rule about answers runs on the operator's own writes as well.
func TestNoAnswerInTheSpecStopsAStatus(t *testing.T) {
	for _, spec := range []string{`{"spec":{}}`, `{"spec":{"resumeInput":"approve"}}`, `{"spec":{"resumeInput":"approve","resumeInputID":"approval-0-abc"}}`} {
		f := newFixture(t)
		task := f.asked(v1alpha1.InputApproval, spec) // the question appears
		task.Status.Message = "It is still open."
		f.must(kube.Status().Update(f.ctx, task))
		task.Status.InputRequest.ID = "approval-2-abc" // the next one
		f.must(kube.Status().Update(f.ctx, task))
		task.Status.InputRequest.Kind = v1alpha1.InputQuestion
		f.must(kube.Status().Update(f.ctx, task))
		task.Status.InputRequest.Kind = v1alpha1.InputApproval
		f.must(kube.Status().Patch(f.ctx, task, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"inputRequest":{"kind":"Approval"}}}`))))
		f.must(kube.Status().Patch(f.ctx, task, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"inputRequest":null,"phase":"Running","exitReason":null}}`))))
	}
}

// A newer operator may meet an older CRD, which must not refuse its status.
func TestAStatusOfANewerOperatorIsTaken(t *testing.T) {
	f := newFixture(t)
	task := f.asked("Election", `{"spec":{}}`)
	task.Status.Phase, task.Status.ExitReason = "Delegated", "CostBudgetExceeded"
	task.Status.Model = &v1alpha1.ObjectReference{Namespace: "ops", Name: "shared"}
	f.must(kube.Status().Update(f.ctx, task))
	f.must(kube.Get(f.ctx, client.ObjectKeyFromObject(task), task))
	if got := fmt.Sprint(task.Status.Phase, task.Status.ExitReason, task.Status.InputRequest.Kind, *task.Status.Model); got != "DelegatedCostBudgetExceededElection{ops shared}" {
		t.Errorf("the status is %s", got)
	}
}

// A viewer may not read transcripts, and could not list a category that has them at all. A short name that is another's
// plural names another kind to whoever reads it.
func TestKindsHaveNamesOfTheirOwn(t *testing.T) {
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(restConfig).ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	got, short := map[string]string{}, map[string]bool{}
	for _, r := range kinds.APIResources {
		if !strings.Contains(r.Name, "/") {
			got[r.Kind] = fmt.Sprint(r.ShortNames, r.Categories)
			for _, name := range r.ShortNames {
				short[name] = true
			}
		}
	}
	want := map[string]string{
		"AgentTask": "[agt] [agentloop]", "AgentModel": "[agm] [agentloop]", "AgentToolset": "[agtool] [agentloop]", "AgentTranscript": "[agtr] []",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("short names and categories, -want +got:\n%s", diff)
	}
	for name := range short {
		if short[name+"s"] {
			t.Errorf("short name %ss reads as the plural of %s", name, name)
		}
	}
}

func TestReadySaysWhatTheOperatorLowers(t *testing.T) {
	f := newFixture(t)
	f.model("slow", v1alpha1.AgentModelSpec{
		Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: "http://models.example.com/v1", RequestTimeout: &metav1.Duration{Duration: 24 * time.Hour},
	})
	m := &v1alpha1.AgentModel{ObjectMeta: f.meta("slow")}
	f.poll("the model is Ready", func(ctx context.Context) (bool, error) {
		err := kube.Get(ctx, client.ObjectKeyFromObject(m), m)
		return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady), err
	})
	const want = "The model can be called. spec.requestTimeout is 24h0m0s, which the operator's --max-call-timeout lowers to 1h0m0s."
	if got := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady).Message; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
