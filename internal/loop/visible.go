package loop

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Visible writes text so that it can only be read: what would act on a terminal, change the order of what is read or show
// nothing is written as \u202e or, beyond 16 bits, as a surrogate pair. That is all of Unicode's control and format characters
// but line feed and tab, line separators, invisible letters, and what has no meaning of its own (private use). The joiner within an
// emoji is one of them: the parts of the emoji stand side by side then.
//
// A text that is JSON stays the same JSON value: there such characters stand within strings only, where \u is their escape.
func Visible(text string) string {
	text = clean(text)
	if strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	if json.Valid([]byte(text)) {
		text = strings.ReplaceAll(text, "\r", " ") // the one that JSON has between its tokens, and none of its strings
	}
	var b strings.Builder
	for _, c := range text {
		switch {
		case !hidden(c):
			b.WriteRune(c)
		case c > 0xFFFF:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// hidden tells whether a rune does not simply show itself.
func hidden(c rune) bool {
	switch {
	case c >= ' ' && c <= '~', c == '\n', c == '\t', c == '\ufe0e', c == '\ufe0f': // the last two say how an emoji looks
		return false
	case unicode.In(c, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return true
	}
	return !unicode.IsPrint(c) && !unicode.Is(unicode.Zs, c)
}
