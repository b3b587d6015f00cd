package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// maxName is the longest tool name that all providers take.
	maxName = 64
	// maxPrefix is what a toolset's name keeps when the whole is too long: the tool's own name tells the model more.
	maxPrefix = 20
	hashLen   = 8
	separator = "__"
)

// visibleName is the name under which the model knows a tool: toolset__tool, of the characters that all providers take.
//
// It is a function of the two names alone, so a tool keeps its name whatever else the server lists, and no tool can take
// the name of one that is gone. A name that had to be changed carries a hash of the original, which keeps names that look
// alike after the change apart.
func visibleName(toolset, tool string) string {
	prefix, name := plain(toolset), plain(tool)
	full := prefix + separator + name
	// Toolset names are DNS names and hold no underscore, so an unchanged name has only one reading.
	if prefix == toolset && name == tool && len(full) <= maxName && !beginsBadly(prefix) {
		return full
	}
	return hashed(prefix, name, toolset+"\x00"+tool)
}

// mayBeOf tells whether a model-visible name may be that of a tool of this toolset. Of a long name the toolset's part was cut, and
// then it may be of several.
func mayBeOf(name, toolset string) bool {
	prefix := goodStart(plain(toolset))
	return strings.HasPrefix(name, prefix+separator) ||
		len(prefix) > maxPrefix && strings.HasPrefix(name, prefix[:maxPrefix]+separator)
}

// goodStart is a prefix as a name may begin.
func goodStart(prefix string) string {
	if beginsBadly(prefix) {
		return "_" + prefix
	}
	return prefix
}

// beginsBadly tells whether a name begins with what some providers do not take as a function's first character.
func beginsBadly(name string) bool {
	return name != "" && (name[0] == '-' || name[0] >= '0' && name[0] <= '9')
}

// hashed joins the parts, cut as far as needed, and a short hash of identity.
func hashed(prefix, name, identity string) string {
	prefix = goodStart(prefix)
	sum := sha256.Sum256([]byte(identity))
	hash := hex.EncodeToString(sum[:])[:hashLen]
	room := maxName - len(separator) - len("_") - hashLen
	if len(prefix)+len(name) > room {
		prefix = prefix[:min(len(prefix), maxPrefix)]
		name = name[:min(len(name), room-len(prefix))]
	}
	return prefix + separator + name + "_" + hash
}

// plain replaces every character that some provider refuses.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
}
