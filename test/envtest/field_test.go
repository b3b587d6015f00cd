package envtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// Servers out there answer in shapes that nobody's own fakes have. What follows plays such shapes, as their users have reported them,
// through the whole operator.

// wireServer answers each request by what it is, in bytes.
type wireServer struct {
	mu       sync.Mutex
	requests []*wireRequest
	answer   func(*wireRequest) wireAnswer
}

// wireRequest is a request as it came, in the order of their coming.
type wireRequest struct {
	N      int // from 1
	Header http.Header
	Text   string
	Body   map[string]any
	// Replies counts the assistant's messages.
	Replies int
}

// wireAnswer is a status and a body. One that begins with { is JSON, else it is a stream. Hang up: the connection ends instead.
type wireAnswer struct {
	status int
	body   string
	hangUp bool
}

func (s *wireServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	q := &wireRequest{Header: r.Header.Clone(), Text: string(text), Body: map[string]any{}}
	_ = json.Unmarshal(text, &q.Body)
	messages, _ := q.Body["messages"].([]any)
	for _, m := range messages {
		if of, _ := m.(map[string]any); of["role"] == "assistant" {
			q.Replies++
		}
	}
	s.mu.Lock()
	s.requests = append(s.requests, q)
	q.N = len(s.requests)
	s.mu.Unlock()
	a := s.answer(q)
	if a.hangUp {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if strings.HasPrefix(a.body, "{") {
		w.Header().Set("Content-Type", "application/json")
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = io.WriteString(w, a.body)
}

func (s *wireServer) seen() []*wireRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*wireRequest(nil), s.requests...)
}

// wire creates the AgentModel named default, on a server that answers so.
func (f *fixture) wire(spec v1alpha1.AgentModelSpec, answer func(*wireRequest) wireAnswer) *wireServer {
	f.Helper()
	s := &wireServer{answer: answer}
	server := httptest.NewServer(s)
	f.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	if spec.Provider == "" {
		spec.Provider = v1alpha1.ProviderOpenAI
	}
	spec.Model, spec.Endpoint = "m", server.URL
	f.model("default", spec)
	return s
}

// fieldLimits are those of a task that somebody else's server answers.
func fieldLimits(s *v1alpha1.AgentTaskSpec) {
	s.MaxIterations, s.MaxTokens = new(int32(6)), new(int64(100_000))
}

const goodUsage = `data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":900,"completion_tokens":6,"total_tokens":906}}

data: [DONE]

`

// says is a stream of a reply with this text.
func says(text string) wireAnswer {
	content, _ := json.Marshal(text)
	return wireAnswer{body: fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":%s},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

%s`, content, goodUsage)}
}

// calls is a stream of a reply with a call.
func calls(id, name, arguments string) wireAnswer {
	call, _ := json.Marshal([]any{map[string]any{"index": 0, "id": id, "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}})
	return wireAnswer{body: fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":%s},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

%s`, call, goodUsage)}
}

var good = says("TASK_COMPLETE: ok")

func isTrue(p *bool) bool { return p != nil && *p }

func finishedReason(t *v1alpha1.AgentTask) string {
	if c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionFinished); c != nil {
		return c.Reason
	}
	return ""
}

// usedTokens checks what a task was charged.
func (f *fixture) usedTokens(task *v1alpha1.AgentTask, want int64) {
	f.Helper()
	if got := *task.Status.Usage.TotalTokens; got != want {
		f.Errorf("%d tokens, want %d", got, want)
	}
}

func TestToolsBesideAnEffort(t *testing.T) {
	refuses := func(r *wireRequest) wireAnswer {
		if tools, _ := r.Body["tools"].([]any); len(tools) > 0 && r.Body["reasoning_effort"] != "none" {
			return wireAnswer{400, `{"error":{"message":"Tools of kind function do not go together with reasoning_effort for m on this path. Use the responses path, or set reasoning_effort to 'none'.","type":"invalid_request_error","param":"reasoning_effort","code":null}}`, false}
		}
		return good
	}
	t.Run("no effort was asked for", func(t *testing.T) {
		f := newFixture(t)
		f.wire(v1alpha1.AgentModelSpec{}, refuses)
		f.task("task", fieldLimits)
		f.awaitExit("task", v1alpha1.ExitCompleted)
	})
	t.Run("one was", func(t *testing.T) {
		f := newFixture(t)
		s := f.wire(v1alpha1.AgentModelSpec{Parameters: &v1alpha1.ModelParameters{ReasoningEffort: "High"}}, refuses)
		f.task("task", fieldLimits)
		task := f.awaitExit("task", v1alpha1.ExitError)
		if !strings.Contains(task.Status.Message, "spec.parameters.reasoningEffort") {
			t.Errorf("the end does not say what to set: %s", task.Status.Message)
		}
		for _, r := range s.seen() {
			if r.Body["reasoning_effort"] != "high" {
				t.Errorf("a request had the effort %v", r.Body["reasoning_effort"])
			}
		}
	})
}

