package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Cut shortens text to at most limit bytes, at a rune's border, and says so at its end. A limit too small for the note cuts without it.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	note := fmt.Sprintf("\n[cut: %d bytes in all]", len(text))
	if limit < 2*len(note) {
		return cutAt(text, limit)
	}
	return cutAt(text, limit-len(note)) + note
}

// cutAt shortens text to at most limit bytes without parting a rune.
func cutAt(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:max(limit, 0)]
}

func joinTexts(texts []string) string { return strings.Join(texts, "\n\n") }

func toSet(ids []string) map[string]bool {
	out := make(map[string]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out
}

// HashInput is the digest of spec.resumeInput that the journal keeps, empty for a blank one.
func HashInput(input string) string {
	if strings.TrimSpace(input) == "" {
		return ""
	}
	return digest(input)
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s;", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// maxLogBytes bounds what the log keeps of one turn, maxAnswerBytes what it keeps of one answer.
const (
	maxLogBytes    = 600
	maxAnswerBytes = 16 << 10
)

// appendFirstWords puts the beginning of text on one line. It does not look at the rest.
func appendFirstWords(line []byte, text string, limit int) []byte {
	limit += len(line)
	start, gap := len(line), false
	for i := 0; i < len(text) && len(line) < limit; i++ {
		c := text[i]
		if c == ' ' || c >= '\t' && c <= '\r' {
			gap = len(line) > start
			continue
		}
		if gap {
			line, gap = append(line, ' '), false
		}
		line = append(line, c)
	}
	if len(line) > start && len(line) >= limit && !utf8.FullRune(line[lastRune(line):]) {
		line = line[:lastRune(line)]
	}
	return line
}

// lastRune is where the last rune of a line begins, whole or not.
func lastRune(line []byte) int {
	i := len(line) - 1
	for i > 0 && !utf8.RuneStart(line[i]) {
		i--
	}
	return i
}

// logLine is what the Fresh context tells of one turn.
func logLine(turn int64, r *Reply, texts []string) string {
	var room [maxLogBytes + 256]byte // every turn of a long journal comes through here
	line := strconv.AppendInt(append(room[:0], "Turn "...), turn, 10)
	line = appendFirstWords(append(line, ": "...), joinTexts(texts), maxLogBytes)
	for i, c := range r.ToolCalls {
		if i == 0 {
			line = append(line, " [called "...)
		} else {
			line = append(line, ", "...)
		}
		line = append(line, c.Name...)
	}
	if len(r.ToolCalls) > 0 {
		line = append(line, ']')
	}
	return string(line)
}

// answerEntry is what the Fresh context tells of a human's answer: whole, or the model would have to ask again.
func answerEntry(question, answer string) string {
	return fmt.Sprintf("The human was asked: %s\nThe human answered: %s", Cut(question, MaxQuestionBytes), Cut(answer, maxAnswerBytes))
}
