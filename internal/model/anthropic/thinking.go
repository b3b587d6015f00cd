package anthropic

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
)

// minThinkingBudget is the API's least budget_tokens.
const minThinkingBudget = 1024

// maxThinkingBudget keeps a large reply cap from being spent on thinking alone.
const maxThinkingBudget = 32000

// minThinkingTopP is the least top_p that the API takes together with thinking.
const minThinkingTopP = 0.95

// budgetPercent is the share of max_tokens that thinking may use, for models that take a budget.
var budgetPercent = map[string]int64{"minimal": 10, "low": 20, "medium": 50, "high": 80, "xhigh": 80, "max": 80}

// adaptiveEffort is the effort for models that decide themselves how long to think. There is no effort below low.
var adaptiveEffort = map[string]sdk.OutputConfigEffort{
	"minimal": sdk.OutputConfigEffortLow,
	"low":     sdk.OutputConfigEffortLow,
	"medium":  sdk.OutputConfigEffortMedium,
	"high":    sdk.OutputConfigEffortHigh,
	"xhigh":   sdk.OutputConfigEffortXhigh,
	"max":     sdk.OutputConfigEffortMax,
}

// applyEffort sets thinking for a reasoning effort. Unset leaves everything to the model's default. Claude 4.6 and newer
// take adaptive thinking and an effort, older ones and other makers' models a budget of tokens; older ones only where the
// conversation allows it. With thinking on, the sampling parameters that the API refuses beside it are taken out.
func applyEffort(p *sdk.MessageNewParams, effort string) {
	effort = strings.ToLower(effort)
	switch {
	case effort == "":
		return
	case effort == "none":
		if thinksAdaptively(p.Model) {
			p.Thinking = sdk.ThinkingConfigParamUnion{OfDisabled: &sdk.ThinkingConfigDisabledParam{}}
		}
		return // The older models think only when asked to.
	case thinksAdaptively(p.Model):
		level, ok := adaptiveEffort[effort]
		if !ok {
			return
		}
		if level == sdk.OutputConfigEffortXhigh && !atLeast(p.Model, 4, 7) {
			level = sdk.OutputConfigEffortMax // Claude 4.6 has max, and none between it and high.
		}
		p.OutputConfig.Effort = level
		p.Thinking = sdk.ThinkingConfigParamUnion{OfAdaptive: &sdk.ThinkingConfigAdaptiveParam{
			Display: sdk.ThinkingConfigAdaptiveDisplaySummarized, // So that the transcript shows it.
		}}
	default:
		budget := thinkingBudget(p.MaxTokens, effort)
		if budget == 0 {
			dropThoughts(p.Messages)
			return
		}
		if isClaude(p.Model) && continuesWithoutThinking(p.Messages) {
			return
		}
		p.Thinking = sdk.ThinkingConfigParamOfEnabled(budget)
	}
	p.Temperature = param.Opt[float64]{}
	if p.TopP.Value < minThinkingTopP {
		p.TopP = param.Opt[float64]{}
	}
}

// withoutSampling takes the sampling parameters out.
func withoutSampling(p *sdk.MessageNewParams) {
	p.Temperature, p.TopP = param.Opt[float64]{}, param.Opt[float64]{}
}

// continuesWithoutThinking tells whether the request goes on with calls that were made without thinking (the effort was set
// while the task ran, or the journal had no room for the thoughts). Claude before 4.6 refuses thinking there. It thinks once
// before a row of calls and their results, so thinking in any message of the row counts: to leave it out then is refused too.
func continuesWithoutThinking(msgs []sdk.MessageParam) bool {
	called := false
	for _, m := range slices.Backward(msgs) {
		results := false
		for _, c := range m.Content {
			if c.OfThinking != nil || c.OfRedactedThinking != nil {
				return false
			}
			called = called || c.OfToolUse != nil
			results = results || c.OfToolResult != nil
		}
		if m.Role == sdk.MessageParamRoleUser && !results {
			break
		}
	}
	return called
}

// dropThoughts takes the thinking out of a conversation that goes on without. Within a row of calls that began with thinking,
// the API refuses to go on without; of thoughts that it is not shown, it knows nothing.
func dropThoughts(msgs []sdk.MessageParam) {
	for i := range msgs {
		msgs[i].Content = slices.DeleteFunc(msgs[i].Content, func(c sdk.ContentBlockParamUnion) bool {
			return c.OfThinking != nil || c.OfRedactedThinking != nil
		})
	}
}

// thinkingBudget is the share of maxTokens for an effort, in tokens; 0 where the cap leaves no room for thinking and an
// answer, because the budget must be at least 1024 and less than max_tokens.
func thinkingBudget(maxTokens int64, effort string) int64 {
	percent, ok := budgetPercent[effort]
	if !ok {
		return 0
	}
	budget := min(max(maxTokens/100*percent, minThinkingBudget), maxThinkingBudget)
	if budget >= maxTokens {
		return 0
	}
	return budget
}

func isClaude(model string) bool { return strings.Contains(strings.ToLower(model), "claude") }

// versionInName finds the first number of a model's name and the one after it, if that is no date.
var versionInName = regexp.MustCompile(`(?:^|[-@:/ ])(\d{1,2})(?:[-.](\d{1,2}))?(?:[-@:.v ]|$)`)

// thinksAdaptively tells by its name whether a model takes adaptive thinking.
func thinksAdaptively(model string) bool { return atLeast(model, 4, 6) }

// atLeast tells by its name whether a model is a Claude of a version or a newer one. Names without a version are those of
// previews, which are newer.
func atLeast(model string, wantMajor, wantMinor int) bool {
	_, name, ok := strings.Cut(strings.ToLower(model), "claude")
	if !ok {
		return false
	}
	m := versionInName.FindStringSubmatch(name)
	if m == nil {
		return true
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major > wantMajor || major == wantMajor && minor >= wantMinor
}
