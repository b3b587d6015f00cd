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
	// Gone is closed once the client has left.
	Gone <-chan struct{} `json:"-"`
}

// Message is one message of a request.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
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

// Cap is the most tokens of output that the client lets the reply have, 0 for no cap.
func (r *Request) Cap() int64 { return max(r.MaxTokens, r.MaxCompletionTokens) }

// Bytes is the size of the messages' text.
func (r *Request) Bytes() (n int64) {
	for _, m := range r.Messages {
		n += int64(len(m.Text()))
	}
	return n
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
	// Reasoning comes before the text, as reasoning_content, and Refusal after it.
	Reasoning, Text, Refusal string
	Calls                    []Call
	// In and Out are the usage; both 0: none is sent. Usage is sent instead, as it is.
	In, Out int64
	Usage   map[string]int64
	// Finish is finish_reason; by default stop, or tool_calls with calls.
	Finish string
	// Delay before the first byte. The connection's end breaks it off.
	Delay time.Duration
	// Hang never answers.
	Hang bool
	// Status other than 0 answers an error, with RetryAfter seconds or RetryIn if not 0, Code, Param and Message.
	Status               int
	RetryAfter           int
	RetryIn              time.Duration
	Code, Param, Message string
	// Raw is sent instead, as it is, with ContentType.
	Raw, ContentType string
	// Chunk is the number of characters of text in a chunk of a stream; 64 by default.
	Chunk int
	// CutAfter closes the connection after that many chunks of text (0: never).
	CutAfter int
	// Break ends the stream after text and usage, with an error event of this code.
	Break string
	// Stay keeps the stream open after the text, until the client leaves. It is called once the client has read the text.
	Stay func()
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
	req.Gone = r.Context().Done()
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
		stream(w, reply, &req, n)
	default:
		plain(w, reply, req.Model, n)
	}
}
