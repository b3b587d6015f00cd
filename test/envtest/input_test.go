package envtest

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/glob"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// Everything a user can type wrong is refused at admission, in one sentence that names the field and what to write.
func TestBadInputIsRefusedWithWhatToWriteInstead(t *testing.T) {
	long := strings.Repeat("x", 65537)
	const (
		notAsked    = "spec.completion.judge is never asked with strategy Signal: set strategy to SignalThenJudge or Judge, or remove judge"
		keyMissing  = "spec.auth is missing: the provider's own endpoint needs a key; name a Secret in spec.auth.secretRef, or set spec.endpoint for a server without one"
		credentials = "spec.url must not carry credentials: take them out of the URL, and use spec.auth or spec.headers"
		ownHeader   = "spec.headers sets a header that is the protocol's own"
		noGlob      = ` holds a glob that cannot be parsed: write a class as [a-z], and \[ or \\ for a [ or \ itself`
	)
	tests := map[string]struct{ kind, spec, want string }{
		"no prompt":              {"AgentTask", `{}`, "spec.prompt: Required value"},
		"empty prompt":           {"AgentTask", `{prompt: ""}`, "spec.prompt"},
		"blank prompt":           {"AgentTask", `{prompt: "  "}`, "spec.prompt is blank: write what the agent should do"},
		"prompt too long":        {"AgentTask", `{prompt: "` + long + `"}`, "spec.prompt: Too long"},
		"prompt of many bytes":   {"AgentTask", `{prompt: "` + strings.Repeat("ü", 32769) + `"}`, "spec.prompt has more than 65536 bytes: shorten it"},
		"answer of many bytes":   {"AgentTask", `{prompt: x, resumeInput: "` + strings.Repeat("ü", 32769) + `"}`, "spec.resumeInput has more than 65536 bytes: shorten the answer"},
		"zero iterations":        {"AgentTask", `{prompt: x, maxIterations: 0}`, "spec.maxIterations: Invalid value: 0: spec.maxIterations in body should be greater than or equal to 1"},
		"negative iterations":    {"AgentTask", `{prompt: x, maxIterations: -3}`, "spec.maxIterations in body should be greater than or equal to 1"},
		"absurd iterations":      {"AgentTask", `{prompt: x, maxIterations: 10001}`, "spec.maxIterations in body should be less than or equal to 10000"},
		"overflowing iterations": {"AgentTask", `{prompt: x, maxIterations: 99999999999}`, "spec.maxIterations"},
		"fractional iterations":  {"AgentTask", `{prompt: x, maxIterations: 1.5}`, "spec.maxIterations"},
		"zero tokens":            {"AgentTask", `{prompt: x, maxTokens: 0}`, "spec.maxTokens in body should be greater than or equal to 1"},
		"negative tokens":        {"AgentTask", `{prompt: x, maxTokens: -1}`, "spec.maxTokens in body should be greater than or equal to 1"},
		"overflowing tokens":     {"AgentTask", `{prompt: x, maxTokens: 99999999999999999999}`, "spec.maxTokens"},
		"zero duration":          {"AgentTask", `{prompt: x, maxDuration: 0s}`, "spec.maxDuration must be more than 0s and at most 8760h, such as 30m"},
		"negative duration":      {"AgentTask", `{prompt: x, maxDuration: -5m}`, "spec.maxDuration must be more than 0s"},
		"absurd duration":        {"AgentTask", `{prompt: x, maxDuration: 9000h}`, "spec.maxDuration must be more than 0s and at most 8760h"},
		"overflowing duration":   {"AgentTask", `{prompt: x, maxDuration: 99999999999h}`, "spec.maxDuration must be more than 0s"},
		"duration in words":      {"AgentTask", `{prompt: x, maxDuration: "1 day"}`, "spec.maxDuration must be more than 0s"},
		"infinite duration":      {"AgentTask", `{prompt: x, maxDuration: "+Inf"}`, "spec.maxDuration"},
		"empty duration":         {"AgentTask", `{prompt: x, maxDuration: ""}`, "spec.maxDuration must be more than 0s"},
		"zero input timeout":     {"AgentTask", `{prompt: x, inputTimeout: 0s}`, "spec.inputTimeout must be more than 0s"},
		"unknown strategy":       {"AgentTask", `{prompt: x, completion: {strategy: Guess}}`, `supported values: "Signal", "Judge", "SignalThenJudge"`},
		"judge without judge":    {"AgentTask", `{prompt: x, completion: {strategy: Judge}}`, "spec.completion.judge is missing"},
		"judge, no strategy":     {"AgentTask", `{prompt: x, completion: {judge: {criteria: [it rhymes]}}}`, notAsked}, // Signal is the default, and the judge would never be asked
		"judge with Signal":      {"AgentTask", `{prompt: x, completion: {strategy: Signal, judge: {}}}`, notAsked},    // the same, written out
		"unknown limit action":   {"AgentTask", `{prompt: x, onLimit: Panic}`, `supported values: "Stop", "WrapUp"`},
		"one repeated turn":      {"AgentTask", `{prompt: x, noProgressTurns: 1}`, "one turn cannot repeat itself"},
		"id without answer":      {"AgentTask", `{prompt: x, resumeInputID: q}`, "spec.resumeInputID names a question, but spec.resumeInput holds no answer"},
		"model without name":     {"AgentTask", `{prompt: x, modelRef: {}}`, "spec.modelRef.name: Required value"},
		"model of others":        {"AgentTask", `{prompt: x, modelRef: {name: m, namespace: others}}`, `unknown field "spec.modelRef.namespace"`},
		"tools of others":        {"AgentTask", `{prompt: x, toolsets: [{name: t, namespace: others}]}`, `unknown field "spec.toolsets[0].namespace"`},
		"Secret of others":       {"AgentModel", `{provider: Gemini, model: m, auth: {secretRef: {name: s, key: k, namespace: others}}}`, `unknown field "spec.auth.secretRef.namespace"`},
		"unknown field":          {"AgentTask", `{prompt: x, maxIteration: 5}`, `unknown field "spec.maxIteration"`},
		"no model name":          {"AgentModel", `{provider: OpenAI}`, "spec.model is missing"},
		"unknown provider":       {"AgentModel", `{provider: Oracle, model: x}`, `supported values: "OpenAI", "Anthropic", "Gemini", "Scripted"`},
		"endpoint no URL":        {"AgentModel", `{provider: OpenAI, model: x, endpoint: "llm:8000"}`, "spec.endpoint must be an http or https URL"},
		"endpoint a file":        {"AgentModel", `{provider: OpenAI, model: x, endpoint: "file:///etc/passwd"}`, "spec.endpoint must be an http or https URL"},
		"endpoint with a key":    {"AgentModel", `{provider: OpenAI, model: x, endpoint: "https://user:pass@llm/v1"}`, "spec.endpoint must not carry credentials"}, // it would stand in the clear
		"task allow [":           {"AgentTask", `{prompt: p, toolsets: [{name: ops, allow: ["get_["]}]}`, "spec.toolsets allow" + noGlob},                          // the task would wait for ever
		"script without replies": {"AgentModel", `{provider: Scripted}`, "spec.scripted is missing"},
		"script elsewhere":       {"AgentModel", `{provider: OpenAI, model: x, scripted: {replies: [{text: x}]}}`, "spec.scripted is only for provider Scripted"},
		"temperature no number":  {"AgentModel", `{provider: OpenAI, model: x, parameters: {temperature: hot}}`, "spec.parameters.temperature"},
		"header with two values": {"AgentModel", `{provider: OpenAI, model: x, headers: [{name: a, value: b, valueFrom: {name: s, key: k}}]}`, "exactly one of value and valueFrom"},
		"OpenAI without key":     {"AgentModel", `{provider: OpenAI, model: x}`, keyMissing},    // it would be Ready and fail the first paid call
		"Anthropic without key":  {"AgentModel", `{provider: Anthropic, model: x}`, keyMissing}, // for each real provider
		"toolset no URL":         {"AgentToolset", `{url: tools}`, "spec.url must be an http or https URL"},
		"toolset user in URL":    {"AgentToolset", `{url: "https://user:pass@t/mcp"}`, credentials},                               // a password would stand in the clear, and in logs
		"toolset name in URL":    {"AgentToolset", `{url: "https://user@t/mcp"}`, credentials},                                    // a token may stand in the place of the user
		"toolset allow [":        {"AgentToolset", `{url: "http://t/mcp", allow: ["get_*", "get_["]}`, "spec.allow" + noGlob},     // tasks would run without the toolset
		"toolset deny \\":        {"AgentToolset", `{url: "http://t/mcp", deny: ['get\']}`, "spec.deny" + noGlob},                 // nothing follows the backslash
		"toolset approval []":    {"AgentToolset", `{url: "http://t/mcp", approvalTools: ["[]"]}`, "spec.approvalTools" + noGlob}, // a class needs a character
		"toolset call timeout":   {"AgentToolset", `{url: "http://t/mcp", callTimeout: 0s}`, "spec.callTimeout must be more than 0s"},
	}
	// A header that is not sent may be one that the server needs.
	for _, header := range []string{
		"Accept", "content-type", "CONTENT-LENGTH", "Last-Event-ID", "Idempotency-Key", "x-idempotency-key", "mcp-session-id",
	} {
		tests["toolset header "+header] = struct{ kind, spec, want string }{"AgentToolset", `{url: "http://t/mcp", headers: [{name: ` + header + `, value: x}]}`, ownHeader}
	}
	f := newFixture(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := f.admit(tc.kind, tc.spec)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to say %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "pass@") {
				t.Errorf("%v repeats a password", err)
			}
		})
	}
}

