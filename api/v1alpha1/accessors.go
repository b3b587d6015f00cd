package v1alpha1

// Finished tells whether the task has reached a terminal phase.
func (t *AgentTask) Finished() bool {
	switch t.Status.Phase {
	case PhaseSucceeded, PhaseFailed, PhaseCancelled:
		return true
	case PhasePending, PhaseRunning, PhaseNeedsInput, PhaseSuspended:
	}
	return false
}

// Phase is the phase that goes with the exit reason.
func (r LoopExitReason) Phase() AgentTaskPhase {
	switch r {
	case "":
		return PhaseRunning
	case ExitCompleted:
		return PhaseSucceeded
	case ExitNeedInput:
		return PhaseNeedsInput
	case ExitCancelled:
		return PhaseCancelled
	case ExitIterationCapReached, ExitTokenBudgetExceeded, ExitTimeBudgetExceeded, ExitInputTimeout, ExitNoProgress, ExitError:
	}
	return PhaseFailed
}

// SharedName is the lower-case name that agent frameworks share, used in metrics, traces and events.
func (r LoopExitReason) SharedName() string {
	return map[LoopExitReason]string{
		ExitCompleted:           "completed",
		ExitNeedInput:           "need_input",
		ExitIterationCapReached: "iteration_cap_reached",
		ExitTokenBudgetExceeded: "token_budget_exceeded",
		ExitTimeBudgetExceeded:  "time_budget_exceeded",
		ExitInputTimeout:        "input_timeout",
		ExitNoProgress:          "no_progress",
		ExitCancelled:           "cancelled",
		ExitError:               "error",
	}[r]
}
