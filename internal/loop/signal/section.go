package signal

import "strings"

// section is a part of a text that can be parsed by itself: all blocks are closed where it starts and where it ends.
type section struct {
	start, end int
	deep       bool        // a line nests too deep to parse
	tokens     []tokenLine // the lines within that start with a token, with offsets from start; never empty
}

// maxNesting bounds the lists and quotes that one line may open. The parser's time grows with the square of their
// number, and no honest reply nests as deep.
const maxNesting = 100

// sections returns those sections of text that hold token lines. Parsing only them, rather than the whole text, is what
// keeps a scan cheap: a signal mostly stands in a short paragraph at the end of a long reply.
func sections(text string) []section {
	var found []section
	// The parser takes these for blank space, which gives lines a meaning that is not worth following.
	o := outline{lost: strings.ContainsAny(text, "\v\f")}
	current := section{}
	for pos := 0; pos < len(text); {
		line := text[pos:]
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		if o.next(line) {
			if len(current.tokens) > 0 {
				current.end = pos
				found = append(found, current)
			}
			current = section{start: pos}
		}
		current.deep = current.deep || nesting(line) > maxNesting
		if t, ok := matchToken(line); ok {
			current.tokens = append(current.tokens, t.shifted(pos-current.start))
		}
		pos += len(line)
	}
	if len(current.tokens) > 0 {
		current.end = len(text)
		found = append(found, current)
	}
	return found
}

// outline follows a text line by line, only to tell where no block is open. It knows lists and quotes only by what ends
// them: an unindented line after a blank one. Where it cannot be sure it gets lost and reports no further section, which
// costs time but never correctness.
type outline struct {
	afterBlank bool
	html       bool // an HTML block may be open that the next blank line ends
	fence      fence
	lost       bool
}

// fence is an open code fence; its size is zero when none is open.
type fence struct {
	char   byte
	size   int
	indent int
}

// next reads a line and reports whether a section starts with it.
func (o *outline) next(line string) bool {
	if o.lost {
		return false
	}
	indent, rest := splitIndent(line)
	blank := rest == ""
	switch {
	case o.fence.size > 0:
		o.withinFence(indent, rest)
		return false
	case blank:
		o.afterBlank, o.html = true, false
		return false
	}
	starts := o.afterBlank && indent == 0 && !startsContainer(rest[0])
	o.afterBlank = false
	if indent <= maxIndent {
		o.open(indent, rest)
	}
	return starts
}

// open notes what may stay open across blank lines.
func (o *outline) open(indent int, rest string) {
	if rest[0] == '<' {
		if outlivesBlank(rest) {
			o.lost = true
		}
		o.html = true
		return
	}
	f, ok := openFence(rest)
	if !ok {
		return
	}
	if o.html { // It may be mere text of the HTML block.
		o.lost = true
		return
	}
	f.indent = indent
	o.fence = f
}

// withinFence looks for the line that closes the fence. An indented fence may belong to a list item. It does not matter
// whether it does as long as no line is indented less: such a line would end item and fence.
func (o *outline) withinFence(indent int, rest string) {
	if rest == "" {
		return
	}
	if indent < o.fence.indent {
		o.lost = true
		return
	}
	size := runLength(rest, o.fence.char)
	if indent <= maxIndent && size >= o.fence.size && rest[size:] == "" {
		o.fence = fence{}
	}
}

// openFence reads the line that opens a code fence.
func openFence(rest string) (fence, bool) {
	char := rest[0]
	if char != '`' && char != '~' {
		return fence{}, false
	}
	size := runLength(rest, char)
	if size < 3 || char == '`' && strings.Contains(rest[size:], "`") {
		return fence{}, false
	}
	return fence{char: char, size: size}, true
}

// splitIndent returns the width of a line's indent, where a tab counts as code, and the rest without space at its end.
func splitIndent(line string) (int, string) {
	indent, i := 0, 0
	for ; i < len(line) && (line[i] == ' ' || line[i] == '\t'); i++ {
		indent++
		if line[i] == '\t' {
			indent += maxIndent
		}
	}
	return indent, strings.TrimRight(line[i:], " \t\r\n")
}

// startsContainer tells characters that may open or continue a list or a quote.
func startsContainer(c byte) bool {
	return strings.IndexByte("-+*>0123456789", c) >= 0
}

// nesting counts the list and quote markers that a line starts with.
func nesting(line string) int {
	count := 0
	for {
		line = strings.TrimLeft(line, " \t")
		size := 0
		switch digits := len(line) - len(strings.TrimLeft(line, "0123456789")); {
		case line == "":
			return count
		case line[0] == '>':
			count, line = count+1, line[1:]
			continue
		case strings.IndexByte("-+*", line[0]) >= 0:
			size = 1
		case digits > 0 && len(line) > digits && strings.IndexByte(".)", line[digits]) >= 0:
			size = digits + 1
		}
		if size == 0 || len(line) == size || strings.IndexByte(" \t", line[size]) < 0 {
			return count
		}
		count, line = count+1, line[size:]
	}
}

// outlivesBlank tells whether a line that starts with `<` may open an HTML block that a blank line does not end.
func outlivesBlank(rest string) bool {
	if len(rest) > 1 && (rest[1] == '!' || rest[1] == '?') {
		return true
	}
	for _, tag := range [...]string{"pre", "script", "style", "textarea"} {
		if len(rest) > len(tag) && strings.EqualFold(rest[1:len(tag)+1], tag) {
			return true
		}
	}
	return false
}

// runLength counts how often s starts with c.
func runLength(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}
