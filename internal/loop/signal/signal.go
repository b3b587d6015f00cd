// Package signal finds the lines by which an agent says that it is done or needs a human.
//
// A signal is a line of a top-level paragraph that starts with a token. The reader of the rendered reply must see it as
// a line of its own: what stands in code, HTML, quotes, list items, headings or tables only speaks about the protocol.
package signal

import (
	"strings"
	"unicode"
)

// Kind tells what a reply signals.
type Kind int

// The outcomes of a scan.
const (
	None      Kind = iota // the reply carries no signal
	Complete              // the agent says that the task is done
	NeedInput             // the agent asks a human
)

// The tokens that a signal line starts with. The colon belongs to the token; case matters.
const (
	CompleteToken  = "TASK_COMPLETE:"
	NeedInputToken = "NEED_INPUT:"
)

// Signal is what a reply says about the task's state.
type Signal struct {
	Kind Kind
	// Payload is the summary of a completion, maybe empty, or the questions to the human, one after the other.
	Payload string
}

// Scan returns the one signal that a reply's text blocks carry. Each block is read by itself. A question wins over a
// completion, all questions count, and of several completions the last one does.
func Scan(blocks []string) Signal {
	var questions []string
	result := Signal{}
	for _, block := range blocks {
		_, signals := find(block)
		for _, s := range signals {
			switch {
			case s.kind == Complete:
				result = Signal{Kind: Complete, Payload: s.payload}
			case s.payload != "":
				questions = append(questions, s.payload)
			}
		}
	}
	if len(questions) > 0 {
		return Signal{Kind: NeedInput, Payload: strings.Join(questions, "\n")}
	}
	return result
}

// stripRounds is how often Strip looks again at what is left before it drops every line that starts with a token.
const stripRounds = 4

// Strip returns one text block without its signals, each with token line and payload. Blank lines around the rest are
// dropped. The result carries no signal.
func Strip(text string) string {
	text = trimBlankLines(text)
	for range stripRounds {
		// Cutting a signal can bring up another one: its payload may have held the backtick that made code of a token.
		rest, found := cutSignals(text)
		if !found {
			return text
		}
		text = trimBlankLines(rest)
	}
	return trimBlankLines(dropTokenLines(text))
}

// cutSignals returns text without the signals that a scan of it finds, and whether there was any.
func cutSignals(text string) (string, bool) {
	source, signals := find(text)
	var kept strings.Builder
	from, cut := 0, false
	for _, s := range signals {
		if s.kind == NeedInput && s.payload == "" {
			continue // A question without text is no signal.
		}
		kept.WriteString(source[from:s.start])
		from, cut = s.end, true
	}
	kept.WriteString(source[from:])
	return kept.String(), cut
}

// dropTokenLines returns text without all lines that start with a token, wherever they stand.
func dropTokenLines(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(normalizeLineEnds(text)) {
		// A line that gets to the start of the text may lose its byte order mark there.
		if _, ok := matchToken(strings.TrimLeft(line, byteOrderMark)); !ok {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// trimBlankLines drops the blank lines at both ends of text and the space after its last word. It keeps the indent of
// the first line, which may be what makes code of it.
func trimBlankLines(text string) string {
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	for {
		text = strings.TrimLeft(text, byteOrderMark)
		line, rest, more := strings.Cut(text, "\n")
		if !more || strings.TrimFunc(line, unicode.IsSpace) != "" {
			return text
		}
		text = rest
	}
}
