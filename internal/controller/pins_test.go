package controller

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
)

// pinRig is a task with the toolsets ops and web. Its ran counts the calls of all their tools.
type pinRig struct {
	*rig
	policy v1alpha1.ApprovalPolicy
	ran    atomic.Int64
}

// away is a URL where nothing listens.
const away = "http://127.0.0.1:1/mcp"

// newPinRig scripts the model's turns: each is a text, or "call " and a tool's name. Both toolsets are away.
func newPinRig(t *testing.T, policy v1alpha1.ApprovalPolicy, faults interceptor.Funcs, turns ...string) *pinRig {
	t.Helper()
	model := answers()
	for _, turn := range turns {
		reply := v1alpha1.ScriptedReply{Text: &turn}
		if tool, is := strings.CutPrefix(turn, "call "); is {
			reply = v1alpha1.ScriptedReply{ToolCalls: []v1alpha1.ScriptedToolCall{{Name: tool}}}
		}
		model.Spec.Scripted.Replies = append(model.Spec.Scripted.Replies, reply)
	}
	task := aTask(func(s *v1alpha1.AgentTaskSpec) {
		s.Toolsets, s.NoProgressTurns = []v1alpha1.ToolsetReference{{Name: "ops"}, {Name: "web"}}, new(int32(0))
	})
	p := &pinRig{rig: newRig(t, faults, model, task), policy: policy}
	p.offer("ops")
	p.offer("web")
	return p
}

// offer puts another server behind a toolset, with these tools, each as "name" or "name: description". Without any it is away.
func (p *pinRig) offer(toolset string, tools ...string) {
	p.Helper()
	url := away
	if len(tools) > 0 {
		server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
		for _, tool := range tools {
			name, description, _ := strings.Cut(tool, ": ")
			server.AddTool(&sdk.Tool{Name: name, Description: description, InputSchema: map[string]any{"type": "object"}},
				func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					p.ran.Add(1)
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ran"}}}, nil
				})
		}
		web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
		p.Cleanup(func() { web.CloseClientConnections(); web.Close() })
		url = web.URL
	}
	p.put(toolset, url)
}

// put writes a toolset, deleted and created anew, which is more than an edit.
func (p *pinRig) put(toolset, url string) {
	p.Helper()
	set := &v1alpha1.AgentToolset{ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: toolset}}
	if err := client.IgnoreNotFound(p.kube.Delete(p.Context(), set)); err != nil {
		p.Fatal(err)
	}
	set = &v1alpha1.AgentToolset{
		ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: toolset, UID: types.UID(toolset + url + string(p.policy)), Generation: 1},
		Spec:       v1alpha1.AgentToolsetSpec{URL: url, RequireApproval: p.policy},
	}
	if err := p.kube.Create(p.Context(), set); err != nil {
		p.Fatal(err)
	}
}

func (p *pinRig) journal() []loop.Event {
	p.Helper()
	_, events, err := transcript.Load(p.Context(), p.Journals, refOf(p.task()))
	if err != nil {
		p.Fatal(err)
	}
	return events
}

// results are what the calls gave so far.
func (p *pinRig) results() string {
	p.Helper()
	var out []string
	for _, e := range p.journal() {
		if e.ToolsReturned != nil {
			for _, r := range e.ToolsReturned.Results {
				out = append(out, r.Content)
			}
		}
	}
	return strings.Join(out, "\n")
}

