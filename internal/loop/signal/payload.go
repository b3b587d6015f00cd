package signal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// located is a signal and the part of the text that it takes.
type located struct {
	kind       Kind
	payload    string
	start, end int
}

// find returns the signals of one text block in order, and the text that their offsets are for.
func find(block string) (string, []located) {
	if !mentionsToken(block) {
		return block, nil
	}
	source := normalizeLineEnds(strings.TrimPrefix(block, byteOrderMark))
	var found []located
	for _, s := range sections(source) {
		if s.deep {
			continue
		}
		part := source[s.start:s.end]
		p := parse([]byte(part), s.tokens)
		for i, t := range p.tokens {
			limit := len(part)
			if i+1 < len(p.tokens) {
				limit = p.tokens[i+1].start
			}
			payload, end := readPayload(part[:limit], t, &p.fences)
			found = append(found, located{t.kind, payload, s.start + t.start, s.start + end})
		}
	}
	return source, found
}

// readPayload returns the text from the token up to the next blank line, fence or end of part, and where it ends. It
// drops those fences from the list that it has passed.
func readPayload(part string, t tokenLine, fences *[]int) (string, int) {
	var lines []string
	pos := t.body
	for pos < len(part) {
		end := len(part)
		if i := strings.IndexByte(part[pos:], '\n'); i >= 0 {
			end = pos + i + 1
		}
		for len(*fences) > 0 && (*fences)[0] < pos {
			*fences = (*fences)[1:]
		}
		line := strings.TrimRightFunc(part[pos:end], unicode.IsSpace)
		fenced := len(*fences) > 0 && (*fences)[0] < end
		if pos != t.body && (line == "" || fenced) {
			break
		}
		lines = append(lines, line)
		pos = end
	}
	if len(lines) == 0 {
		return "", pos
	}
	return trimMarks(strings.Join(lines, "\n"), t.marks), pos
}

// trimMarks removes the marks that close the emphasis which marks opened: right after the token or further on.
func trimMarks(payload, marks string) string {
	for marks != "" && payload != "" && payload[0] == marks[len(marks)-1] {
		payload, marks = payload[1:], marks[:len(marks)-1]
	}
	payload = strings.TrimFunc(payload, unicode.IsSpace)
	for marks != "" {
		mark := marks[len(marks)-1]
		opener := strings.TrimRight(marks, string(mark))
		payload = closeEmphasis(payload, mark, len(marks)-len(opener))
		marks = opener
	}
	return strings.TrimFunc(payload, unicode.IsSpace)
}

// closeEmphasis removes the run of marks that closes an emphasis of the given size which was opened before s. It passes
// over the emphases that s opens itself. When none closes it, s stays as it is.
func closeEmphasis(s string, mark byte, size int) string {
	open := 0
	for i := 0; i < len(s); {
		n := runLength(s[i:], mark)
		if n == 0 {
			i++
			continue
		}
		opens, closes := flanks(s, i, i+n)
		switch {
		case closes && n >= open+size:
			end := i + open + size
			return s[:end-size] + s[end:]
		case closes && open > 0:
			open = max(0, open-n)
		case opens:
			open += n
		}
		i += n
	}
	return s
}

// flanks tells whether the run of marks s[start:end] may open or close an emphasis. Marks within a word or amid space
// do neither.
func flanks(s string, start, end int) (opens, closes bool) {
	before, _ := utf8.DecodeLastRuneInString(s[:start])
	after, _ := utf8.DecodeRuneInString(s[end:])
	spaceBefore, spaceAfter := start == 0 || unicode.IsSpace(before), end == len(s) || unicode.IsSpace(after)
	opens = !spaceAfter && (spaceBefore || isPunct(before))
	closes = (!spaceBefore || start == 0 && spaceAfter) && (spaceAfter || isPunct(after))
	return opens, closes
}

func isPunct(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }
