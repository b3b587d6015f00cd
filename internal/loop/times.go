package loop

import "strings"

// withoutTimes takes the times of day out of a text, with the date before and the zone after them, and Unix times that are named as a
// time. So the same result of a tool is the same a second later. Only what is known to be a time goes, never just digits: 3 of 5 and
// 4 of 5 is progress.
func withoutTimes(text string) string {
	var out strings.Builder
	kept := 0
	for i := 0; i < len(text); {
		if !isDigit(text[i]) {
			i++
			continue
		}
		if n := timeAt(text, i); n > 0 {
			out.WriteString(text[kept:i])
			out.WriteByte('T')
			i += n
			kept = i
			continue
		}
		for i < len(text) && (isDigit(text[i]) || text[i] == '-') { // within a number or a date no time begins
			i++
		}
	}
	if kept == 0 {
		return text
	}
	out.WriteString(text[kept:])
	return out.String()
}

// timeAt is the length of the time that begins at i, 0 for none.
func timeAt(text string, i int) int {
	s := text[i:]
	if n := dateAndTime(s); n > 0 {
		return n
	}
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	// Seconds, milli-, micro- and nanoseconds since 1970, of the years 2001 to 2286.
	if (n == 10 || n == 13 || n == 16 || n == 19) && namedAsTime(text[max(0, i-24):i]) {
		return n
	}
	return 0
}

// dateAndTime is the length of 2026-01-05T09:00:00.123+01:00 at the beginning of s, the date and what follows the seconds being optional.
func dateAndTime(s string) int {
	n := matches(s, "dddd-dd-dd", "dddd/dd/dd")
	if n > 0 {
		if n == len(s) || !strings.ContainsRune("Tt _", rune(s[n])) {
			return 0
		}
		n++
	}
	clock := matches(s[n:], "dd:mm:mm", "d:mm:mm")
	if clock == 0 && n == 0 {
		clock = matches(s, "ddddddddTdddddd")
	}
	if clock == 0 {
		return 0
	}
	n += clock
	if n < len(s) && (s[n] == ':' || isDigit(s[n])) { // an address of a network card, or a longer number
		return 0
	}
	if n < len(s) && (s[n] == '.' || s[n] == ',') {
		digits := n + 1
		for digits < len(s) && isDigit(s[digits]) {
			digits++
		}
		if digits > n+1 {
			n = digits
		}
	}
	return n + matches(s[n:], "Z", "z", "+dd:dd", "-dd:dd", "+dddd", "-dddd")
}

// matches is the length of the first of patterns that s begins with, in which d is a digit and m one, of a pair that is less than 60;
// 0 for none.
func matches(s string, patterns ...string) int {
next:
	for _, pattern := range patterns {
		if len(s) < len(pattern) {
			continue
		}
		for i := range len(pattern) {
			c, p := s[i], pattern[i]
			first := p == 'm' && pattern[i-1] != 'm'
			if p != 'd' && p != 'm' && p != c || (p == 'd' || p == 'm') && !isDigit(c) || first && c > '5' {
				continue next
			}
		}
		return len(pattern)
	}
	return 0
}

// namedAsTime tells whether what stands right before a number names it as a time, as in "updated_at": 1767603600.
func namedAsTime(before string) bool {
	name := strings.TrimRight(before, " \t\"':=")
	if len(name) == len(before) {
		return false
	}
	name = strings.ToLower(name[strings.LastIndexAny(name, " \t\n\"',{&?")+1:])
	return strings.Contains(name, "time") || strings.Contains(name, "epoch") || strings.Contains(name, "date") ||
		name == "ts" || name == "now" || strings.HasSuffix(name, "_at") || strings.HasSuffix(name, "_ts")
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