// What a task's server lists later runs for no task that nobody watches, and for others once a human has approved it. A task under
// Never is not held up by it, and its status names it.
func TestWhatAServerListsLaterDoesNotRunUnasked(t *testing.T) {
	offer := func(toolset string, tools ...string) func(*pinRig) {
		return func(p *pinRig) { p.offer(toolset, tools...) }
	}
	for name, tc := range map[string]struct {
		why   string
		steps []func(*pinRig) // a turn follows each, and the call comes in the last
		call  string
		later bool
	}{
		"a new name":                   {"it was not there", []func(*pinRig){offer("ops", "read"), offer("ops", "read", "send")}, "ops__send", true},
		"a changed tool":               {"it was another", []func(*pinRig){offer("ops", "send"), offer("ops", "send: Sends all keys.")}, "ops__send", true},
		"away at the start":            {"it is seen first when it comes", []func(*pinRig){offer("ops"), offer("ops", "send")}, "ops__send", false},
		"away at the start, then more": {"it was seen by then", []func(*pinRig){offer("ops"), offer("ops", "read"), offer("ops", "read", "send")}, "ops__send", true},
		"gone and back":                {"it is the same", []func(*pinRig){offer("ops", "send"), offer("ops"), offer("ops", "send")}, "ops__send", false},
		"away, and back as another":    {"what was seen first stays", []func(*pinRig){offer("ops", "send"), offer("ops"), offer("ops", "send: Sends all keys.")}, "ops__send", true},
		"the same at another server":   {"the tool is what is agreed to", []func(*pinRig){offer("ops", "send"), offer("ops", "send")}, "ops__send", false},
		"a second toolset comes":       {"it is seen first when it comes", []func(*pinRig){offer("ops", "read"), offer("web", "send")}, "web__send", false},
		"the tool of another toolset":  {"each has its own", []func(*pinRig){offer("web", "send"), offer("ops", "read"), offer("ops", "read", "send")}, "ops__send", true},
		"after a restart":              {"it is in the journal", []func(*pinRig){offer("ops"), offer("ops", "read"), func(p *pinRig) { p.restart(); p.offer("ops", "read", "send") }}, "ops__send", true},
	} {
		for _, policy := range []v1alpha1.ApprovalPolicy{v1alpha1.ApprovalNever, v1alpha1.ApprovalAlways, v1alpha1.ApprovalDestructive} {
			t.Run(name+"/"+string(policy), func(t *testing.T) {
				turns := append(slices.Repeat([]string{"Working."}, len(tc.steps)-1), "call "+tc.call, "Working.")
				p := newPinRig(t, policy, interceptor.Funcs{}, turns...)
				for _, step := range tc.steps {
					step(p)
					p.look(1)
				}
				task, unasked := p.task(), policy == v1alpha1.ApprovalNever
				switch ran := p.ran.Load(); {
				case !unasked && (ran != 0 || task.Status.Phase != v1alpha1.PhaseNeedsInput):
					t.Errorf("%s: it is %s, and the tool ran %d times", tc.why, task.Status.Phase, ran)
				case unasked && !tc.later && (ran != 1 || task.Status.Phase != v1alpha1.PhaseRunning):
					t.Errorf("%s: it is %s, the tool ran %d times: %s", tc.why, task.Status.Phase, ran, p.results())
				case unasked && tc.later:
					c := condition(task, v1alpha1.ConditionReconciling)
					if ran != 0 || !strings.Contains(p.results(), "There is no tool") || c.Reason != "ToolsChanged" || !strings.Contains(c.Message, tc.call+". The task goes on") {
						t.Errorf("%s: it ran %d times and gave %q; %s: %s", tc.why, ran, p.results(), c.Reason, c.Message)
					}
				}
			})
		}
	}
}

// The pin stands in the journal before the reply to the request that offered the tools, and nothing is written for toolsets that
// were there at the start.
func TestAToolsetThatIsSeenLaterCostsOneEvent(t *testing.T) {
	p := newPinRig(t, v1alpha1.ApprovalNever, interceptor.Funcs{}, "Working.")
	p.offer("ops", "read")
	p.look(2)
	p.offer("web", "get")
	p.look(3)
	var told []string
	for _, e := range p.journal() {
		switch {
		case e.Opened != nil:
			told = append(told, "sees "+strings.Join(e.Opened.Toolsets, ", "))
		case e.ModelReplied != nil:
			told = append(told, "reply")
		}
	}
	if got := strings.Join(told, "; "); got != "sees ops; reply; reply; sees web; reply; reply; reply" {
		t.Errorf("the journal says: %s", got)
	}
}

