package openai

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// features say how a server wants to be asked. They are compared, so they stay plain values.
type features struct {
	// noStream: the server refuses to stream, so a plain reply is asked for.
	noStream bool
	// noUsageInStream: the server does not know stream_options.
	noUsageInStream bool
	// noResponseFormat: the server does not know response_format json_schema.
	noResponseFormat bool
	// completionTokens: the cap on a reply is called max_completion_tokens, else max_tokens.
	completionTokens bool
	// replayReasoning: the server wants the reasoning of earlier turns back (DeepSeek and Kimi with tools).
	replayReasoning bool
	// asked: an effort is asked for, so none other may be sent. noEffort: beside tools, the server takes no effort but none.
	asked, noEffort bool
	// historyTools: the server refuses calls of tools that are not declared. noToolChoice: it does not know tool_choice.
	historyTools, noToolChoice bool
	// parted: the server wants an assistant's message between a tool's and a user's (Mistral, and templates of its models).
	parted bool
}

// firstFeatures is what to begin with: OpenAI retired max_tokens, most compatible servers know nothing else.
func firstFeatures(cfg model.Config) features {
	return features{completionTokens: isOfficial(cfg.Endpoint), asked: cfg.Parameters.ReasoningEffort != ""}
}

func isOfficial(endpoint string) bool {
	if endpoint == "" {
		return true
	}
	u, err := url.Parse(endpoint)
	return err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".api.openai.com"))
}

// word finds "stream" and "streaming", but not stream_options: an underscore belongs to the word.
var word = regexp.MustCompile(`(?i)\bstream(ing)?\b`)

// afterTool is how servers refuse a user's message right after a tool's.
var afterTool = regexp.MustCompile(`(?i)role\W{0,3}user\W{0,3} after role\W{0,3}tool`)

// adapt reads a rejection of a request, which is bare where it holds calls and no tools. It returns the features to try next, and false where the rejection is about none of them.
func (f features) adapt(status int, e model.ErrorBody, bare bool) (features, bool) {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotImplemented:
	default:
		return f, false
	}
	if model.CodeFromMessage(e.Message) != "" {
		return f, false // too long a conversation, which servers explain with the names of our fields
	}
	next := f
	switch {
	case !f.noStream && !f.noUsageInStream && e.Names("stream_options"):
		next.noUsageInStream = true
	case !f.noStream && (e.Param == "stream" || e.Param == "" && word.MatchString(e.Message)):
		next.noStream = true
	case !f.noResponseFormat && e.Names("response_format"):
		next.noResponseFormat = true
	case f.completionTokens && e.Names("max_completion_tokens"):
		next.completionTokens = false
	case !f.completionTokens && e.Names("max_tokens"):
		next.completionTokens = true
	case !f.parted && afterTool.MatchString(e.Message):
		next.parted = true
	case bare && f.historyTools && !f.noToolChoice && e.Names("tool_choice"):
		next.noToolChoice = true
	case bare && !f.historyTools && e.Names("tools"):
		next.historyTools = true
	case !f.asked && e.Names("reasoning_effort"):
		next.noEffort = true
	case e.Names("reasoning_content"):
		next.replayReasoning = !f.replayReasoning
	}
	return next, next != f
}

// adapted is adapt for the error of a call. Under its other name, a cap that is too large would be ignored by many servers.
func adapted(f features, err error, sent int64, bare bool) (features, bool) {
	var status *model.StatusError
	if !errors.As(err, &status) || usedUp(status.Body) || status.ModelError(sent).OutputCap != nil {
		return f, false
	}
	return f.adapt(status.Status, status.Body, bare)
}
