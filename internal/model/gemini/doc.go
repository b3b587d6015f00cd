// Package gemini speaks the Gemini API (generateContent with an API key), through the official SDK, as a loop.Model.
// Vertex AI is not supported: it has other credentials.
//
// The conversion is in pure files, one a direction: request.go (with thinking.go and opaque.go) from the loop's words to
// the API's, response.go and stream.go back, errors.go for what went wrong. client.go only joins them; transport.go does
// what the SDK has no setting for.
//
// Thought signatures, which the API demands back in later requests, are kept in the Opaque fields of blocks and calls,
// behind a prefix, and are sent only where this package wrote them.
package gemini
