package model

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

const (
	// MinOutputCap is the smallest cap, in tokens, that is worth asking again with. A conversation that leaves less than that
	// of its context window is too long.
	MinOutputCap = 256
	// everyModelTakes is a cap that is too large for hardly any model.
	everyModelTakes = 4096
	// maxProse bounds how much of a provider's text is searched, in bytes.
	maxProse = 8 << 10
)

// rooms find what one call leaves for its reply: the window less the input, where the window is what input and reply share
// (a context window, or the tokens of a minute). The input is named, or it is the total less the output, and the output is
// the cap that was sent where it is not named.
var rooms = patterns(
	// vLLM
	`\(\d+ > (?P<window>\d+) - (?P<input>\d+)\)`,
	`maximum context length is (?P<window>\d+) tokens\. however, you requested \d+ output tokens`+
		`(?: and your prompt contains (?:at least )?(?P<input>\d+) input)?`,
	`(?:(?P<input>\d+) input tokens|input characters) and requested \d+ output tokens\. `+
		`however, the model's context length is only (?P<window>\d+)`,
	// SGLang
	`maximum context length of (?P<window>\d+) tokens\. you requested a total of [\d.]+ tokens: (?P<input>\d+) tokens from`,
	// OpenAI, DeepSeek, OpenRouter, llama-cpp-python
	`maximum context length is (?P<window>\d+) tokens\W+however,? you requested (?:about )?(?P<total>\d+) tokens`+
		`(?:[^)]*?(?P<output>\d+) (?:in|for) +the (?:completion|output))?`,
	// OpenAI, Groq: more than the tokens of a whole minute
	`request too large .*limit (?P<window>\d+), requested (?P<total>\d+)`,
	// Anthropic
	`exceed context limit: (?P<input>\d+) \+ \d+ > (?P<window>\d+)`,
	// TGI, Together
	"must be <= (?P<window>\\d+)\\. given: (?P<input>\\d+) `?inputs`? tok",
	// Kimi
	`model token limit: (?P<window>\d+) \(requested: (?P<total>\d+)\)`,
	// Cloudflare
	`input and maximum output tokens \((?P<total>\d+)\) exceeded this model context window limit \((?P<window>\d+)\)`,
	// OpenRouter: an account with little left
	`fewer max_tokens\. you requested up to \d+ tokens, but can only afford (?P<afford>\d+)`,
)

// ceilings find the largest cap that a model takes, whatever the input.
var ceilings = patterns(
	`at most (?P<max>\d+)`,                          // OpenAI, Azure
	`> (?P<max>\d+),? which is the maximum`,         // Anthropic
	`\(inclusive\) to (?P<below>\d+) \(exclusive\)`, // Gemini
	`\(inclusive\) to (?P<max>\d+) \(inclusive\)`,
	`range[^\[\d]{0,40}\[\d+, ?(?P<max>\d+)\]`,                          // DeepSeek, DashScope
	`cannot be greater than [a-z_=]*(?P<max>\d+)`,                       // vLLM
	`maximum output tokens \((?P<max>\d+)\)`,                            // Ollama
	`max_tokens > (?P<max>\d+) must have stream`,                        // Fireworks, of plain replies
	`(?:less than or equal to|not less or equal to|<=) \W?(?P<max>\d+)`, // Groq, pydantic, Ark, Bedrock
	`(?:limited to|limit of|(?:not|cannot) exceed|between \d+ and) \W?(?P<max>\d+)`,
	`(?:less|lower|smaller) than \W?(?P<below>\d+)`,
	`maximum(?: allowed)?(?: value)?(?: is| of|:) \W?(?P<max>\d+)`,
)

var (
	capFields = regexp.MustCompile(`max_?(?:completion|output|new)?_?tokens`)
	capWords  = regexp.MustCompile(`maximum tokens|(?:completion|output) tokens`)
	// rateWords are about the tokens of a while.
	rateWords  = regexp.MustCompile(`per (?:minute|min|hour|day)\b|rate limit|quota`)
	largeWords = regexp.MustCompile(`too (?:large|high|big|many)|exceed|above|(?:greater|larger|higher|more) than|maximum|at most|limit|range`)
	// invalidWords may be about the name as well as about the value.
	invalidWords = regexp.MustCompile(`invalid|illegal|非法|must be`)
	// otherWords are about the name, about too small a cap, or about one that was used up.
	otherWords = regexp.MustCompile(`unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|not permitted|extra|not allowed|` +
		`must be (?:greater|larger|at least)|minimum|could not finish`)
)

