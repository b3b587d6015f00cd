package model

import (
	"regexp"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop/signal"
)

// mark is where a thought begins or ends in a text.
type mark struct {
	from, to int
	kind     markKind
}

type markKind int

const (
	markOpen     markKind = iota + 1
	markClose             // of whatever is open
	markFinal             // begins the message of the final channel
	markChannel           // begins a message of another channel
	markEnd               // ends the message of a channel
	markAnswer            // begins what was not thought, where a thought came before
	markAnswered          // ends it
)

// maxMark is the length of the longest mark that is known as one, in bytes.
const maxMark = 256

// marks are the marks that models write, in the order of their kinds. The final channel comes first: its mark begins like others.
var marks = regexp.MustCompile(`^(?i:` +
	`(<(?:\w+[:_])?(?:think|thinking|thoughts?|reasoning|reflection|scratchpad)(?:\s[^<>/]*)?>|\[think\]|◁think▷` +
	`|<\|(?:begin_of|begin|start)_(?:thought|thinking)\|>|<\|inner_prefix\|>|<unused94>(?:thought\b)?|<\|channel>(?:thought\b)?)` +
	`|(</(?:\w+[:_])?(?:think|thinking|thoughts?|reasoning|reflection|scratchpad)\s*>|\[/think\]|◁/think▷` +
	`|<\|end(?:_of)?_(?:thought|thinking)\|>|<\|inner_suffix\|>|<unused95>|<channel\|>)` +
	`|((?:<\|end\|>\s*)?(?:<\|start\|>assistant)?<\|channel\|>\s*final(?:\s*<\|constrain\|>\s*\w+|\s+json)?(?:\s*<\|message\|>)?)` +
	`|((?:<\|end\|>\s*)?(?:<\|start\|>assistant[^<]*)?<\|channel\|>\s*(?:analysis|commentary)(?:[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>)?)` +
	`|(<\|(?:end|return|call)\|>(?:<\|start\|>assistant)?)` +
	`|(<answer>|<\|begin_of_(?:solution|box)\|>|<\|start_response\|>)|(</answer>|<\|end_of_(?:solution|box)\|>|<\|end_response\|>))`)

// nextMark finds the first mark from a place on.
func nextMark(text string, at int) (mark, bool) {
	for ; at < len(text); at++ {
		if c := text[at]; c != '<' && c != '[' && c != "◁"[0] {
			continue
		}
		m := marks.FindStringSubmatchIndex(text[at:min(at+maxMark, len(text))])
		if m == nil {
			continue
		}
		found := mark{from: at, to: at + m[1]}
		for k := markOpen; k <= markAnswered; k++ {
			if m[2*k] >= 0 {
				found.kind = k
			}
		}
		if found.kind != markOpen || !isLink(text, found) {
			return found, true
		}
	}
	return mark{}, false
}

// isLink tells whether a mark in square brackets is the text of a link.
func isLink(text string, m mark) bool {
	return text[m.from] == '[' && m.to < len(text) && strings.IndexByte("([:", text[m.to]) >= 0
}

// quoted tells whether a mark stands in quotation marks by itself.
func quoted(text string, m mark) bool {
	if m.from == 0 || m.to == len(text) {
		return false
	}
	before, after := text[m.from-1], text[m.to]
	return before == after && (before == '"' || before == '\'')
}

// strippedFinal is all that is left of the mark of the final channel where a server took the special tokens out.
const strippedFinal = "assistantfinal"

// strippedChannel is the length of what is left of the mark of another channel at the start of such a reply, 0 where there is none.
// No sentence begins with the word and a capital right after it.
func strippedChannel(text string) int {
	for _, word := range []string{"analysis", "commentary"} {
		rest, ok := strings.CutPrefix(strings.TrimLeft(text, " \t\r\n"), word)
		if ok && rest != "" && (rest[0] >= 'A' && rest[0] <= 'Z' || strings.Contains(rest, strippedFinal)) {
			return len(text) - len(rest)
		}
	}
	return 0
}

var signalStart = regexp.MustCompile(`(?m)^[^\w\n]*(?:` + signal.CompleteToken + `|` + signal.NeedInputToken + `)`)

// nextSignal is where the first line from a place on begins that may be a signal, and the length of the text where there is none.
func nextSignal(text string, at int) int {
	if m := signalStart.FindStringIndex(text[at:]); m != nil {
		return at + m[0]
	}
	return len(text)
}
