package looptest

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// taskSpec is the part of an AgentTask's spec that the loop goes by, in the API's words.
type taskSpec struct {
	Prompt          string        `yaml:"prompt"`
	Instructions    string        `yaml:"instructions"`
	MaxIterations   int64         `yaml:"maxIterations"`
	MaxTokens       int64         `yaml:"maxTokens"`
	MaxDuration     time.Duration `yaml:"maxDuration"`
	InputTimeout    time.Duration `yaml:"inputTimeout"`
	MaxJournalBytes int64         `yaml:"maxJournalBytes"`
	Completion      struct {
		Strategy string `yaml:"strategy"`
		StopWhen string `yaml:"stopWhen"`
		Judge    struct {
			Criteria     []string `yaml:"criteria"`
			Instructions string   `yaml:"instructions"`
		} `yaml:"judge"`
	} `yaml:"completion"`
	Nudge   string `yaml:"nudge"`
	Context struct {
		Mode        string `yaml:"mode"`
		ProgressLog bool   `yaml:"progressLog"`
	} `yaml:"context"`
	NoProgressTurns int            `yaml:"noProgressTurns"`
	LimitWarning    int            `yaml:"limitWarningPercent"`
	OnLimit         string         `yaml:"onLimit"`
	OutputSchema    map[string]any `yaml:"outputSchema"`
	ResumeInput     string         `yaml:"resumeInput"`
	ResumeInputID   string         `yaml:"resumeInputID"`
	Cancel          bool           `yaml:"cancel"`
	Suspend         bool           `yaml:"suspend"`
}

// Spec is a scenario's spec as the loop takes it, with changes laid over it.
func (sc *Scenario) loopSpec(fields map[string]any, tools []Tool) (*loop.Spec, error) {
	text, err := yaml.Marshal(fields)
	if err != nil {
		return nil, err
	}
	in := taskSpec{Prompt: "Do the task.", NoProgressTurns: 10, LimitWarning: 80}
	if err := yaml.Unmarshal(text, &in); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	sp := &loop.Spec{
		Prompt: in.Prompt, Instructions: in.Instructions,
		MaxIterations: in.MaxIterations, MaxTokens: in.MaxTokens, MaxDuration: in.MaxDuration, InputTimeout: in.InputTimeout, MaxJournalBytes: in.MaxJournalBytes,
		Strategy: loop.Strategy(in.Completion.Strategy), Criteria: in.Completion.Judge.Criteria, JudgeInstructions: in.Completion.Judge.Instructions,
		Nudge: in.Nudge, Fresh: in.Context.Mode == "Fresh", ProgressLog: in.Context.ProgressLog,
		NoProgressTurns: in.NoProgressTurns, LimitWarningPercent: in.LimitWarning, WrapUp: in.OnLimit == "WrapUp",
		Cancel: in.Cancel, Suspend: in.Suspend, ResumeInput: in.ResumeInput, ResumeInputID: in.ResumeInputID,
		ContextWindowTokens: sc.Model.ContextWindowTokens, ReplyTokens: sc.Model.MaxOutputTokens,
	}
	r := sc.Model.Retry
	sp.Retry = loop.Retry{MaxAttempts: r.MaxAttempts, MaxElapsed: r.MaxElapsed, NamedElapsed: r.MaxElapsed}
	for _, t := range tools {
		sp.Tools = append(sp.Tools, loop.ToolDefinition{Name: t.Name, Digest: t.Digest, RequireApproval: t.RequireApproval, Repeatable: t.Repeatable})
	}
	if in.Completion.StopWhen != "" {
		if sp.StopWhen, err = loop.CompilePredicate(in.Completion.StopWhen); err != nil {
			return nil, fmt.Errorf("stopWhen: %w", err)
		}
	}
	if in.OutputSchema != nil {
		raw, err := json.Marshal(in.OutputSchema)
		if err != nil {
			return nil, err
		}
		if sp.Output, err = loop.CompileSchema(raw); err != nil {
			return nil, fmt.Errorf("outputSchema: %w", err)
		}
	}
	return sp, nil
}

// merged lays changes over the fields of a spec, one level deep.
func merged(fields, changes map[string]any) map[string]any {
	out := maps.Clone(fields)
	if out == nil {
		out = map[string]any{}
	}
	maps.Copy(out, changes)
	return out
}