// A server that waits for the operator to crash in the first call that offers its tools gains nothing by it.
func TestAPinOutlivesACrashInTheCallThatFollows(t *testing.T) {
	var dead atomic.Bool
	p := newPinRig(t, v1alpha1.ApprovalNever, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if s, ok := o.(*v1alpha1.AgentTranscript); ok && dead.Load() && s.Segment.LastSeq > 4 { // Opened, a reply, a nudge, the pin
			return errors.New("the operator is dead")
		}
		return c.Update(ctx, o, opts...)
	}}, "Working.", "call ops__send")
	p.look(1)
	p.offer("ops", "read")
	dead.Store(true)
	if _, err := p.reconcile(); err == nil {
		t.Fatal("the reply is in the journal")
	}
	dead.Store(false)
	p.restart()
	p.offer("ops", "read", "send")
	p.look(1)
	if kinds := p.kinds(); p.ran.Load() != 0 || !strings.Contains(p.results(), "There is no tool") {
		t.Errorf("it ran %d times and gave %q: %v", p.ran.Load(), p.results(), kinds)
	}
}

func TestAnOlderJournalKeepsATasksToolsPinned(t *testing.T) {
	p := newPinRig(t, v1alpha1.ApprovalNever, interceptor.Funcs{}, "call ops__send", "call web__send")
	p.write(loop.Event{Kind: loop.KindOpened, Opened: &loop.Opened{Holder: "h", Input: &loop.Input{Prompt: "Do it."}, ToolDigests: map[string]string{"ops__read": "d"}}})
	p.offer("ops", "send")
	p.offer("web", "send")
	if p.look(1); p.ran.Load() != 0 {
		t.Error("what a toolset that was seen lists later has run")
	}
	if p.look(1); p.ran.Load() != 1 {
		t.Error("a toolset that was never seen is not pinned now")
	}
}

// A server that goes on to change its list makes no status flap, and what its owner does about it ends the notice.
func TestWhatIsNotOfferedIsNamedOnceAndSteadily(t *testing.T) {
	p := newPinRig(t, v1alpha1.ApprovalNever, interceptor.Funcs{}, "Working.")
	server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	list := func(names ...string) {
		for _, name := range names {
			server.AddTool(&sdk.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
				func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, nil })
		}
	}
	list("read")
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	p.put("ops", web.URL)
	p.look(1)
	says := func() (string, string) {
		c := condition(p.look(1), v1alpha1.ConditionReconciling)
		return c.Reason, c.Message
	}
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	list(names...)
	p.relist()
	reason, first := says()
	if reason != "ToolsChanged" || !strings.Contains(first, ": ops__a, ops__b, ops__c, ops__d, ops__e, others. ") || !strings.Contains(first, `"web" is not available`) {
		t.Fatalf("%s: %s", reason, first)
	}
	for i := range 4 {
		if i%2 == 0 {
			server.RemoveTools(names...)
		} else {
			list("a", "x", "y")
		}
		p.relist()
		if _, now := says(); now != first {
			t.Errorf("it says now: %s", now)
		}
	}
	p.policy = v1alpha1.ApprovalAlways
	p.put("ops", web.URL)
	if reason, now := says(); reason != "ToolsetUnavailable" || strings.Contains(now, "ops__") {
		t.Errorf("once each call needs approval it still says %s: %s", reason, now)
	}
}

// relist makes the pool read the lists anew.
func (p *pinRig) relist() {
	for _, e := range []string{"ops", "web"} {
		set := &v1alpha1.AgentToolset{}
		if err := p.kube.Get(p.Context(), types.NamespacedName{Namespace: taskKey.Namespace, Name: e}, set); err != nil {
			p.Fatal(err)
		}
		if id, _, err := p.Models.Toolset(p.Context(), set); err == nil {
			p.Tools.Close(id)
			p.Tools.Open(id)
		}
	}
}
