// Package openai speaks the chat completions API: OpenAI's own and every compatible server's.
//
// Compatible servers differ in what they take. The client begins with what the endpoint most likely knows, and where a
// server rejects a request by naming a field, it sends the request again without it and remembers that (features).
//
//	loop.Request  → request.go  → SDK parameters
//	SDK chunks    → stream.go   → loop.Reply (and response.go for servers that do not stream)
//	error bodies  → errors.go   → loop.ModelError
package openai
