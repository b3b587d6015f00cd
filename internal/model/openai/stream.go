package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/respjson"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// readStream reads events into the assembler until the stream says that it is over, and tells what went wrong. The SDK's
// own Stream does not tell an end from a connection that closed. After a finish reason, silence is an end too.
func readStream(ctx context.Context, events ssestream.Decoder, a *assembler, onBytes func(int)) *loop.ModelError {
	var chunk sdk.ChatCompletionChunk // one for all: it is large
	var end *time.Timer               // set once a finish reason came
	for events.Next() {
		event := events.Event()
		data := bytes.TrimSpace(event.Data)
		if model.Heartbeat(event.Type, data) {
			continue
		}
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			a.completed = true
			return nil
		}
		if err := readEvent(data, event.Type, &chunk, a, onBytes); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return model.ErrorFromTransport(ctx, ctx.Err())
		}
		switch {
		case a.finish == "":
		case end == nil:
			end = time.AfterFunc(finishWait, func() { _ = events.Close() })
			defer end.Stop()
		default:
			end.Reset(finishWait)
		}
	}
	switch err := events.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return model.ErrorFromTransport(ctx, model.ErrReplyTooLarge)
	case err != nil:
		return model.ErrorFromTransport(ctx, err)
	}
	return model.ErrorFromTransport(ctx, io.ErrUnexpectedEOF)
}

// readEvent reads one event, into chunk.
func readEvent(data []byte, eventType string, chunk *sdk.ChatCompletionChunk, a *assembler, onBytes func(int)) *loop.ModelError {
	if e, ok := parseStreamError(data, eventType); ok {
		return e.ModelError(0, nil, a.sent)
	}
	*chunk = sdk.ChatCompletionChunk{}
	if err := json.Unmarshal(data, chunk); err != nil {
		return model.ErrorInvalidReply(0, "an event of its stream is no JSON")
	}
	a.usage = laterUsage(a.usage, chunk.Usage)
	a.model = firstOf(a.model, chunk.Model)
	a.id = firstOf(a.id, printable(chunk.ID))
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue // one choice is asked for
		}
		d := fromChunk(choice)
		a.add(d)
		onBytes(d.size())
		if brokenOff[d.finish] {
			return model.ErrorFromStatus(0, nil, "server_error")
		}
	}
	return nil
}

// parseStreamError finds an error event. A chunk with "error": null, as some servers send, is none.
func parseStreamError(data []byte, eventType string) (model.ErrorBody, bool) {
	if eventType != "error" && !bytes.Contains(data, []byte(`"error"`)) {
		return model.ErrorBody{}, false
	}
	e, ok := model.ParseError(data)
	if !ok && eventType == "error" {
		return model.ErrorBody{Message: string(data)}, true
	}
	return e, ok
}

func fromChunk(choice sdk.ChatCompletionChunkChoice) delta {
	in := choice.Delta
	d := delta{refusal: in.Refusal, finish: choice.FinishReason}
	d.text, d.reasoning = contentOf(in.Content, in.JSON.Content)
	d.reasoning += reasoningOf(in.JSON.ExtraFields)
	for i, c := range in.ToolCalls {
		f := fragment{
			index: c.Index, id: c.ID, name: c.Function.Name, args: c.Function.Arguments,
			opaque: objectOf(c.JSON.ExtraFields[extraContent]),
		}
		if !c.JSON.Index.Valid() {
			f.index, f.unindexed = int64(i), true
		}
		d.calls = append(d.calls, f)
	}
	//nolint:staticcheck // deprecated at OpenAI, and still what some older compatible servers send
	if f := in.FunctionCall; f.Name != "" || f.Arguments != "" {
		d.calls = append(d.calls, fragment{index: -1, name: f.Name, args: f.Arguments})
	}
	return d
}

// contentOf is text and reasoning of a content field: a string, or a list of parts as Mistral's reasoning models send.
func contentOf(text string, field respjson.Field) (string, string) {
	raw := field.Raw()
	if !strings.HasPrefix(raw, "[") {
		return text, ""
	}
	type part struct {
		Text     string `json:"text"`
		Thinking []struct {
			Text string `json:"text"`
		} `json:"thinking"`
	}
	var parts []part
	if json.Unmarshal([]byte(raw), &parts) != nil {
		return "", ""
	}
	var said, thought strings.Builder
	for _, p := range parts {
		said.WriteString(p.Text)
		for _, t := range p.Thinking {
			thought.WriteString(t.Text)
		}
	}
	return said.String(), thought.String()
}

// reasoningOf finds what a model thought, in the fields that compatible servers put it. Those that fill both repeat it.
func reasoningOf(extra map[string]respjson.Field) string {
	for _, name := range []string{"reasoning_content", "reasoning", "thinking"} {
		field, ok := extra[name]
		if !ok {
			continue
		}
		var text string
		if json.Unmarshal([]byte(field.Raw()), &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

func objectOf(field respjson.Field) string {
	if raw := field.Raw(); strings.HasPrefix(raw, "{") {
		return raw
	}
	return ""
}

// laterUsage takes the usage of a chunk. Servers that count as they go send it with each; the last one holds.
func laterUsage(before loop.Usage, u sdk.CompletionUsage) loop.Usage {
	if now := toUsage(u); now.Reported() {
		return now
	}
	return before
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
