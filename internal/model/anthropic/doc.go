// Package anthropic speaks the Anthropic Messages API, through the official SDK, as a loop.Model.
//
// The conversion is in pure files, one a direction: request.go (with thinking.go and opaque.go) from the loop's words to
// the API's, response.go and stream.go back, errors.go for what went wrong. client.go only joins them.
//
// What the API demands back unchanged in later requests (signatures of thinking blocks, redacted thinking, the place of a
// call between blocks) is kept in the Opaque fields of blocks and calls, behind a prefix, and is sent only where this
// package wrote it.
package anthropic
