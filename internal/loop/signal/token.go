package signal

import "strings"

const (
	byteOrderMark = "\ufeff"
	maxIndent     = 3 // A fourth space makes code of a line.
	maxMarks      = 3 // `***` is bold and italic; more is decoration.
)

// tokenLine is a line that starts with a token. Whether it is a signal depends on where in the document it stands.
type tokenLine struct {
	kind  Kind
	start int    // offset of the line
	mark  int    // offset of its first character that is no space
	body  int    // offset right after the token
	marks string // the emphasis marks before the token
}

// matchToken reads a line's start. Offsets are relative to the line.
func matchToken(line string) (tokenLine, bool) {
	i := 0
	for i < len(line) && i < maxIndent && line[i] == ' ' {
		i++
	}
	t := tokenLine{mark: i}
	for i < len(line) && i-t.mark < maxMarks && (line[i] == '*' || line[i] == '_') {
		i++
	}
	t.marks = line[t.mark:i]
	switch {
	case strings.HasPrefix(line[i:], CompleteToken):
		t.kind, t.body = Complete, i+len(CompleteToken)
	case strings.HasPrefix(line[i:], NeedInputToken):
		t.kind, t.body = NeedInput, i+len(NeedInputToken)
	default:
		return tokenLine{}, false
	}
	return t, true
}

// shifted returns t with its offsets moved from a part of a text to the whole.
func (t tokenLine) shifted(by int) tokenLine {
	t.start += by
	t.mark += by
	t.body += by
	return t
}

// mentionsToken is the cheap test that spares most replies the scan.
func mentionsToken(text string) bool {
	return strings.Contains(text, CompleteToken) || strings.Contains(text, NeedInputToken)
}

// normalizeLineEnds turns each carriage return that no newline follows into a newline. Markdown takes it as a line end,
// the parser does not. Offsets stay as they are.
func normalizeLineEnds(text string) string {
	if !strings.Contains(text, "\r") {
		return text
	}
	b := []byte(text)
	for i, c := range b {
		if c == '\r' && (i+1 == len(b) || b[i+1] != '\n') {
			b[i] = '\n'
		}
	}
	return string(b)
}
