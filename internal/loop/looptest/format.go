package looptest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Scenario is one conversation with its expected end.
type Scenario struct {
	// Name is the rule that the scenario shows, Why is the reason for the rule.
	Name string `yaml:"name"`
	Why  string `yaml:"why"`
	// Spec has the fields of an AgentTask's spec. The prompt is "Do the task." unless it says otherwise, and noProgressTurns
	// is 10 and limitWarningPercent 80, as in the API.
	Spec map[string]any `yaml:"spec"`
	// Tools are what the task's toolsets offer.
	Tools []Tool `yaml:"tools"`
	// Model is what is known of the model.
	Model struct {
		ContextWindowTokens int64 `yaml:"contextWindowTokens"`
		MaxOutputTokens     int64 `yaml:"maxOutputTokens"`
		// Retry bounds the attempts at a call; unless given nothing does.
		Retry struct {
			MaxAttempts int           `yaml:"maxAttempts"`
			MaxElapsed  time.Duration `yaml:"maxElapsed"`
		} `yaml:"retry"`
	} `yaml:"model"`
	// Turns are the replies of the models and what happens between them, in order.
	Turns  []Turn `yaml:"turns"`
	Expect Expect `yaml:"expect"`

	// File is where the scenario stands.
	File string `yaml:"-"`
}

// Tool is a tool of the task's toolsets.
type Tool struct {
	Name string `yaml:"name"`
	// Digest tells it from another one of the same name.
	Digest          string `yaml:"digest"`
	RequireApproval bool   `yaml:"requireApproval"`
	Repeatable      bool   `yaml:"repeatable"`
}

// Turn is one step of the conversation: exactly one of Agent, WrapUp, Judge, Summary, User, Early, Time, Waits,
// Operator and Expect.
type Turn struct {
	// Agent, WrapUp, Judge and Summary are the text of a model's reply: to a turn, after a limit, as a judge, and for a
	// compaction.
	Agent   *string `yaml:"agent"`
	WrapUp  *string `yaml:"wrapUp"`
	Judge   *string `yaml:"judge"`
	Summary *string `yaml:"summary"`
	Reply   `yaml:",inline"`

	// User changes the spec: the fields given replace those of the spec. The resumeInputID `open` stands for the id of the
	// open question.
	User map[string]any `yaml:"user"`
	// Early is as User, but seen before the open question is shown.
	Early map[string]any `yaml:"early"`
	// Tools replaces what the toolsets offer.
	Tools []Tool `yaml:"tools"`
	// Time passes.
	Time time.Duration `yaml:"time"`
	// Waits: so much time passes while the task waits for a slot, a model's limit or a budget.
	Waits time.Duration `yaml:"waits"`
	// Operator `crashes` between two steps, maybe in a call, or `restarts` after it has let its tasks go. Another one takes
	// over; `rival`: one that another has taken the task from, takes it back.
	Operator string `yaml:"operator"`
	// Expect is what must hold now.
	Expect *Expect `yaml:"expect"`
}

// Reply is what a model's reply has beside its text.
type Reply struct {
	// Blocks are the text, for a reply of several blocks.
	Blocks []string `yaml:"blocks"`
	// Long repeats the text that many times.
	Long      int    `yaml:"long"`
	Reasoning string `yaml:"reasoning"`
	Calls     []Call `yaml:"calls"`
	Usage     *Usage `yaml:"usage"`
	// Finish is stop, or tool_calls where there are calls, unless given.
	Finish string `yaml:"finish"`
	// Error fails the call instead, after the text has streamed: RateLimited, Unavailable, AuthenticationFailed,
	// ContextWindowExceeded or InvalidRequest.
	Error      string        `yaml:"error"`
	RetryAfter time.Duration `yaml:"retryAfter"`
	// Takes is how long the call lasts.
	Takes time.Duration `yaml:"takes"`
	// Chunk is the number of bytes that stream at once; all of them by default.
	Chunk int `yaml:"chunk"`
	// Interrupt breaks the call off once the text has streamed: cancelled or shuttingDown. Whole: the reply is whole by then
	// all the same.
	Interrupt string `yaml:"interrupt"`
	Whole     bool   `yaml:"whole"`
	// Meanwhile changes the spec while the call runs, like User.
	Meanwhile map[string]any `yaml:"meanwhile"`
	// Crash: the operator dies before the reply is in its journal.
	Crash bool `yaml:"crash"`
	// Sees and SeesNot are what the request must contain and must not.
	Sees    []string `yaml:"sees"`
	SeesNot []string `yaml:"seesNot"`
	// Times repeats the whole reply.
	Times int `yaml:"times"`
}

