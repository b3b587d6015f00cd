package loop

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Cause is the finer reason of an exit with reason Error. It is the reason of the task's Finished condition.
type Cause string

// Causes of an Error exit.
const (
	CauseModelAuthenticationFailed Cause = "ModelAuthenticationFailed"
	CauseModelNotFound             Cause = "ModelNotFound"
	CauseModelRequestInvalid       Cause = "ModelRequestInvalid"
	CauseModelRefused              Cause = "ModelRefused"
	CauseContentFiltered           Cause = "ContentFiltered"
	CauseContextWindowExceeded     Cause = "ContextWindowExceeded"
	CauseModelReplyInvalid         Cause = "ModelReplyInvalid"
	CauseModelUnavailable          Cause = "ModelUnavailable"
	CauseModelRateLimited          Cause = "ModelRateLimited"
	CauseEndpointRefused           Cause = "EndpointRefused"
	CauseInvalidStopWhen           Cause = "InvalidStopWhen"
	CauseInvalidOutputSchema       Cause = "InvalidOutputSchema"
	CausePromptTooLarge            Cause = "PromptTooLarge"
	CauseJournalFull               Cause = "JournalFull"
	CauseTurnCrashed               Cause = "TurnCrashed"
	CauseInternalError             Cause = "InternalError"
)

// RefusedCap is a cap on a reply's tokens that a provider refused as too large. Such a refusal bills nothing.
type RefusedCap struct {
	// Sent is the cap that the request carried.
	Sent int64
	// Max is the largest cap that the provider names, 0 where it names none.
	Max int64
	// ThisCall: the refusal follows from this call, such as the length of its input, and says nothing of the model.
	ThisCall bool
}

// ModelError is a failed model call and what to do about it.
type ModelError struct {
	Cause Cause
	// Retry: the same call may succeed later. False ends the task (but ContextWindowExceeded is compacted once first).
	Retry bool
	// RetryAfter is the provider's own wish, 0 for none.
	RetryAfter time.Duration
	// Sent: the provider got the request and gave no whole answer, so it may bill what it has read.
	Sent bool
	// OutputCap is set where the provider refused the request's cap on the reply's tokens as too large.
	OutputCap *RefusedCap
	// RefusedTool is the tool whose definition the provider refused, by its name in the request. Such a refusal bills nothing.
	RefusedTool string
	// Status is the HTTP status, 0 for none.
	Status int
	// Detail is a sentence or two in our own words: never a provider's body, a prompt, a key or a URL with a query. The capital letter
	// at its beginning and the full stop at its end may be left out.
	Detail string
	// Err is the error below, for errors.Is. It is never printed.
	Err error
}

// Error is Detail as whole sentences, the first of them with the HTTP status.
func (e *ModelError) Error() string {
	first, rest, more := strings.Cut(strings.TrimSuffix(e.Detail, "."), ". ")
	if e.Status != 0 {
		first += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if more {
		first += ". " + rest
	}
	return strings.ToUpper(first[:min(1, len(first))]) + first[min(1, len(first)):] + "."
}

func (e *ModelError) Unwrap() error { return e.Err }

// Why a running call was interrupted: the causes of its context's end (context.Cause).
var (
	ErrCancelled    = errors.New("the task was cancelled")
	ErrShuttingDown = errors.New("the operator is shutting down")
	errReleased     = errors.New("the task was released: open it before its next call")
	errTimeBudget   = errors.New("maxDuration is used up")
	errTokenBudget  = errors.New("maxTokens is used up")
)
