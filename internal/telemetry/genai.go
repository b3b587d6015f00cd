package telemetry

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// The names of the OpenTelemetry GenAI semantic conventions (open-telemetry/semantic-conventions-genai, docs/gen-ai), which are in
// development: they are kept here and nowhere else.
const (
	opInvokeAgent = "invoke_agent"
	opChat        = "chat"
	opExecuteTool = "execute_tool"

	keyOperation     = attribute.Key("gen_ai.operation.name")
	keyProvider      = attribute.Key("gen_ai.provider.name")
	keyRequestModel  = attribute.Key("gen_ai.request.model")
	keyMaxTokens     = attribute.Key("gen_ai.request.max_tokens")
	keyResponseModel = attribute.Key("gen_ai.response.model")
	keyFinishReasons = attribute.Key("gen_ai.response.finish_reasons")
	keyInputTokens   = attribute.Key("gen_ai.usage.input_tokens")
	keyCachedTokens  = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	keyOutputTokens  = attribute.Key("gen_ai.usage.output_tokens")
	keyToolName      = attribute.Key("gen_ai.tool.name")
	keyToolCallID    = attribute.Key("gen_ai.tool.call.id")
	keyAgentName     = attribute.Key("gen_ai.agent.name")
	keyAgentID       = attribute.Key("gen_ai.agent.id")
	keyConversation  = attribute.Key("gen_ai.conversation.id")
	// keyAgentFinish is proposed there (#171, #238, #267).
	keyAgentFinish = attribute.Key("gen_ai.agent.finish_reason")
	keyErrorType   = attribute.Key("error.type")
	keyServer      = attribute.Key("server.address")
	keyNamespace   = attribute.Key("k8s.namespace.name")
	serviceName    = attribute.Key("service.name")
	serviceVersion = attribute.Key("service.version")

	// Our own.
	keyExitReason = attribute.Key("agenttask.exit_reason")
	keyIterations = attribute.Key("agenttask.iterations")
	keyPurpose    = attribute.Key("agenttask.call.purpose")
)

// providers are the conventions' names.
var providers = map[v1alpha1.Provider]string{
	v1alpha1.ProviderOpenAI:    "openai",
	v1alpha1.ProviderAnthropic: "anthropic",
	v1alpha1.ProviderGemini:    "gcp.gen_ai",
	v1alpha1.ProviderScripted:  "scripted",
}

// agentFinish maps exit reasons to the proposed values of gen_ai.agent.finish_reason.
var agentFinish = map[v1alpha1.LoopExitReason]string{
	v1alpha1.ExitCompleted:           "completed",
	v1alpha1.ExitIterationCapReached: "max_iterations",
	v1alpha1.ExitTokenBudgetExceeded: "max_tokens",
	v1alpha1.ExitTimeBudgetExceeded:  "time_budget",
	v1alpha1.ExitInputTimeout:        "time_budget",
	v1alpha1.ExitNoProgress:          "guardrail",
	v1alpha1.ExitCancelled:           "cancelled",
	v1alpha1.ExitError:               "error",
}