// Neighbours of what is refused above: a rule must not take them too.
func TestInputThatOnlyLooksBadIsAccepted(t *testing.T) {
	tests := map[string]struct{ kind, spec string }{
		"a prompt that just fits":    {"AgentTask", `{prompt: "` + strings.Repeat("ü", 32768) + `"}`},
		"hours with decimals":        {"AgentTask", `{prompt: x, maxDuration: 1.5h, inputTimeout: 0.5m}`},
		"judge with Judge":           {"AgentTask", `{prompt: x, completion: {strategy: Judge, judge: {}}}`},
		"judge with SignalThenJudge": {"AgentTask", `{prompt: x, completion: {strategy: SignalThenJudge, judge: {criteria: [it rhymes]}}}`},
		"stopWhen alone":             {"AgentTask", `{prompt: x, completion: {stopWhen: "true"}}`},
		"server without key":         {"AgentModel", `{provider: OpenAI, model: x, endpoint: "http://llm:8000/v1"}`},
		"key in a Secret":            {"AgentModel", `{provider: Gemini, model: x, auth: {secretRef: {name: s, key: k}}}`},
		"key in a header":            {"AgentModel", `{provider: Anthropic, model: x, headers: [{name: Authorization, valueFrom: {name: s, key: k}}]}`},
		"@ in path and query":        {"AgentToolset", `{url: "https://t/@me/mcp?to=a@b"}`},
		"headers of one's own":       {"AgentToolset", `{url: "http://t/mcp", headers: [{name: Authorization, value: x}, {name: X-Accept, value: x}, {name: X-Mcp-Key, value: x}]}`},
	}
	f := newFixture(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := f.admit(tc.kind, tc.spec); err != nil {
				t.Error(err)
			}
		})
	}
}