// Call is a tool call and its outcome.
type Call struct {
	// ID is call-1, call-2 and so on unless given.
	ID        string `yaml:"id"`
	Name      string `yaml:"name"`
	Arguments string `yaml:"arguments"`
	Result    string `yaml:"result"`
	IsError   bool   `yaml:"isError"`
	// Takes is how long the call lasts, Crash: the operator dies while it runs, Panic: its code panics.
	Takes time.Duration `yaml:"takes"`
	Crash bool          `yaml:"crash"`
	Panic bool          `yaml:"panic"`
}

// Usage is what the provider reports.
type Usage struct {
	Input  int64 `yaml:"input"`
	Output int64 `yaml:"output"`
	Total  int64 `yaml:"total"`
}

// Expect is what must hold. What is not given is not looked at.
type Expect struct {
	// Exit is the exit reason; Running and Suspended are for a task that goes on or is held.
	Exit  string `yaml:"exit"`
	Cause string `yaml:"cause"`
	// Message must contain this.
	Message    string  `yaml:"message"`
	Iterations *int64  `yaml:"iterations"`
	Summary    *string `yaml:"summary"`
	Output     *string `yaml:"output"`
	// Question is the open question, Kind its kind, QuestionID its id.
	Question *string `yaml:"question"`
	Kind     string  `yaml:"kind"`
	// Tokens is the total that counts against maxTokens, Estimated whether it is an estimate in part.
	Tokens    *int64 `yaml:"tokens"`
	Estimated *bool  `yaml:"estimated"`
	// Active is the time that counts against maxDuration.
	Active *time.Duration `yaml:"active"`
	// ToolRuns is how often each tool was run, ModelCalls how often a model was called.
	ToolRuns   map[string]int `yaml:"toolRuns"`
	ModelCalls *int           `yaml:"modelCalls"`
	// Todo are the open items of the agent's list.
	Todo []string `yaml:"todo"`
}

// Load reads all scenarios of a directory.
func Load(dir string) ([]Scenario, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []Scenario
	for _, file := range files {
		scenarios, err := loadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, scenarios...)
	}
	return out, nil
}

func loadFile(file string) ([]Scenario, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	var out []Scenario
	for {
		sc := Scenario{File: strings.TrimSuffix(filepath.Base(file), ".yaml")}
		if err := dec.Decode(&sc); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("scenario %d: %w", len(out)+1, err)
		}
		if err := sc.validate(); err != nil {
			return nil, fmt.Errorf("%q: %w", sc.Name, err)
		}
		out = append(out, sc)
	}
}

func (sc *Scenario) validate() error {
	if sc.Name == "" || sc.Why == "" || sc.Expect.Exit == "" {
		return errors.New("name, why and expect.exit are needed")
	}
	for i := range sc.Turns {
		t := &sc.Turns[i]
		n := 0
		for _, is := range []bool{
			t.Agent != nil, t.WrapUp != nil, t.Judge != nil, t.Summary != nil,
			t.User != nil, t.Early != nil, t.Tools != nil, t.Time != 0, t.Waits != 0, t.Operator != "", t.Expect != nil,
		} {
			if is {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("turn %d is %d things, not one", i+1, n)
		}
	}
	return nil
}
