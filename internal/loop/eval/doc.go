// Package eval evaluates what users write: output schemas (JSON Schema) and stopWhen expressions (CEL).
//
// Whoever may create a task may write both, and a model writes what they are held against. So each has a stated bound on its
// size, on the work of compiling it and on the work of one evaluation, and what exceeds one is refused with a sentence that
// says which. Nothing here can be interrupted, and nothing needs to be.
package eval

import (
	"crypto/sha256"
	"encoding/hex"
)

// digest tells one text from another.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}