// The API server parses globs by a rule of its own, which must be the operator's.
func TestAdmissionAndTheOperatorAgreeOnGlobs(t *testing.T) {
	f := newFixture(t)
	for _, pattern := range []string{
		"*", "get_?", "files/*", "a]", "[a-z]*", "[^a-z]", "[^^]", "[[]", "[a*]", `[\]]`, `[\--a]`, `\[`, `\\`, `a\/b`, "é[ä-ü]", "a\nb",
		"[", "a[b", "[]", "[^]", "[]a]", "[-a]", "[a-]", "[a-b-c]", "[^-a]", `\`, `a\`, `[\`, `[a\]`, "*[", "x/[a",
	} {
		err := f.admit("AgentToolset", fmt.Sprintf(`{url: "http://t/mcp", allow: [%q]}`, pattern))
		if want := glob.Check(pattern); (err == nil) != (want == nil) {
			t.Errorf("%q: the API server says %v, the operator %v", pattern, err, want)
		}
	}
}

// admit asks the API server whether it would take an object, which is then not there.
func (f *fixture) admit(kind, spec string) error {
	f.Helper()
	object := &unstructured.Unstructured{}
	text := "apiVersion: agentloop.dev/v1alpha1\nkind: " + kind + "\nmetadata: {name: typed, namespace: " + f.namespace + "}\nspec: " + spec
	f.must(yaml.Unmarshal([]byte(text), &object.Object))
	return strict.Create(f.ctx, object, client.DryRunAll)
}

func TestWhatATaskStartedWithCannotBeChanged(t *testing.T) {
	f := newFixture(t)
	f.scripted("NEED_INPUT: go on?")
	f.task("fixed")
	f.awaitPhase("fixed", v1alpha1.PhaseNeedsInput)
	for field, patch := range map[string]string{
		"spec.prompt":       `{"spec":{"prompt":"another"}}`,
		"spec.instructions": `{"spec":{"instructions":"more"}}`,
		"spec.modelRef":     `{"spec":{"modelRef":{"name":"other"}}}`,
	} {
		err := f.tryPatch("fixed", patch)
		if err == nil || !strings.Contains(err.Error(), field+" cannot be changed once the task has started: create a new AgentTask") {
			t.Errorf("%s: got %v", field, err)
		}
	}
	f.must(f.tryPatch("fixed", `{"spec":{"maxIterations":60}}`)) // limits may be
}

// What was paid for is not lost to a slip in an edit.
func TestAWrongEditOfARunningTaskHoldsItUntilItIsCorrected(t *testing.T) {
	f := newFixture(t)
	f.scripted("NEED_INPUT: which one?", "TASK_COMPLETE: done")
	f.task("edited")
	f.awaitPhase("edited", v1alpha1.PhaseNeedsInput)
	f.patch("edited", `{"spec":{"completion":{"stopWhen":"iteration >"},"resumeInput":"this one"}}`)
	f.await("edited", "held", func(task *v1alpha1.AgentTask) bool {
		return strings.Contains(task.Status.Message, "Correct it, and the task goes on.") || task.Finished()
	})
	f.patch("edited", `{"spec":{"completion":{"stopWhen":"iteration > 100"}}}`)
	f.awaitExit("edited", v1alpha1.ExitCompleted)
}

// kstatus takes an object without any condition for done, unless its observedGeneration is behind.
func TestATaskThatNoOperatorHasSeenSaysSo(t *testing.T) {
	f := newFixture(t)
	f.ownTask("unseen")
	task := &v1alpha1.AgentTask{}
	f.must(kube.Get(f.ctx, client.ObjectKey{Namespace: f.namespace, Name: "unseen"}, task))
	if task.Status.ObservedGeneration != -1 {
		t.Errorf("status.observedGeneration is %d, want -1", task.Status.ObservedGeneration)
	}
}

func TestAPromptMayBeChangedBeforeTheStart(t *testing.T) {
	f := newFixture(t)
	f.task("early")
	f.awaitPhase("early", v1alpha1.PhasePending)
	f.must(f.tryPatch("early", `{"spec":{"prompt":"another"}}`))
}

func TestAMissingReferenceWaitsNamesItAndGoesOnOnceItAppears(t *testing.T) {
	f := newFixture(t)
	endpoint := httptest.NewServer(fakechat.New(func(*fakechat.Request) fakechat.Reply { return fakechat.Reply{Text: "TASK_COMPLETE: ok"} }))
	t.Cleanup(endpoint.Close)
	f.task("waits", func(s *v1alpha1.AgentTaskSpec) { s.ModelRef = &v1alpha1.LocalReference{Name: "late"} })
	waitsFor := func(reason, says string) {
		t.Helper()
		task := f.await("waits", reason, func(task *v1alpha1.AgentTask) bool {
			c := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionReconciling)
			return c != nil && c.Reason == reason
		})
		if task.Status.Phase != v1alpha1.PhasePending || !strings.Contains(task.Status.Message, says) {
			t.Errorf("got %s, want it Pending and to say %q", describe(task), says)
		}
	}
	waitsFor("ModelNotFound", `AgentModel "late"`)
	f.model("late", v1alpha1.AgentModelSpec{
		Provider: v1alpha1.ProviderOpenAI, Model: "m", Endpoint: endpoint.URL,
		Auth: &v1alpha1.Auth{SecretRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "token"}},
	})
	waitsFor("SecretNotFound", `Secret "key"`)
	secret := &corev1.Secret{ObjectMeta: f.meta("key"), StringData: map[string]string{"other": "x"}}
	f.must(kube.Create(f.ctx, secret))
	waitsFor("SecretKeyNotFound", `no key "token"`)
	secret.StringData = map[string]string{"token": "sk-test"}
	f.must(kube.Update(f.ctx, secret))
	f.awaitExit("waits", v1alpha1.ExitCompleted)
}

// Unlike a server that is away, a mistake does not pass by itself, so that a task would run without its tools for good.
func TestAToolsetWithAMistakeHoldsUpTasksThatDoNotRequireItToo(t *testing.T) {
	f := newFixture(t)
	f.must(kube.Create(f.ctx, &v1alpha1.AgentToolset{ObjectMeta: f.meta("ops"), Spec: v1alpha1.AgentToolsetSpec{
		URL: "http://127.0.0.1:1/mcp", CABundle: []byte("no PEM"), // which the API server cannot tell
	}}))
	f.chatModel(func(*fakechat.Request) fakechat.Reply { return fakechat.Reply{Text: "TASK_COMPLETE: without tools"} })
	f.task("optional", withOps(false))
	f.await("optional", "waiting for its toolset", func(task *v1alpha1.AgentTask) bool {
		c := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionReconciling)
		return c != nil && c.Reason == "ToolsetInvalid" && task.Status.Phase == v1alpha1.PhasePending
	})
	set := &v1alpha1.AgentToolset{ObjectMeta: f.meta("ops")}
	f.must(kube.Patch(f.ctx, set, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"caBundle":null}}`))))
	f.awaitExit("optional", v1alpha1.ExitCompleted)
}

