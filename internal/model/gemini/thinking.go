package gemini

import (
	"regexp"
	"strings"

	"google.golang.org/genai"
)

// budgets are thinking tokens for an effort, for models before Gemini 3. They are those that the API itself uses where it
// is called in OpenAI's format.
var budgets = map[string]int32{"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

// minBudget is the least budget that all thinking models take.
const minBudget = 512

// levels are the thinking levels of Gemini 3 and newer, which cannot be switched off.
var levels = map[string]genai.ThinkingLevel{
	"none":    genai.ThinkingLevelMinimal,
	"minimal": genai.ThinkingLevelMinimal,
	"low":     genai.ThinkingLevelLow,
	"medium":  genai.ThinkingLevelMedium,
	"high":    genai.ThinkingLevelHigh,
	"xhigh":   genai.ThinkingLevelHigh,
	"max":     genai.ThinkingLevelHigh,
}

// beforeLevels matches the names of models that take a budget. Names without a version are those of the newest.
var beforeLevels = regexp.MustCompile(`gemini-(1|2)\b`)

// thinkingFor maps a reasoning effort. Unset, or a word that is not known, leaves the model's default. maxOutput is the
// reply's cap in tokens, 0 for none: thinking counts against it, so a budget may take at most half of it.
func thinkingFor(model, effort string, maxOutput int32) *genai.ThinkingConfig {
	effort = strings.ToLower(effort)
	level, ok := levels[effort]
	if !ok {
		return nil
	}
	// Summaries of the thoughts cost nothing more, and show in the transcript.
	cfg := &genai.ThinkingConfig{IncludeThoughts: effort != "none"}
	if !beforeLevels.MatchString(strings.ToLower(model)) {
		cfg.ThinkingLevel = level
		return cfg
	}
	budget := budgets[effort]
	if maxOutput > 0 {
		budget = min(budget, max(maxOutput/2, minBudget))
	}
	cfg.ThinkingBudget = &budget
	return cfg
}
