package model

import "strings"

// lineReader knows of the lines of a reply what tells code from text. A fenced block ends with the block of the reply.
type lineReader struct {
	text string
	ends []int // of the reply's blocks that are not read yet
	// start and end are those of the line, its line break included, and from is where it begins after the last mark in it.
	start, from, end int
	fence            fence
	code             codeSpans
}

// fence is an open fenced block, the zero value for none.
type fence struct {
	char byte
	size int
	// opens counts the marks in it that open a thought and are not closed.
	opens int
	// closes tells whether the next line that could close it does, known up to there.
	closes bool
	until  int
}

func newLineReader(text string, ends []int) lineReader {
	r := lineReader{text: text, ends: ends}
	r.next()
	return r
}

// next goes to the line after.
func (r *lineReader) next() {
	r.start, r.from = r.end, r.end
	for len(r.ends) > 0 && r.ends[0] <= r.start {
		r.ends, r.fence = r.ends[1:], fence{}
	}
	r.end = len(r.text)
	if len(r.ends) > 0 {
		r.end = r.ends[0]
	}
	if n := strings.IndexByte(r.text[r.start:r.end], '\n'); n >= 0 {
		r.end = r.start + n + 1
	}
}

// restart forgets the fence: what came before a mark that counts has nothing to do with what comes after.
func (r *lineReader) restart(at int) {
	r.seek(at)
	r.from, r.fence = at, fence{}
}

// seek goes to the line that holds a place.
func (r *lineReader) seek(at int) {
	for r.end <= at && r.start < r.end {
		char, size, bare := fenceLine(r.text[r.from:r.end])
		switch {
		case size == 0:
		case r.fence.size == 0:
			r.fence = fence{char: char, size: size}
		case char == r.fence.char && size >= r.fence.size && bare:
			r.fence = fence{}
		}
		r.next()
	}
}

// begins tells whether a place is the first of its line but for white space.
func (r *lineReader) begins(at int) bool { return strings.TrimLeft(r.text[r.from:at], " \t") == "" }

// inline tells whether a place is in inline code that begins and ends on the line.
func (r *lineReader) inline(at int) bool {
	if r.code.start != r.start || r.code.line == "" {
		r.code = newCodeSpans(r.text[r.start:r.end], r.start)
	}
	return r.code.cover(at - r.start)
}

// fenced tells whether a mark is in a fenced block that the next line of its kind closes. One that opens a thought there is
// remembered.
func (r *lineReader) fenced(m mark) bool {
	f := &r.fence
	if f.size == 0 {
		return false
	}
	if f.until <= m.from {
		f.closes, f.until = r.closing()
	}
	if f.closes && m.kind == markOpen {
		f.opens++
	}
	return f.closes
}

// opened tells whether a mark that opens a thought came before in the fenced block, and takes it off.
func (r *lineReader) opened() bool {
	if r.fence.opens == 0 {
		return false
	}
	r.fence.opens--
	return true
}

// closing tells whether the next line that is like the fence's closes it, and where that line ends.
func (r *lineReader) closing() (bool, int) {
	ahead := *r
	for ahead.next(); ahead.start < ahead.end && ahead.fence.size > 0; ahead.next() { // until the block of the reply ends
		if char, size, bare := fenceLine(r.text[ahead.start:ahead.end]); char == r.fence.char && size >= r.fence.size {
			return bare, ahead.end
		}
	}
	return false, ahead.start
}

// fenceLine reads the mark that opens or closes a fenced block: its character, and its size, 0 for none. bare: nothing follows it.
func fenceLine(line string) (char byte, size int, bare bool) {
	line = strings.TrimLeft(line, " \t>")
	if line == "" || line[0] != '`' && line[0] != '~' {
		return 0, 0, false
	}
	info := strings.TrimLeft(line, line[:1])
	size = len(line) - len(info)
	if size < 3 || line[0] == '`' && strings.Contains(info, "`") {
		return 0, 0, false
	}
	return line[0], size, strings.TrimSpace(info) == ""
}

// codeSpans finds the inline code of a line, as far as it was asked for.
type codeSpans struct {
	line  string
	start int         // of the line
	at    int         // where the search goes on, in the line
	last  map[int]int // where the last run of so many backticks begins
	// from and to are those of the latest span.
	from, to int
}

func newCodeSpans(line string, start int) codeSpans {
	c := codeSpans{line: line, start: start, last: map[int]int{}}
	for from, to := ticks(line, 0); from < to; from, to = ticks(line, to) {
		c.last[to-from] = from
	}
	return c
}

// cover tells whether a place is in inline code. Places are asked for in their order.
func (c *codeSpans) cover(at int) bool {
	for c.to <= at && c.at <= at {
		from, to := ticks(c.line, c.at)
		c.at = to
		if from == to || c.last[to-from] <= from {
			continue // nothing closes it
		}
		size := to - from
		c.from = from
		for from, to = ticks(c.line, to); to-from != size; from, to = ticks(c.line, to) {
		}
		c.at, c.to = to, to
	}
	return c.from <= at && at < c.to
}

// ticks is the next run of backticks from a place on, empty and at the end where there is none.
func ticks(line string, at int) (from, to int) {
	n := strings.IndexByte(line[at:], '`')
	if n < 0 {
		return len(line), len(line)
	}
	from = at + n
	return from, len(line) - len(strings.TrimLeft(line[from:], "`"))
}
