package openai

import (
	"context"
	"errors"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// usedUp tells whether a model that thinks spent the whole cap on thoughts. OpenAI and Azure call that an invalid request,
// though it is a reply that was cut off.
func usedUp(e model.ErrorBody) bool {
	return strings.Contains(strings.ToLower(e.Message), "could not finish the message because max_tokens")
}

// toModelError turns any error of a call into what the loop is to do. Sent is the cap that the request carried.
func toModelError(ctx context.Context, err error, sent int64) *loop.ModelError {
	var status *model.StatusError
	if errors.As(err, &status) {
		return status.ModelError(sent)
	}
	return model.ErrorFromTransport(ctx, err)
}