// An endpoint that misbehaves ends the task with a typed cause and a message of our own, never as a success.
func TestAnEndpointThatMisbehavesGivesATypedError(t *testing.T) {
	tests := map[string]struct {
		reply fakechat.Reply
		cause string
	}{
		"refuses the key":     {fakechat.Reply{Status: 401}, "ModelAuthenticationFailed"},
		"forbids":             {fakechat.Reply{Status: 403}, "ModelAuthenticationFailed"},
		"knows no such model": {fakechat.Reply{Status: 404}, "ModelNotFound"},
		"finds fault":         {fakechat.Reply{Status: 400}, "ModelRequestInvalid"},
		"is down":             {fakechat.Reply{Status: 503}, "ModelUnavailable"},
		"answers HTML":        {fakechat.Reply{ContentType: "text/html", Raw: "<html>login</html>"}, "ModelReplyInvalid"},
		"no choices":          {fakechat.Reply{ContentType: "application/json", Raw: `{"id":"x","choices":[]}`}, "ModelReplyInvalid"},
		"closes mid-stream":   {fakechat.Reply{Text: strings.Repeat("partial ", 40), CutAfter: 2}, "ModelUnavailable"},
		"filters":             {fakechat.Reply{Text: "TASK_COMPLETE: no", Finish: "content_filter"}, "ContentFiltered"},
		"context too long":    {fakechat.Reply{Status: 400, Code: "context_length_exceeded"}, "ContextWindowExceeded"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			server := httptest.NewServer(fakechat.New(func(*fakechat.Request) fakechat.Reply { return tc.reply }))
			t.Cleanup(server.Close)
			f.model("default", v1alpha1.AgentModelSpec{
				Provider: v1alpha1.ProviderOpenAI, Model: "fake", Endpoint: server.URL,
				Retry: &v1alpha1.RetryPolicy{MaxAttempts: new(int32(2))},
			})
			f.task("work")
			f.isErrorWithCause("work", tc.cause)
		})
	}
}

