package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// event is one server-sent event.
type event struct {
	name, id, retry string
	data            []byte
}

// readEvent reads the next complete event. It asks grow before it keeps an event of that size, and ends with grow's error. A
// stream that breaks off within an event gives only the error: half an event is none.
func readEvent(r *bufio.Reader, grow func(size int) error) (event, error) {
	var ev event
	var seen bool
	for size := 0; ; {
		line, err := readLine(r, func(n int) error { return grow(size + n) })
		if err != nil {
			return event{}, err
		}
		size += len(line)
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if seen {
				return ev, nil
			}
			size = 0
			continue
		}
		seen = ev.field(line) || seen
	}
}

// field takes one line in, and tells whether it was a field that we know. Comments are not.
func (ev *event) field(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		ev.name = string(value)
	case "id":
		ev.id = string(value)
	case "retry":
		ev.retry = string(value)
	case "data":
		// Within a JSON text a line break is white space, so the data becomes one line.
		if len(ev.data) > 0 {
			ev.data = append(ev.data, ' ')
		}
		ev.data = append(ev.data, value...)
	default:
		return false
	}
	return true
}

// readLine reads up to and with a line feed, as far as grow allows.
func readLine(r *bufio.Reader, grow func(size int) error) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if err := grow(len(line) + len(part)); err != nil {
			return nil, err
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return nil, err
		}
	}
}

// carriesMessage: the event is a message with data, and not a priming event or one of another name.
func (ev event) carriesMessage() bool {
	return len(bytes.TrimSpace(ev.data)) > 0 && (ev.name == "" || strings.TrimSpace(ev.name) == "message")
}

// bytes is the event as it goes over the wire.
func (ev event) bytes() []byte {
	var b bytes.Buffer
	for _, f := range []struct{ name, value string }{{"event", ev.name}, {"id", ev.id}, {"retry", ev.retry}} {
		if f.value != "" {
			b.WriteString(f.name + ": " + f.value + "\n")
		}
	}
	if len(ev.data) > 0 {
		b.Grow(len(ev.data) + len("data: \n\n"))
		b.WriteString("data: ")
		b.Write(ev.data)
		b.WriteByte('\n')
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// eventBody is a response body of the events that next gives, until it gives an error.
type eventBody struct {
	next    func() ([]byte, error)
	close   func() error
	pending []byte
}

func (b *eventBody) Read(p []byte) (int, error) {
	for len(b.pending) == 0 {
		var err error
		if b.pending, err = b.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.pending)
	b.pending = b.pending[n:]
	return n, nil
}

func (b *eventBody) Close() error { return b.close() }

var _ io.ReadCloser = (*eventBody)(nil)
