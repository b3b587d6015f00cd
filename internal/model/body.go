package model

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxEventBytes bounds one event of a model's stream. A reader holds all of an event and decodes it into several times as
// much, and no honest piece of a reply is near it: it would be a million tokens at once.
const maxEventBytes = 4 << 20

// byteOrderMark is what some servers on Windows begin their bodies with. To a decoder it is part of the first line.
var byteOrderMark = []byte("\xef\xbb\xbf")

// markless is a body without its byte order mark.
type markless struct {
	io.Closer
	buffered *bufio.Reader
	looked   bool
}

func withoutMark(body io.ReadCloser) *markless {
	// The smallest buffer: it is for the mark alone, larger reads pass it by.
	return &markless{Closer: body, buffered: bufio.NewReaderSize(body, 16)}
}

// Read looks for the mark at first. Nothing that could be of use yet is in less than three bytes, so waiting for them
// delays nothing.
func (m *markless) Read(p []byte) (int, error) {
	if !m.looked {
		m.looked = true
		if head, _ := m.buffered.Peek(len(byteOrderMark)); bytes.Equal(head, byteOrderMark) {
			_, _ = m.buffered.Discard(len(head))
		}
	}
	return m.buffered.Read(p)
}

// eventBody is a stream of events: it bounds each, and gives the last one the blank line that some servers leave out. The
// decoders of the SDKs drop an event without it.
type eventBody struct {
	io.ReadCloser
	// event and line count the bytes of the event and the line that are not complete. A comment is no part of an event.
	event, line int
	comment     bool
	// last is the last byte that is no line break.
	last byte
	// ending is what is to be given at the end, ended that it was reached.
	ending string
	ended  bool
}

// Read fails with ErrReplyTooLarge once an event has more than maxEventBytes. What came before is still delivered.
func (b *eventBody) Read(p []byte) (int, error) {
	if b.ended {
		n := copy(p, b.ending)
		if b.ending = b.ending[n:]; n == 0 && len(p) > 0 {
			return 0, io.EOF
		}
		return n, nil
	}
	n, err := b.ReadCloser.Read(p)
	if fits := b.count(p[:n]); fits < n {
		return fits, ErrReplyTooLarge
	}
	if errors.Is(err, io.EOF) {
		b.ended, b.ending, err = true, b.missing(), nil
	}
	return n, err
}

// count takes the next bytes in, and tells how many of them come before a line with which an event is too large.
func (b *eventBody) count(p []byte) int {
	for rest := p; len(rest) > 0; {
		line, after, complete := bytes.Cut(rest, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if b.line == 0 {
			b.comment = bytes.HasPrefix(line, []byte(":"))
		}
		b.line += len(line)
		if len(line) > 0 && !b.comment {
			b.event += len(line)
			b.last = line[len(line)-1]
		}
		if max(b.event, b.line) > maxEventBytes {
			return len(p) - len(rest)
		}
		if complete {
			if b.line == 0 {
				b.event = 0
			}
			b.line = 0
		}
		rest = after
	}
	return len(p)
}

// Heartbeat tells whether an event of a model's stream, by its name ("" for none) and data, is there only to keep the connection.
func Heartbeat(name string, data []byte) bool {
	switch name {
	case "ping", "heartbeat", "keepalive", "keep-alive":
		return true
	case "error":
		return false
	}
	data = bytes.TrimSpace(data)
	return len(data) == 0 || string(data) == "null"
}

// missing is what the last event lacks. One that was cut lacks more than that, and is no event: a whole one ends with its
// JSON, or with [DONE].
func (b *eventBody) missing() string {
	switch {
	case b.event == 0 || b.last != '}' && b.last != ']':
		return ""
	case b.line == 0:
		return "\n"
	}
	return "\n\n"
}
