package gemini

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// keyHeader carries the API key.
const keyHeader = "X-Goog-Api-Key"

// exchange is what one call learns of its HTTP exchange: the SDK's errors carry no headers, and it logs the errors of
// reading to standard error.
type exchange struct {
	status int // 0 until headers arrived
	header http.Header
	// readErr is why the body broke off, nil where it ended as it should.
	readErr error
	// tail is the last that was read of the body: at most maxTail bytes, or a little more.
	tail []byte
	// sent is the request's maxOutputTokens, 0 for none.
	sent int64
}

// maxTail is how much is kept of a body, in bytes, to find an error at its end.
const maxTail = 16 << 10

// errorWithin is the error that an answer with a success status ends with: all of its body, or its last event. The SDK knows
// one shape of error only.
func (ex *exchange) errorWithin() (*model.StatusError, bool) {
	said := bytes.TrimSpace(ex.tail)
	e, ok := model.ParseError(said)
	if i := bytes.LastIndex(said, []byte("data:")); !ok && i >= 0 {
		event, _, _ := bytes.Cut(said[i+len("data:"):], []byte("\n"))
		e, ok = model.ParseError(event)
	}
	return &model.StatusError{Status: ex.status, Header: ex.header, Body: e}, ok
}

type exchangeKey struct{}

func withExchange(ctx context.Context, config *genai.GenerateContentConfig) (context.Context, *exchange) {
	ex := &exchange{sent: int64(config.MaxOutputTokens)}
	return context.WithValue(ctx, exchangeKey{}, ex), ex
}

// transport adds what the SDK has no setting for.
type transport struct {
	next http.RoundTripper
	// host is the endpoint's. Nothing is added for any other, so nothing follows a redirect.
	host  string
	query map[string]string
	// header replaces the key, for an endpoint that needs none or takes it in another header; nil keeps it. The SDK
	// insists on a key.
	header map[string]string
}

// RoundTrip sends one request.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context()) // A RoundTripper must not change its argument.
	if t.header != nil {
		req.Header.Del(keyHeader)
	}
	if req.URL.Host == t.host {
		if v := t.header[keyHeader]; v != "" {
			req.Header.Set(keyHeader, v)
		}
		q := req.URL.Query()
		for k, v := range t.query {
			q.Set(k, v)
		}
		req.URL.RawQuery = q.Encode()
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if ex, ok := req.Context().Value(exchangeKey{}).(*exchange); ok {
		ex.status, ex.header = resp.StatusCode, resp.Header
		if resp, err = model.CatchStatus(resp); err != nil {
			return nil, err
		}
		resp.Body = &body{ReadCloser: resp.Body, ex: ex}
		mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		switch {
		case resp.StatusCode >= http.StatusMultipleChoices:
		case mediaType == "text/event-stream":
			resp.Body = &dataLines{body: resp.Body, in: bufio.NewReader(resp.Body)}
		case mediaType == "application/json" && strings.HasSuffix(req.URL.Path, ":streamGenerateContent"):
			resp.Body = &jsonValues{body: resp.Body}
		}
	}
	return resp, nil
}

// body notes why reading failed, and lets the SDK see an ordinary end.
type body struct {
	io.ReadCloser
	ex *exchange
}

// Read reads from the response.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ex.tail = append(b.ex.tail, p[:n]...)
	if over := len(b.ex.tail) - maxTail; over > maxTail {
		b.ex.tail = append(b.ex.tail[:0], b.ex.tail[over:]...)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.ex.readErr = err
		err = io.EOF
	}
	return n, err
}

// dataLines passes on what the SDK understands of a stream of events: the lines with data, a JSON object (an error without
// the frame of an event), and the one empty line after either. At all else that the format allows, such as comments and the
// names of events, and at a heartbeat, it would break off.
type dataLines struct {
	body io.Closer
	in   *bufio.Reader
	rest []byte // of what is passed on, until the next read from in
	err  error
	// within a line: the next piece goes on with it. keep: it is passed on.
	within, keep bool
	// event: what was passed on is not closed by an empty line yet. object: it is JSON, whose further lines belong to it.
	event, object bool
	name          string // of the event
}

// Read reads what is passed on. A long line comes in pieces.
func (d *dataLines) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		piece, err := d.in.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			d.err = err
		}
		if !d.within {
			d.begin(piece)
		}
		d.within = !bytes.HasSuffix(piece, []byte("\n"))
		if d.keep {
			d.rest = piece
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// begin decides about a line by how it begins.
func (d *dataLines) begin(line []byte) {
	switch {
	case len(bytes.TrimRight(line, "\r\n")) == 0:
		d.keep = d.event
		d.event, d.object, d.name = false, false, ""
		return
	case line[0] == '{':
		d.object = true
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	if string(field) == "event" {
		d.name = string(bytes.TrimSpace(value))
	}
	d.keep = d.object || string(field) == "data" && !model.Heartbeat(d.name, value)
	d.event = d.event || d.keep
}

// Close closes the body below.
func (d *dataLines) Close() error { return d.body.Close() }

// jsonValues passes on an answer in JSON as the stream of events that was asked for: the elements of an array, as the API itself sends
// them where events are not asked for, or the one object of a server that does not stream. What is no JSON ends it.
type jsonValues struct {
	body   io.ReadCloser
	values *json.Decoder // nil until the first read
	rest   []byte
}

// Read reads what is passed on.
func (v *jsonValues) Read(p []byte) (int, error) {
	if v.values == nil {
		in := bufio.NewReader(v.body)
		v.values = json.NewDecoder(in)
		if startsArray(in) {
			_, _ = v.values.Token() // the bracket
		}
	}
	if len(v.rest) == 0 {
		var value json.RawMessage
		if v.values.Decode(&value) != nil {
			return 0, io.EOF
		}
		line := bytes.NewBufferString("data: ")
		_ = json.Compact(line, value) // it was just decoded
		line.WriteString("\n\n")
		v.rest = line.Bytes()
	}
	n := copy(p, v.rest)
	v.rest = v.rest[n:]
	return n, nil
}

// startsArray looks past white space.
func startsArray(in *bufio.Reader) bool {
	for {
		next, err := in.Peek(1)
		if err != nil || strings.IndexByte(" \t\r\n", next[0]) < 0 {
			return err == nil && next[0] == '['
		}
		_, _ = in.Discard(1)
	}
}

// Close closes the body below.
func (v *jsonValues) Close() error { return v.body.Close() }
