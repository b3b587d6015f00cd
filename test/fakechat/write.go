package fakechat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

func writeError(w http.ResponseWriter, r Reply) {
	w.Header().Set("Content-Type", "application/json")
	if r.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(r.RetryAfter))
	}
	if r.RetryIn > 0 {
		w.Header().Set("Retry-After-Ms", fmt.Sprint(float64(r.RetryIn)/float64(time.Millisecond)))
	}
	w.WriteHeader(r.Status)
	message := object{"message": cmp.Or(r.Message, "refused"), "code": r.Code}
	if r.Param != "" {
		message["param"] = r.Param
	}
	_ = json.NewEncoder(w).Encode(object{"error": message})
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

// usage is the usage field, nil for none.
func (r Reply) usage() any {
	switch {
	case r.Usage != nil:
		return r.Usage
	case r.In+r.Out > 0:
		return object{"prompt_tokens": r.In, "completion_tokens": r.Out, "total_tokens": r.In + r.Out}
	}
	return nil
}

func plain(w http.ResponseWriter, r Reply, model string, n int64) {
	message := object{"role": "assistant", "content": r.Text}
	for field, text := range map[string]string{"reasoning_content": r.Reasoning, "refusal": r.Refusal} {
		if text != "" {
			message[field] = text
		}
	}
	if calls := r.toolCalls(); calls != nil {
		message["tool_calls"] = calls
	}
	body := object{
		"id": fmt.Sprintf("chat-%d", n), "object": "chat.completion", "created": 1, "model": model,
		"choices": []object{{"index": 0, "message": message, "finish_reason": r.finish()}},
	}
	if usage := r.usage(); usage != nil {
		body["usage"] = usage
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// events writes a stream.
type events struct {
	w     http.ResponseWriter
	model string
	n     int64
}

func (e events) send(choices []object, usage any) {
	chunk := object{"id": fmt.Sprintf("chat-%d", e.n), "object": "chat.completion.chunk", "created": 1, "model": e.model, "choices": choices}
	if usage != nil {
		chunk["usage"] = usage
	}
	raw, _ := json.Marshal(chunk)
	_, _ = fmt.Fprintf(e.w, "data: %s\n\n", raw)
}

func (e events) delta(d object, finish any) {
	e.send([]object{{"index": 0, "delta": d, "finish_reason": finish}}, nil)
}

func (e events) flush() {
	if f, ok := e.w.(http.Flusher); ok {
		f.Flush()
	}
}

// stream sends the text in chunks, then the calls, the end and the usage.
func stream(w http.ResponseWriter, r Reply, req *Request, n int64) {
	w.Header().Set("Content-Type", "text/event-stream")
	e := events{w, req.Model, n}
	if r.Reasoning != "" {
		e.delta(object{"role": "assistant", "reasoning_content": r.Reasoning}, nil)
	}
	e.text(r)
	if r.Refusal != "" {
		e.delta(object{"refusal": r.Refusal}, nil)
	}
	if r.Stay != nil {
		e.fill()
		r.Stay()
		<-req.Gone
		return
	}
	if calls := r.toolCalls(); calls != nil {
		e.delta(object{"tool_calls": calls}, nil)
	}
	if r.Break == "" {
		e.delta(object{}, r.finish())
	}
	if usage := r.usage(); usage != nil {
		e.send([]object{}, usage)
	}
	if r.Break != "" {
		_, _ = fmt.Fprintf(w, "data: {\"error\":{\"message\":\"broken\",\"code\":%q}}\n\n", r.Break)
		return
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
	e.flush()
}

// text sends the text in chunks.
func (e events) text(r Reply) {
	size := r.Chunk
	if size == 0 {
		size = 64
	}
	for i, text := 0, []rune(r.Text); len(text) > 0; i++ {
		if r.CutAfter > 0 && i == r.CutAfter {
			e.flush()
			panic(http.ErrAbortHandler)
		}
		piece := text[:min(size, len(text))]
		text = text[len(piece):]
		e.delta(object{"role": "assistant", "content": string(piece)}, nil)
	}
}

// fill sends comments, more than all buffers on the way hold: once they are written, what came before them has been read.
func (e events) fill() {
	const buffers = 8 << 20
	line := ": " + strings.Repeat(".", 32<<10) + "\n"
	for sent := 0; sent < buffers; sent += len(line) {
		if _, err := io.WriteString(e.w, line); err != nil {
			return
		}
	}
	e.flush()
}
