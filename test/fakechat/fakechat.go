// Package fakechat is a server that speaks the OpenAI chat-completions wire format and answers what it is told to: for the
// demo, the suites that run the whole operator, and the benchmarks.
package fakechat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Request is what a client sent, as far as anybody here looks at it.
type Request struct {
	Model    string    `json:"model"`
	Messages []Message `json:"messages"`
	Stream   bool      `json:"stream"`
	Tools    []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	MaxTokens           int64 `json:"max_tokens"`
	MaxCompletionTokens int64 `json:"max_completion_tokens"`
}

// Message is one message of a request.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
}

// Text is the message's text, whether it was sent as a string or as parts.
func (m Message) Text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &parts)
	var all []string
	for _, p := range parts {
		all = append(all, p.Text)
	}
	return strings.Join(all, "")
}

// Replies counts the assistant messages of a request: the number of the turn, from 0.
func (r *Request) Replies() int { return r.count("assistant") }

func (r *Request) count(role string) int {
	n := 0
	for _, m := range r.Messages {
		if m.Role == role {
			n++
		}
	}
	return n
}

// Prompt is the first user message.
func (r *Request) Prompt() string {
	for _, m := range r.Messages {
		if m.Role == "user" {
			return m.Text()
		}
	}
	return ""
}

// Last is the text of the last message.
func (r *Request) Last() string {
	if len(r.Messages) == 0 {
		return ""
	}
	return r.Messages[len(r.Messages)-1].Text()
}

// Call is a tool call of a reply.
type Call struct{ ID, Name, Arguments string }

// Reply is one answer.
type Reply struct {
	Text  string
	Calls []Call
	// In and Out are the usage; both 0: none is sent.
	In, Out int64
	// Finish is finish_reason; by default stop, or tool_calls with calls.
	Finish string
	// Delay before the first byte. The connection's end breaks it off.
	Delay time.Duration
	// Hang never answers.
	Hang bool
	// Status other than 0 answers an error, with RetryAfter seconds if not 0, and Code.
	Status     int
	RetryAfter int
	Code       string
	// Raw is sent instead, as it is, with ContentType.
	Raw, ContentType string
	// CutAfter closes the connection after that many chunks of text (0: never).
	CutAfter int
}

// Server answers by its function.
type Server struct {
	answer func(*Request) Reply
	calls  atomic.Int64
}

// New makes a server; it is an http.Handler.
func New(answer func(*Request) Reply) *Server { return &Server{answer: answer} }

// Calls counts the requests so far.
func (s *Server) Calls() int64 { return s.calls.Load() }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req Request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, `{"error":{"message":"bad request"}}`, http.StatusBadRequest)
		return
	}
	n := s.calls.Add(1)
	reply := s.answer(&req)
	if reply.Hang {
		<-r.Context().Done()
		return
	}
	if reply.Delay > 0 {
		t := time.NewTimer(reply.Delay)
		defer t.Stop()
		select {
		case <-r.Context().Done():
			return
		case <-t.C:
		}
	}
	w.Header().Set("X-Request-Id", fmt.Sprintf("req-%d", n))
	switch {
	case reply.Status != 0:
		writeError(w, reply)
	case reply.ContentType != "":
		w.Header().Set("Content-Type", reply.ContentType)
		_, _ = w.Write([]byte(reply.Raw))
	case req.Stream:
		stream(w, reply, req.Model, n)
	default:
		plain(w, reply, req.Model, n)
	}
}

func writeError(w http.ResponseWriter, r Reply) {
	w.Header().Set("Content-Type", "application/json")
	if r.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(r.RetryAfter))
	}
	w.WriteHeader(r.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": "refused", "code": r.Code}})
}

func (r Reply) finish() string {
	switch {
	case r.Finish != "":
		return r.Finish
	case len(r.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

type object = map[string]any

func (r Reply) toolCalls() []object {
	var out []object
	for i, c := range r.Calls {
		id := c.ID
		if id == "" {
			id = fmt.Sprintf("call_%d", i+1)
		}
		out = append(out, object{"index": i, "id": id, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
	}
	return out
}

func (r Reply) usage() object {
	return object{"prompt_tokens": r.In, "completion_tokens": r.Out, "total_tokens": r.In + r.Out}
}

func plain(w http.ResponseWriter, r Reply, model string, n int64) {
	message := object{"role": "assistant", "content": r.Text}
	if calls := r.toolCalls(); calls != nil {
		message["tool_calls"] = calls
	}
	body := object{
		"id": fmt.Sprintf("chat-%d", n), "object": "chat.completion", "created": 1, "model": model,
		"choices": []object{{"index": 0, "message": message, "finish_reason": r.finish()}},
	}
	if r.In+r.Out > 0 {
		body["usage"] = r.usage()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// stream sends the text in pieces of 64 bytes, then the calls, the end and the usage.
func stream(w http.ResponseWriter, r Reply, model string, n int64) {
	w.Header().Set("Content-Type", "text/event-stream")
	flusher, _ := w.(http.Flusher)
	send := func(choices []object, usage object) {
		chunk := object{"id": fmt.Sprintf("chat-%d", n), "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices}
		if usage != nil {
			chunk["usage"] = usage
		}
		raw, _ := json.Marshal(chunk)
		_, _ = fmt.Fprintf(w, "data: %s\n\n", raw)
	}
	delta := func(d object, finish any) { send([]object{{"index": 0, "delta": d, "finish_reason": finish}}, nil) }
	for i, text := 0, []rune(r.Text); len(text) > 0; i++ {
		if r.CutAfter > 0 && i == r.CutAfter {
			flusher.Flush()
			panic(http.ErrAbortHandler)
		}
		piece := text[:min(64, len(text))]
		text = text[len(piece):]
		delta(object{"role": "assistant", "content": string(piece)}, nil)
	}
	if calls := r.toolCalls(); calls != nil {
		delta(object{"tool_calls": calls}, nil)
	}
	delta(object{}, r.finish())
	if r.In+r.Out > 0 {
		send([]object{}, r.usage())
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
	flusher.Flush()
}
