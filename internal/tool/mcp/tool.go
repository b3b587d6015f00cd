package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/tool/glob"
)

// Tool is one tool of a server, as the toolset's policy leaves it.
type Tool struct {
	// Definition is what the model is told. Its name is the model-visible one.
	Definition loop.ToolDefinition
	// ServerName is the tool's name at its server.
	ServerName string
}

// listed is a tool as its server lists it, with its input schema as JSON. Decoded, a schema takes ten times as much, so that is let go.
type listed struct {
	*sdk.Tool
	schema json.RawMessage
	// name is the tool's, also of one that cannot be called.
	name string
	// asksForHeaders: parameters go into headers as well, which the SDK sees to.
	asksForHeaders bool
}

// maxServerName is the longest name that a tool may have at its server: what AgentToolset.status can list. A tool with a
// longer one is not offered.
const maxServerName = 256

// describe turns a server's list into the toolset's tools, sorted by the server's names: an order that does not depend on
// the server keeps a provider's prompt cache warm. The error says that the toolset's globs take too much work.
func describe(cfg Config, all []listed) ([]Tool, error) {
	var globs glob.Matcher
	tools := make([]Tool, 0, len(all))
	for _, t := range all {
		if t.Name == "" || len(t.Name) > maxServerName || !allowed(&globs, cfg, t.Name) {
			continue
		}
		tools = append(tools, Tool{
			ServerName: t.Name,
			Definition: loop.ToolDefinition{
				Name:            visibleName(cfg.Name, t.Name),
				Description:     t.Description,
				InputSchema:     t.schema,
				Digest:          digest(t.Tool, t.schema),
				RequireApproval: needsApproval(&globs, cfg, t.Tool),
				Repeatable:      repeatable(cfg, t.Annotations),
			},
		})
	}
	if err := globs.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", errGlobs, err)
	}
	slices.SortStableFunc(tools, func(a, b Tool) int { return strings.Compare(a.ServerName, b.ServerName) })
	// A server that lists a name twice has one tool of that name.
	return slices.CompactFunc(tools, func(a, b Tool) bool { return a.ServerName == b.ServerName }), nil
}

var errGlobs = errors.New("spec.allow, spec.deny or spec.approvalTools")

func allowed(globs *glob.Matcher, cfg Config, name string) bool {
	if globs.Any(cfg.Deny, name) {
		return false
	}
	return len(cfg.Allow) == 0 || globs.Any(cfg.Allow, name)
}

// marshal is json.Marshal without the escapes for HTML, which only cost the model tokens.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// hints are a tool's annotations as the digest has them. It is in journals, so it must not change with the SDK's JSON.
type hints struct {
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  bool   `json:"idempotentHint"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`
	ReadOnlyHint    bool   `json:"readOnlyHint"`
	Title           string `json:"title,omitempty"`
}

// digest is the hex SHA-256 of what a user agrees to with the tool: its name at the server, and all that the model is told of it and
// that the operator goes by (description, input schema, annotations). It does not depend on the order of JSON keys.
func digest(t *sdk.Tool, schema json.RawMessage) string {
	// A marshalled list of marshalled parts: no two different tools give the same bytes.
	annotations, _ := json.Marshal((*hints)(t.Annotations))
	sum, _ := json.Marshal([]string{t.Name, t.Description, string(schema), string(annotations)})
	h := sha256.Sum256(sum)
	return hex.EncodeToString(h[:])
}

// needsApproval is the policy of RequireApproval and ApprovalTools.
func needsApproval(globs *glob.Matcher, cfg Config, t *sdk.Tool) bool {
	if globs.Any(cfg.ApprovalTools, t.Name) {
		return true
	}
	switch cfg.RequireApproval {
	case ApproveNever:
		return false
	case ApproveDestructive:
		// A hint of a server that is not trusted proves nothing.
		return !cfg.TrustAnnotations || !harmless(t.Annotations)
	default:
		return true
	}
}

// harmless: the tool says that it changes nothing, or that what it changes is only added.
func harmless(a *sdk.ToolAnnotations) bool {
	if a == nil {
		return false
	}
	return a.ReadOnlyHint || (a.DestructiveHint != nil && !*a.DestructiveHint)
}

// repeatable: a call whose outcome was lost may run again.
func repeatable(cfg Config, a *sdk.ToolAnnotations) bool {
	return cfg.TrustAnnotations && a != nil && (a.ReadOnlyHint || a.IdempotentHint)
}
