package controller

import (
	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// StripCached takes out of a task, before it is cached, what is never read from the cache: who wrote which field, and the output,
// which is most of a task that waits or has ended. It is a client-go TransformFunc.
func StripCached(object any) (any, error) {
	if task, ok := object.(*v1alpha1.AgentTask); ok {
		task.ManagedFields, task.Status.Output = nil, ""
	}
	return object, nil
}
