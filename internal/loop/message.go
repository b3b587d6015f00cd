package loop

import (
	"encoding/json"
	"math"
)

// Role says who speaks in a message.
type Role string

// The roles of a conversation. Tool carries the results of an assistant message's calls.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// BlockKind tells what a block of an assistant message is.
type BlockKind string

// Only text blocks are read for signals and become output.
const (
	BlockText      BlockKind = "text"
	BlockReasoning BlockKind = "reasoning"
	BlockRefusal   BlockKind = "refusal"
)

// Block is one piece of a message.
type Block struct {
	Kind BlockKind `json:"kind"`
	Text string    `json:"text,omitempty"`
	// Opaque is what the provider wants back unchanged with this block, such as the signature of a thinking block.
	// Only the provider that wrote it reads it.
	Opaque string `json:"opaque,omitempty"`
}

// ToolCall is a model's wish to have a tool run.
type ToolCall struct {
	// ID is unique within the reply; a converter makes one where the provider gives none.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is the JSON text as the model wrote it. It may be malformed.
	Arguments string `json:"arguments,omitempty"`
	// Opaque is what the provider wants back unchanged with this call.
	Opaque string `json:"opaque,omitempty"`
}

// ToolResult is what one call gave.
type ToolResult struct {
	CallID  string `json:"callID"`
	Name    string `json:"name"`
	Content string `json:"content"`
	IsError bool   `json:"isError,omitempty"`
}

// Message is one entry of the conversation.
type Message struct {
	Role        Role         `json:"role"`
	Blocks      []Block      `json:"blocks,omitempty"`
	ToolCalls   []ToolCall   `json:"toolCalls,omitempty"`
	ToolResults []ToolResult `json:"toolResults,omitempty"`

	speaker string // who speaks, where it is not who the role says
}

// UserText makes a user message of one text block.
func UserText(text string) Message {
	return Message{Role: RoleUser, Blocks: []Block{{Kind: BlockText, Text: text}}}
}

// ToolDefinition is a tool as the model is told of it, with the policy that the loop keeps for it.
type ToolDefinition struct {
	Name        string
	Description string
	// InputSchema is a JSON Schema object. Empty means: any object.
	InputSchema json.RawMessage
	// Digest tells the tool from another one of the same name; empty where there cannot be another.
	Digest string
	// RequireApproval: a human must approve each call before it runs.
	RequireApproval bool
	// Repeatable: a call whose outcome was lost may run again (trusted as read-only or idempotent).
	Repeatable bool
}

// Purpose tells what a model call is for. Only Turn calls are iterations; the tokens of all count.
type Purpose string

// The purposes of a model call.
const (
	PurposeTurn       Purpose = "turn"
	PurposeWrapUp     Purpose = "wrapUp"
	PurposeJudge      Purpose = "judge"
	PurposeCompaction Purpose = "compaction"
)

// Request is one model call, in no provider's words.
type Request struct {
	Purpose  Purpose
	System   string
	Messages []Message
	Tools    []ToolDefinition
	// MaxOutputTokens caps the reply; 0 leaves it to the model's own configuration.
	MaxOutputTokens int64
	// Sequence counts the calls that the task made to this model before, failed ones included; scripted models go by it.
	Sequence int
	// OutputSchema asks for a reply that is JSON of this schema, where the provider can; a hint, never relied on.
	OutputSchema json.RawMessage
}

// FinishReason says why a reply ended.
type FinishReason string

// Finish reasons, normalised over all providers.
const (
	FinishStop          FinishReason = "stop"
	FinishToolCalls     FinishReason = "tool_calls"
	FinishLength        FinishReason = "length"
	FinishContentFilter FinishReason = "content_filter"
	FinishRefusal       FinishReason = "refusal"
	// FinishCut: the loop itself cut the stream, because the token budget was gone.
	FinishCut FinishReason = "cut"
)

// Usage counts tokens as the provider bills them: cached input is part of input, reasoning is part of output.
type Usage struct {
	InputTokens       int64 `json:"inputTokens,omitempty"`
	OutputTokens      int64 `json:"outputTokens,omitempty"`
	CachedInputTokens int64 `json:"cachedInputTokens,omitempty"`
	// TotalTokens is the provider's total, or input + output where it gives none.
	TotalTokens int64 `json:"totalTokens,omitempty"`
	// Estimated: the provider sent no usage (or the call broke off), so the numbers are a local estimate.
	Estimated bool `json:"estimated,omitempty"`
}

// Reported tells whether the provider said anything about usage.
func (u Usage) Reported() bool {
	return u.InputTokens > 0 || u.OutputTokens > 0 || u.TotalTokens > 0
}

// Total is what counts against maxTokens: the provider's total, never less than input + output.
func (u Usage) Total() int64 {
	return max(u.TotalTokens, addTokens(u.InputTokens, u.OutputTokens))
}

// Add sums two usages. An estimate in either makes the sum an estimate.
func (u Usage) Add(o Usage) Usage {
	return Usage{
		InputTokens:       addTokens(u.InputTokens, o.InputTokens),
		OutputTokens:      addTokens(u.OutputTokens, o.OutputTokens),
		CachedInputTokens: addTokens(u.CachedInputTokens, o.CachedInputTokens),
		TotalTokens:       addTokens(u.Total(), o.Total()),
		Estimated:         u.Estimated || o.Estimated,
	}
}

// addTokens adds counts of tokens. No number that a server sends makes a sum smaller, and none makes it overflow.
func addTokens(a, b int64) int64 {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64/4-b {
		return math.MaxInt64 / 4
	}
	return a + b
}

// Reply is one model reply, assembled from its stream.
type Reply struct {
	Blocks    []Block      `json:"blocks,omitempty"`
	ToolCalls []ToolCall   `json:"toolCalls,omitempty"`
	Finish    FinishReason `json:"finish,omitempty"`
	Usage     Usage        `json:"usage"`
	// RequestID is the provider's id of the call, for support questions.
	RequestID string `json:"requestID,omitempty"`
	// Model is the name that the provider says answered.
	Model string `json:"model,omitempty"`
}

// Texts returns the reply's text blocks, in order.
func (r *Reply) Texts() []string {
	var out []string
	for _, b := range r.Blocks {
		if b.Kind == BlockText && b.Text != "" {
			out = append(out, b.Text)
		}
	}
	return out
}
