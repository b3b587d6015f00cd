// Package model builds loop.Model clients. Its subpackages hold one provider each.
package model

import (
	"net/http"
	"time"
)

// Config is an AgentModel with everything resolved: plain values, no references.
type Config struct {
	// Model is the provider's name of the model.
	Model string
	// Endpoint is the base URL; empty means the provider's own.
	Endpoint string
	// APIKey may be empty: local servers need none.
	APIKey string
	// Query is added to every request's URL, such as api-version for Azure.
	Query map[string]string
	// Headers are extra headers of every request, credentials among them.
	Headers map[string]string
	// CABundle is PEM that is trusted beside the system's roots.
	CABundle []byte
	// PrivateOnly: http:// shows the credentials on the way, so no address but a private or loopback one is dialled.
	PrivateOnly bool
	// RequestTimeout bounds one call, the whole stream included; 0 means only the task's own time limits it.
	RequestTimeout time.Duration
	// MaxReplyBytes caps one reply; 0 means DefaultMaxReplyBytes.
	MaxReplyBytes int64
	// Room is the memory for large replies, which all calls share; nil for no bound.
	Room       Room
	Parameters Parameters
	// HTTP is the client to use (NewHTTPClient); shared by all providers and tasks of one AgentModel.
	HTTP *http.Client
}

// Room is memory that is shared. What is taken is given back.
type Room interface {
	// Take takes n bytes, if they are free.
	Take(n int64) bool
	Give(n int64)
}

// Parameters tune the model. Nil leaves the provider's default.
type Parameters struct {
	Temperature      *float64
	TopP             *float64
	FrequencyPenalty *float64
	PresencePenalty  *float64
	Seed             *int64
	StopSequences    []string
	// MaxOutputTokens caps each reply; 0 for the provider's default. A request's own smaller cap wins.
	MaxOutputTokens int64
	// ReasoningEffort: none, minimal, low, medium, high, xhigh or max; empty for the provider's default.
	ReasoningEffort string
}