func patterns(exprs ...string) []*regexp.Regexp {
	out := make([]*regexp.Regexp, len(exprs))
	for i, e := range exprs {
		out[i] = regexp.MustCompile(e)
	}
	return out
}

// NoteRefusedCap completes the error that a provider's text led to, where it says that the cap on the reply's tokens is too
// large. sent is the cap that the request carried, 0 for none. The text is matched and never shown.
//
// Too long an input stays what it is; an input that fits, but not together with the cap, is a refused cap.
func NoteRefusedCap(e *loop.ModelError, text string, sent int64) *loop.ModelError {
	text = text[:min(len(text), maxProse)]
	e.Err = prose(func() string { return text })
	e.OutputCap = refusedCap(e.Status, text, sent)
	if e.OutputCap == nil || e.Cause == loop.CauseContextWindowExceeded || e.Cause == loop.CauseModelRateLimited {
		return e
	}
	e.Cause, e.Retry, e.RetryAfter = loop.CauseModelRequestInvalid, false, 0
	e.Detail = fmt.Sprintf("the model server refused a cap of %d tokens on the reply as too large: "+
		"set parameters.maxOutputTokens of the AgentModel to what the model can give", sent)
	return e
}

func refusedCap(status int, text string, sent int64) *loop.RefusedCap {
	if sent <= 0 {
		return nil
	}
	text = strings.ToLower(text[:min(len(text), maxProse)])
	if room, ok := roomIn(text, sent); ok {
		switch {
		case room < MinOutputCap:
			return nil
		case room >= sent-1: // a server counts an input only until it no longer fits
			room = 0
		}
		return &loop.RefusedCap{Sent: sent, Max: room, ThisCall: true}
	}
	field := capFields.MatchString(text)
	if !field && !capWords.MatchString(text) || rateWords.MatchString(text) || !isRejection(status) {
		return nil
	}
	if code := CodeFromMessage(text); code != "" {
		if field && code == "context_length_exceeded" {
			return &loop.RefusedCap{Sent: sent, ThisCall: true}
		}
		return nil
	}
	if most := ceilingIn(text, sent); most > 0 {
		return &loop.RefusedCap{Sent: sent, Max: most}
	}
	if field && !otherWords.MatchString(text) && (largeWords.MatchString(text) || sent > everyModelTakes && invalidWords.MatchString(text)) {
		return &loop.RefusedCap{Sent: sent}
	}
	return nil
}

// isRejection tells whether a status is one that servers give what they do not like of a request. 0 is an error in a stream.
func isRejection(status int) bool {
	switch status {
	case 0, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// roomIn is what a call leaves for its reply, and sent where the text does not tell how much. It is not ok where the text
// does not set input and cap against what they share.
func roomIn(text string, sent int64) (room int64, ok bool) {
	for _, re := range rooms {
		f := figuresIn(re, text)
		if f == nil {
			continue
		}
		if afford, ok := f["afford"]; ok {
			return afford, true
		}
		input, counted := f["input"]
		if total, ok := f["total"]; ok {
			input, counted = total, true
			if output := cmp.Or(f["output"], sent); output < total {
				input -= output
			}
		}
		if !counted {
			return sent, true
		}
		return f["window"] - input, true
	}
	return 0, false
}

// ceilingIn is the largest cap that the text names, 0 for none that could have refused the one sent.
func ceilingIn(text string, sent int64) int64 {
	for _, re := range ceilings {
		f := figuresIn(re, text)
		if most := max(f["max"], f["below"]-1); most >= MinOutputCap && most < sent {
			return most
		}
	}
	return 0
}

// figuresIn are the figures that a pattern finds, by their names; nil where it does not match.
func figuresIn(re *regexp.Regexp, text string) map[string]int64 {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	out := map[string]int64{}
	for i, name := range re.SubexpNames() {
		if n, err := strconv.ParseInt(m[i], 10, 64); name != "" && err == nil {
			out[name] = n
		}
	}
	return out
}
