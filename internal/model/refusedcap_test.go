package model_test

import (
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// The texts have the shapes that users report publicly, with figures of our own. Where a shape was found is named.
func TestARefusedCapIsReadFromManyTexts(t *testing.T) {
	const sent = 120_000
	ceiling := func(n int64) *loop.RefusedCap { return &loop.RefusedCap{Sent: sent, Max: n} }
	room := func(n int64) *loop.RefusedCap { return &loop.RefusedCap{Sent: sent, Max: n, ThisCall: true} }
	for source, tc := range map[string]struct {
		status int
		text   string
		want   *loop.RefusedCap
	}{
		"OpenAI (ChatGPTNextWeb/NextChat#3195)":            {400, "max_tokens is too large: 120000. This model supports at most 4096 completion tokens, whereas you provided 120000.", ceiling(4096)},
		"Ark (yiliqi78/TOKENICODE#3)":                      {400, "The parameter max_tokens specified in the request is not valid: integer above maximum value, expected a value <= 32768, but got 120000 instead.", ceiling(32768)},
		"Anthropic (anthropics/claude-code#24451)":         {400, "max_tokens: 120000 > 64000, which is the maximum allowed number of output tokens for claude-x", ceiling(64000)},
		"Vertex, Gemini (BerriAI/litellm#10548)":           {400, "Unable to submit request because it has a maxOutputTokens value of 120000 but the supported range is from 1 (inclusive) to 65537 (exclusive). Update the value and try again.", ceiling(65536)},
		"DeepSeek (deepseek-ai/DeepSeek-V3#69)":            {400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", ceiling(8192)},
		"DashScope (open-webui/open-webui#10507)":          {400, "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]", ceiling(8192)},
		"Groq (anomalyco/opencode#1000)":                   {400, "`max_tokens` must be less than or equal to `16384`, the maximum value for `max_tokens` is less than the `context_window` for this model", ceiling(16384)},
		"Groq, before (skapadia3214/groq-moa#8)":           {400, "max_tokens for `m` must be less than or equal to 8000", ceiling(8000)},
		"Ollama's cloud (DaviRain-Su/hyper-grok-build#44)": {400, "max_tokens (120000) exceeds model's maximum output tokens (65536) for model m", ceiling(65536)},
		"Bedrock (sigoden/aichat#813)":                     {400, "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.", ceiling(4096)},
		"GLM":                                              {400, "max_completion_tokens is limited to 16384 for glm-x", ceiling(16384)},
		"TGI (huggingface/transformers#28523)":             {422, "Input validation error: `max_new_tokens` must be <= 512. Given: 120000", ceiling(512)},
		"pydantic":                                         {422, `[{"type":"less_than_equal","loc":["body","max_tokens"],"msg":"Input should be less than or equal to 4096","input":120000}]`, ceiling(4096)},
		"Fireworks, plain (nextlevelbuilder/goclaw#660)":   {400, "Requests with max_tokens > 4096 must have stream=true", ceiling(4096)},
		"vLLM, above its window":                           {400, "max_tokens=120000 cannot be greater than max_model_len=max_total_tokens=32768. Please request fewer output tokens.", ceiling(32768)},
		"Portkey's library of errors":                      {400, "The number of completion tokens provided exceeds the model's limit of 4096. Adjust the max_tokens parameter to comply with this limit.", ceiling(4096)},
		"GLM, no figure (lobehub/lobehub#1398)":            {400, "max_tokens参数非法。请检查文档。", ceiling(0)},
		"Scaleway, no figure":                              {416, "max_completion_tokens is limited for this model", ceiling(0)},
		"within a stream":                                  {0, "max_tokens is too large", ceiling(0)},

		"vLLM (claude-code-best/claude-code#272)":              {400, "'max_tokens' or 'max_completion_tokens' is too large: 120000. This model's maximum context length is 32768 tokens and your request has 900 input tokens (120000 > 32768 - 900).", room(31868)},
		"vLLM, exact count":                                    {400, "This model's maximum context length is 32768 tokens. However, you requested 120000 output tokens and your prompt contains 900 input tokens, for a total of 120900 tokens.", room(31868)},
		"vLLM, which counts no further than it must":           {400, "This model's maximum context length is 131072 tokens. However, you requested 120000 output tokens and your prompt contains at least 11073 input tokens, for a total of at least 131073 tokens.", room(0)},
		"vLLM, which counts characters":                        {400, "This model's maximum context length is 120000 tokens. However, you requested 120000 output tokens and your prompt contains 196 characters (more than 0 characters, which is the upper bound for 0 input tokens).", room(0)},
		"vLLM 0.16":                                            {400, "You passed 900 input tokens and requested 120000 output tokens. However, the model's context length is only 32768 tokens, resulting in a maximum input length of 1 tokens.", room(31868)},
		"DeepSeek, older vLLM (evalstate/fast-agent#621)":      {400, "This model's maximum context length is 131072 tokens. However, you requested 150000 tokens (30000 in the messages, 120000 in the completion). Please reduce the length of the messages or completion.", room(101072)},
		"llama-cpp-python (lm-sys/RouteLLM#34)":                {400, "This model's maximum context length is 8192 tokens, however you requested 121000 tokens (1000 in your prompt; 120000 for the completion). Please reduce your prompt; or completion length.", room(7192)},
		"with functions":                                       {400, "This model's maximum context length is 8192 tokens. However, you requested 120300 tokens (200 in the messages, 100 in the functions, 120000 in the completion).", room(7892)},
		"OpenRouter (Aider-AI/aider#3721)":                     {400, "This endpoint's maximum context length is 131072 tokens. However, you requested about 140535 tokens (20000 of text input, 535 of tool input, 120000 in the output).", room(110537)},
		"the total only":                                       {400, "This model's maximum context length is 8192 tokens. However, you requested 121000 tokens.", room(7192)},
		"SGLang (behind LiteLLM, which calls it a fault)":      {500, "litellm.APIConnectionError: Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 132000.0 tokens: 12000 tokens from the input messages and 120000 tokens for the completion.", room(119072)},
		"Anthropic, near its window (docker/docker-agent#569)": {400, "input length and `max_tokens` exceed context limit: 178959 + 120000 > 200000, decrease input length or `max_tokens` and try again", room(21041)},
		"TGI, Together (stanford-crfm/helm#2079)":              {422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1019 `inputs` tokens and 120000 `max_new_tokens`", room(1029)},
		"Kimi":       {400, "Invalid request: Your request exceeded model token limit: 131072 (requested: 150000)", room(101072)},
		"Cloudflare": {413, "3010: AiError: The estimated number of input and maximum output tokens (125000) exceeded this model context window limit (24000)", room(19000)},
		"OpenAI, tokens a minute (SWE-agent/SWE-agent#1296)": {429, "Request too large for m in organization o on tokens per min (TPM): Limit 30000, Requested 121000. The input or output tokens must be reduced in order to run successfully.", room(29000)},
		"OpenRouter, little money (Taewan-P/gpt_mobile#284)": {402, "This request requires more credits, or fewer max_tokens. You requested up to 120000 tokens, but can only afford 3919. To increase, visit ...", room(3919)},
		"a window, no figure of the input":                   {400, "max_tokens must not exceed the maximum context length", room(0)},

		"the input is too long":                 {400, "prompt is too long: 209999 tokens > 200000 maximum", nil},
		"hardly anything is left for a reply":   {400, "'max_tokens' or 'max_completion_tokens' is too large: 120000. This model's maximum context length is 32768 tokens and your request has 32700 input tokens (120000 > 32768 - 32700).", nil},
		"nothing is left":                       {400, "This model's maximum context length is 4097 tokens. However, you requested 124097 tokens (4097 in the messages, 120000 in the completion).", nil},
		"the messages alone":                    {400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.", nil},
		"the messages alone, older vLLM":        {400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens in the messages, Please reduce the length of the messages.", nil},
		"an input above the tokens of a minute": {429, "Request too large for m on tokens per min (TPM): Limit 30000, Requested 150000.", nil},
		"Mistral, too long":                     {400, "Prompt contains 300000 tokens, too large for model with 131072 maximum context length", nil},
		"a rate":                                {429, "Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 20000, Requested 16884. Please try again in 13s.", nil},
		"a rate of output tokens":               {400, "This request would exceed your organization's rate limit of 8000 output tokens per minute", nil},
		"the field's name":                      {400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", nil},
		"the field's name, Mistral (editor-code-assistant/eca#231)": {422, `[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted","input":120000}]`, nil},
		"a cap that thinking does not fit":                          {400, "`max_tokens` must be greater than `thinking.budget_tokens`", nil},
		"too small a cap":                                           {400, "Invalid 'max_completion_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead.", nil},
		"a cap that was used up (nextlevelbuilder/goclaw#245)":      {400, "Could not finish the message because max_tokens or model output limit was reached. Please try again with higher max_tokens.", nil},
		"another field":                                             {400, "The thinking budget 50000 is invalid. Please choose a value between 512 and 24576.", nil},
		"another field that is too large":                           {400, "n is too large: at most 128", nil},
		"an outage":                                                 {503, "max_tokens is too large", nil},
		"nothing":                                                   {400, "", nil},
	} {
		t.Run(source, func(t *testing.T) {
			got := model.NoteRefusedCap(&loop.ModelError{Status: tc.status}, tc.text, sent).OutputCap
			if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if got := model.NoteRefusedCap(&loop.ModelError{Status: tc.status}, tc.text, 0).OutputCap; got != nil {
				t.Errorf("a request without cap: %+v", got)
			}
		})
	}
}

func TestAFieldThatIsCalledInvalidIsTooLargeOnlyWhereItIsLarge(t *testing.T) {
	for sent, want := range map[int64]bool{4096: false, 4097: true} {
		if got := model.NoteRefusedCap(&loop.ModelError{Status: 400}, "max_tokens is invalid", sent).OutputCap; (got != nil) != want {
			t.Errorf("%d: got %+v", sent, got)
		}
	}
}

func TestARefusedCapNamesTheFieldAndIsNotTriedAgainAsItIs(t *testing.T) {
	const large = "max_tokens is too large: 9000000. This model supports at most 4096 completion tokens"
	for name, tc := range map[string]struct {
		before loop.ModelError
		cause  loop.Cause
	}{
		"a rejection":              {loop.ModelError{Cause: loop.CauseModelRequestInvalid, Status: 400}, loop.CauseModelRequestInvalid},
		"an error within a stream": {loop.ModelError{Cause: loop.CauseModelUnavailable, Retry: true, RetryAfter: 1}, loop.CauseModelRequestInvalid},
		"a window is compacted":    {loop.ModelError{Cause: loop.CauseContextWindowExceeded, Status: 400, Detail: "as it was"}, loop.CauseContextWindowExceeded},
		"an empty account is none": {loop.ModelError{Cause: loop.CauseModelRateLimited, Status: 400, Detail: "as it was"}, loop.CauseModelRateLimited},
	} {
		t.Run(name, func(t *testing.T) {
			got := model.NoteRefusedCap(&tc.before, large, 9_000_000)
			if got.OutputCap == nil || got.Cause != tc.cause || got.Retry || got.RetryAfter != 0 {
				t.Errorf("got %+v", got)
			}
			if got.Detail != "as it was" && !strings.Contains(got.Detail, "parameters.maxOutputTokens") {
				t.Errorf("detail %q", got.Detail)
			}
		})
	}
}

func TestOfALongTextOnlyTheBeginningIsSearched(t *testing.T) {
	text := strings.Repeat("(1 ", 1<<20) + "max_tokens is too large"
	if got := model.NoteRefusedCap(&loop.ModelError{Status: 400}, text, 100_000).OutputCap; got != nil {
		t.Errorf("got %+v", got)
	}
}
