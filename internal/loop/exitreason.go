package loop

// ExitReason is why the loop last stopped. Empty while it runs.
type ExitReason string

// Exit reasons. docs and the API name the phase that goes with each.
const (
	ExitCompleted           ExitReason = "Completed"
	ExitNeedInput           ExitReason = "NeedInput"
	ExitIterationCapReached ExitReason = "IterationCapReached"
	ExitTokenBudgetExceeded ExitReason = "TokenBudgetExceeded"
	ExitTimeBudgetExceeded  ExitReason = "TimeBudgetExceeded"
	ExitInputTimeout        ExitReason = "InputTimeout"
	ExitNoProgress          ExitReason = "NoProgress"
	ExitCancelled           ExitReason = "Cancelled"
	ExitError               ExitReason = "Error"
)