func TestAnEndpointThatRefusesConnectionsIsUnavailable(t *testing.T) {
	f := newFixture(t)
	server := httptest.NewServer(nil)
	server.Close()
	f.model("default", v1alpha1.AgentModelSpec{
		Provider: v1alpha1.ProviderOpenAI, Model: "fake", Endpoint: server.URL,
		Retry: &v1alpha1.RetryPolicy{MaxAttempts: new(int32(1))},
	})
	f.task("work")
	f.isErrorWithCause("work", "ModelUnavailable")
}

func TestAMetadataAddressIsRefused(t *testing.T) {
	f := newFixture(t)
	f.model("default", v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderOpenAI, Model: "fake", Endpoint: "http://169.254.169.254/v1"})
	f.task("work")
	f.await("work", "EndpointRefused", func(task *v1alpha1.AgentTask) bool {
		c := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionReconciling)
		return c != nil && c.Reason == "EndpointRefused"
	})
}

func TestASpecThatCanNeverRunEndsBeforeItsFirstCall(t *testing.T) {
	tests := map[string]struct {
		spec  func(*v1alpha1.AgentTaskSpec)
		cause string
	}{
		"stopWhen that does not parse": {func(s *v1alpha1.AgentTaskSpec) { s.Completion = &v1alpha1.Completion{StopWhen: "iteration >"} }, "InvalidStopWhen"},
		"stopWhen that is no bool":     {func(s *v1alpha1.AgentTaskSpec) { s.Completion = &v1alpha1.Completion{StopWhen: "iteration + 1"} }, "InvalidStopWhen"},
		"outputSchema that is none":    {func(s *v1alpha1.AgentTaskSpec) { s.OutputSchema = rawJSON(`{"type":"nonsense"}`) }, "InvalidOutputSchema"},
		"outputSchema from elsewhere":  {func(s *v1alpha1.AgentTaskSpec) { s.OutputSchema = rawJSON(`{"$ref":"file:///etc/passwd"}`) }, "InvalidOutputSchema"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			chat := f.chatModel(func(*fakechat.Request) fakechat.Reply { return fakechat.Reply{Text: "TASK_COMPLETE: x"} })
			f.task("work", tc.spec)
			f.isErrorWithCause("work", tc.cause)
			if n := chat.Calls(); n != 0 {
				t.Errorf("%d calls were paid for", n)
			}
		})
	}
}

func (f *fixture) isErrorWithCause(name, cause string) {
	f.Helper()
	task := f.awaitExit(name, v1alpha1.ExitError)
	c := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionFinished)
	if c == nil || c.Reason != cause || task.Status.Phase != v1alpha1.PhaseFailed {
		f.Errorf("got %s, want Finished with reason %s", describe(task), cause)
	}
}
