package mcp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/tool/glob"
)

// Transport is how a server is spoken to.
type Transport string

// The transports. There is no stdio: the operator never starts a user's process.
const (
	// StreamableHTTP is the transport of MCP since 2025-03-26, and the default.
	StreamableHTTP Transport = "StreamableHTTP"
	// SSE is the transport of 2024-11-05, for old servers.
	SSE Transport = "SSE"
)

// ApprovalPolicy says which calls of a toolset a human must approve.
type ApprovalPolicy string

// The approval policies. Any other value, the empty one included, acts as Always, so that a slip never opens a tool.
const (
	ApproveNever       ApprovalPolicy = "Never"
	ApproveAlways      ApprovalPolicy = "Always"
	ApproveDestructive ApprovalPolicy = "Destructive"
)

// Defaults of a Config's zero values.
const (
	DefaultCallTimeout    = 60 * time.Second
	DefaultConnectTimeout = 10 * time.Second
	DefaultMaxResultBytes = 65536
)

// Config is one AgentToolset with everything resolved: plain values, no references.
type Config struct {
	// Name is the toolset's name and the prefix of the names that the model sees.
	Name string
	// Namespace is the toolset's. Namespaces share the memory for lists of tools.
	Namespace string
	// URL is the server's MCP endpoint.
	URL string
	// Transport; empty means StreamableHTTP.
	Transport Transport
	// Headers are sent with every request to the URL's origin and nowhere else, credentials among them.
	Headers map[string]string
	// HTTP is the client whose transport is used; nil means the default one. Its Timeout is not: calls have their own.
	HTTP *http.Client
	// Allow and Deny are globs on the server's tool names. No Allow means all. Deny wins.
	Allow, Deny []string
	// RequireApproval is the policy of all the toolset's tools, and ApprovalTools are globs on the server's tool names that
	// need approval whatever the policy says.
	RequireApproval ApprovalPolicy
	ApprovalTools   []string
	// TrustAnnotations: what the server says about its own tools (read-only, destructive, idempotent) is believed.
	TrustAnnotations bool
	// CallTimeout bounds one call; 0 means DefaultCallTimeout.
	CallTimeout time.Duration
	// ConnectTimeout bounds connecting and listing the tools, both together; 0 means DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// MaxResultBytes is the most that the model sees of a result; 0 means DefaultMaxResultBytes.
	MaxResultBytes int
}

func (c Config) withDefaults() Config {
	if c.Transport == "" {
		c.Transport = StreamableHTTP
	}
	if c.CallTimeout <= 0 {
		c.CallTimeout = DefaultCallTimeout
	}
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = DefaultConnectTimeout
	}
	if c.MaxResultBytes <= 0 {
		c.MaxResultBytes = DefaultMaxResultBytes
	}
	if c.HTTP == nil {
		c.HTTP = http.DefaultClient
	}
	return c
}

// Validate tells what is wrong with the config, in words for its author. It never repeats the URL or a header's value.
func (c Config) Validate() error {
	switch c.Transport {
	case "", StreamableHTTP, SSE:
	default:
		return fmt.Errorf("transport %q is unknown: write %s or %s", c.Transport, StreamableHTTP, SSE)
	}
	u, err := url.Parse(c.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return errors.New("the URL must begin with https:// or http:// and name a host")
	}
	if u.User != nil {
		return errors.New("the URL must not carry credentials: use auth or headers")
	}
	for _, globs := range []struct {
		field    string
		patterns []string
	}{{"spec.allow", c.Allow}, {"spec.deny", c.Deny}, {"spec.approvalTools", c.ApprovalTools}} {
		if err := glob.Check(globs.patterns...); err != nil {
			return fmt.Errorf("%s: %w", globs.field, err)
		}
	}
	return nil
}