func TestCachedInputToldWholeAndThenSplitCountsOnce(t *testing.T) {
	f := newFixture(t)
	f.wire(v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderAnthropic}, func(r *wireRequest) wireAnswer {
		text := []string{"Step one.", "Step two.", "TASK_COMPLETE: ok"}[min(r.Replies, 2)]
		return wireAnswer{body: `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":5000,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text + `"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":20,"output_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":4980}}

event: message_stop
data: {"type":"message_stop"}

`}
	})
	f.task("task", func(s *v1alpha1.AgentTaskSpec) { s.MaxTokens = new(int64(20_000)) })
	task := f.awaitExit("task", v1alpha1.ExitCompleted)
	f.usedTokens(task, 15_030)
	if got := *task.Status.Usage.CachedInputTokens; got != 14_940 {
		t.Errorf("%d cached, want 14940", got)
	}
}

func TestThoughtsWithoutAnOpeningTagEndNothing(t *testing.T) {
	for _, signal := range []string{"TASK_COMPLETE: report written", "NEED_INPUT: which report?"} {
		f := newFixture(t)
		f.wire(v1alpha1.AgentModelSpec{}, func(r *wireRequest) wireAnswer {
			if r.Replies > 0 {
				return good
			}
			return says("The user wants a report. At the very end I would write\n\n" + signal + "\n\nbut nothing is done yet.\n</think>\n\nI will read the files first.")
		})
		f.task("task", fieldLimits)
		task := f.awaitExit("task", v1alpha1.ExitCompleted)
		if task.Status.Summary != "ok" || *task.Status.Iterations != 2 {
			t.Errorf("%q after %d turns", task.Status.Summary, *task.Status.Iterations)
		}
		if out := task.Status.Output; out != "I will read the files first." {
			t.Errorf("the output is %q", out)
		}
	}
}

func TestTheSameWordAnswersTwoQuestionsAsTheStatusSays(t *testing.T) {
	f := newFixture(t)
	f.wire(v1alpha1.AgentModelSpec{}, func(r *wireRequest) wireAnswer {
		if r.Replies < 2 {
			return says(fmt.Sprintf("NEED_INPUT: is it %d?", r.Replies))
		}
		return good
	})
	f.task("task", fieldLimits)
	for n := range 2 {
		task := f.await("task", "asking", func(task *v1alpha1.AgentTask) bool {
			q := task.Status.InputRequest
			return q != nil && q.Question == fmt.Sprintf("is it %d?", n)
		})
		_, patch, ok := strings.Cut(task.Status.Message, "--type=merge -p '")
		patch, _, closed := strings.Cut(patch, "'")
		if !ok || !closed {
			t.Fatalf("no command in %q", task.Status.Message)
		}
		f.patch("task", strings.ReplaceAll(patch, "YOUR ANSWER", "yes"))
	}
	f.awaitExit("task", v1alpha1.ExitCompleted)
}

func TestEmptyDataBetweenEventsIsNothing(t *testing.T) {
	for name, empty := range map[string]string{"without a blank": "data:\n\n", "with one": "data: \n\n"} {
		f := newFixture(t)
		s := f.wire(v1alpha1.AgentModelSpec{}, func(*wireRequest) wireAnswer {
			return wireAnswer{body: empty + strings.ReplaceAll(good.body, "\n\n", "\n\n"+empty)}
		})
		f.task("task", fieldLimits)
		f.usedTokens(f.awaitExit("task", v1alpha1.ExitCompleted), 906)
		if n := len(s.seen()); n != 1 {
			t.Errorf("%s: %d calls", name, n)
		}
	}
}

func TestAStatusSaysMoreThanAVagueType(t *testing.T) {
	for name, tc := range map[string]struct {
		status   int
		message  string
		cause    string
		requests int
	}{
		"401":                       {401, "unauthorized", "ModelAuthenticationFailed", 1},
		"429 of a weekly allowance": {429, "you have used up your weekly limit", "ModelRateLimited", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := f.wire(v1alpha1.AgentModelSpec{Retry: &v1alpha1.RetryPolicy{MaxAttempts: new(int32(2))}}, func(*wireRequest) wireAnswer {
				return wireAnswer{tc.status, fmt.Sprintf(`{"error":{"message":%q,"type":"api_error","param":null,"code":null}}`, tc.message), false}
			})
			f.task("task", fieldLimits)
			task := f.awaitExit("task", v1alpha1.ExitError)
			if got := finishedReason(task); got != tc.cause || tc.requests > 0 && len(s.seen()) != tc.requests {
				t.Errorf("%s after %d requests", got, len(s.seen()))
			}
		})
	}
}

func TestBrokenOffCallsAreChargedAndRefusedOnesAreNot(t *testing.T) {
	for name, tc := range map[string]struct {
		fails     wireAnswer
		exit      v1alpha1.LoopExitReason
		estimated bool
	}{
		"refused":    {wireAnswer{503, `{"error":{"message":"busy"}}`, false}, v1alpha1.ExitCompleted, false},
		"broken off": {wireAnswer{hangUp: true}, v1alpha1.ExitTokenBudgetExceeded, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for some seconds
			f := newFixture(t)
			f.wire(v1alpha1.AgentModelSpec{}, func(r *wireRequest) wireAnswer {
				if r.N <= 4 {
					return tc.fails
				}
				return wireAnswer{body: strings.ReplaceAll(good.body, `"prompt_tokens":900,"completion_tokens":6,"total_tokens":906`, `"prompt_tokens":6990,"completion_tokens":10,"total_tokens":7000`)}
			})
			f.task("task", func(s *v1alpha1.AgentTaskSpec) {
				s.Prompt, s.MaxTokens = strings.Repeat("abc", 10_000), new(int64(35_000))
			})
			task := f.awaitExit("task", tc.exit)
			if isTrue(task.Status.Usage.Estimated) != tc.estimated || strings.Contains(task.Status.Message, "without a whole reply") != tc.estimated {
				t.Errorf("estimated: %v; %s", isTrue(task.Status.Usage.Estimated), task.Status.Message)
			}
		})
	}
}
