package mcp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/agentloop-dev/agenttask-operator/internal/egress"
)

// UnavailableError says that a toolset's tools cannot be had now.
type UnavailableError struct {
	// Toolset is the toolset's name.
	Toolset string
	// Reason completes "the toolset is not available: ". It is in our own words: no URL, no header, nothing that the server
	// wrote.
	Reason string
	// RetryAfter is how long from now the server is left alone, at least; 0 when nothing speaks against trying at once.
	RetryAfter time.Duration
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("toolset %q is not available: %s", e.Toolset, e.Reason)
}

// Parts of what the model is told of a failed call.
const (
	notRun  = "The call was not run"
	unknown = "Its outcome is unknown: it may or may not have run. Check before you repeat it."
)

// hidden tells whether the author of the toolset is not to know why its server gave no answer: that would tell of ports within the own
// networks. What the guard refuses, it refuses with a reason for everybody.
func hidden(cfg Config, err error, f facts) bool {
	t, ok := cfg.HTTP.Transport.(interface{ Inside() bool })
	return ok && t.Inside() && !f.responded && !errors.Is(err, egress.ErrRefused) && !errors.Is(f.err, egress.ErrRefused)
}

// reasonOf says in our own words why an exchange failed.
func reasonOf(cfg Config, err error, f facts) string {
	if hidden(cfg, err, f) {
		return "the server " + egress.Unreachable
	}
	for _, e := range []error{f.err, err} {
		if reason := transportReason(e); reason != "" {
			return reason
		}
	}
	switch f.status {
	case 0:
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Sprintf("the server does not accept the credentials (HTTP %d)", f.status)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fmt.Sprintf("there is no MCP server at this URL (HTTP %d)", f.status)
	case http.StatusTooManyRequests:
		return "the server is called too often (HTTP 429)"
	default:
		return fmt.Sprintf("the server answered HTTP %d", f.status)
	}
	if rpc := serverError(err, f); rpc != nil {
		return fmt.Sprintf("the server answered with JSON-RPC error %d", rpc.Code)
	}
	return "the connection failed, or the answer was not MCP"
}

// transportReason names the errors of a connection that tell the user something; "" for the rest.
func transportReason(err error) string {
	var refused *egress.RefusedError
	var dns *net.DNSError
	var unverified *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var header tls.RecordHeaderError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return refused.Error()
	case errors.Is(err, errRedirect):
		return "the server redirects elsewhere: give the final URL"
	case errors.Is(err, errOtherOrigin):
		return "the server sends its clients to another origin, which is refused"
	case errors.Is(err, errBodyTooLarge):
		return fmt.Sprintf("the server's answer is larger than %d MiB", maxBodyBytes>>20)
	case errors.Is(err, errSlowBody):
		return fmt.Sprintf("the server takes longer than %s to send a large answer", largeTime)
	case errors.As(err, &dns):
		return "the host's name cannot be resolved"
	case errors.As(err, &unverified), errors.As(err, &authority):
		return "the server's certificate is not trusted"
	case errors.As(err, &header):
		return "the server does not speak TLS"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	}
	return ""
}

// failedCall is what the model is told of a call that gave no result.
func failedCall(parent context.Context, cfg Config, err error, f facts) string {
	rpc := serverError(err, f)
	switch {
	case f.tooLarge:
		return fmt.Sprintf("The tool answered with more than %d MiB, which was not read. The call has run; ask for less.", maxBodyBytes>>20)
	case f.sessionGone:
		return notRun + ": the server had forgotten the session. It can be called again."
	case rpc != nil:
		return fmt.Sprintf("The server answered with an error: %s (JSON-RPC %d)", rpc.Message, rpc.Code)
	case errors.Is(f.err, errRedirect):
		return notRun + ": " + reasonOf(cfg, nil, f) + "."
	case f.answered && !ended(err):
		return "The tool answered in a form that cannot be read. The call has run; its result is lost."
	case f.neverSent:
		return notRun + ": " + whyUnsent(parent, cfg, err, f) + "."
	case refusedByStatus(f.status):
		return notRun + ": " + reasonOf(cfg, nil, f) + "."
	case parent.Err() != nil:
		return "The call was interrupted: " + causeOf(parent) + ". " + unknown
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("No answer within %s. %s", cfg.CallTimeout, unknown)
	}
	return "The call failed: " + reasonOf(cfg, nil, f) + ". " + unknown
}

// serverError is the JSON-RPC error that the server answered with, nil when err is none. The SDK uses the same type for
// errors of its own making.
func serverError(err error, f facts) *jsonrpc.Error {
	const clientClosing, serverClosing, rejected = -32003, -32004, -32005
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) || rpc.Code == codeContained {
		return nil
	}
	if !f.answered && (rpc.Code == clientClosing || rpc.Code == serverClosing || rpc.Code == rejected) {
		return nil
	}
	return rpc
}

// ended: it was the context that ended, not the call.
func ended(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func whyUnsent(parent context.Context, cfg Config, err error, f facts) string {
	switch {
	case parent.Err() != nil:
		return causeOf(parent)
	case errors.Is(err, context.DeadlineExceeded) && !hidden(cfg, err, f):
		return fmt.Sprintf("no connection within %s", cfg.CallTimeout)
	}
	return reasonOf(cfg, err, f)
}

// refusedByStatus: the server, or what stands before it, turned the request away without looking into it. With any 5xx the
// tool may have run, and with a 408 or 409 it is not clear.
func refusedByStatus(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusTooManyRequests:
		return true
	}
	return false
}

// causeOf says why a context ended. The loop gives causes in words for people.
func causeOf(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		return "the task's time is used up"
	case errors.Is(cause, context.Canceled):
		return "the task does not wait for it any longer"
	default:
		return cause.Error()
	}
}

// minSecret is the length in bytes from which on a header's value is looked for in what a server says.
const minSecret = 12

// redactor takes the header values of a toolset out of a text: a server that echoes its request must not put a credential
// before the model and into the journal.
func redactor(headers map[string]string) *strings.Replacer {
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(headers)) {
		values := []string{headers[k]}
		// Of "Bearer token", the token alone is as secret.
		if _, token, ok := strings.Cut(headers[k], " "); ok {
			values = append(values, token)
		}
		for _, v := range values {
			if v = strings.TrimSpace(v); len(v) >= minSecret {
				pairs = append(pairs, v, "[redacted]")
			}
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	return strings.NewReplacer(pairs...)
}
