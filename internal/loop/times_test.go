package loop

import (
	"strings"
	"testing"
)

// Only what is known to be a time is left out of a comparison of results, never just digits.
func TestWhichResultsDifferInATimeAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		why  string
		a, b string
		same bool
	}{
		"ISO 8601":                     {"a time", `at 2026-01-05T09:00:00Z`, `at 2026-01-05T09:00:01Z`, true},
		"another day":                  {"a time", `2026-01-05T23:59:59Z`, `2026-01-06T00:00:00Z`, true},
		"fractions of another length":  {"a time", `"t":"2026-01-05T09:00:00.1Z"`, `"t":"2026-01-05T09:00:00.123456Z"`, true},
		"with a zone":                  {"a time", `2026-01-05T09:00:00+01:00!`, `2026-01-05T09:00:07+0100!`, true},
		"with a space":                 {"a time", `2026-01-05 09:00:00 ok`, `2026-01-05 09:00:01 ok`, true},
		"with slashes":                 {"a time of nginx", `2026/01/05 09:00:00 ok`, `2026/01/05 09:00:01 ok`, true},
		"with a comma":                 {"a time of Python's log", `2026-01-05 09:00:00,123 ok`, `2026-01-05 09:00:01,4 ok`, true},
		"compact":                      {"a time", `20260105T090000Z`, `20260105T090001Z`, true},
		"time alone":                   {"a time", `[09:00:00] ok`, `[10:12:13] ok`, true},
		"one digit of an hour":         {"a time", `9:00:00 AM`, `9:00:05 AM`, true},
		"RFC 1123":                     {"a time", `Mon, 05 Jan 2026 09:00:00 GMT`, `Mon, 05 Jan 2026 09:00:03 GMT`, true},
		"several":                      {"each is one", `from 09:00:00 to 09:00:01`, `from 09:00:02 to 09:00:03`, true},
		"seconds since 1970":           {"its name says so", `{"timestamp": 1767603600}`, `{"timestamp": 1767603601}`, true},
		"milliseconds since 1970":      {"its name says so", `{"updated_at":1767603600123}`, `{"updated_at":1767603601456}`, true},
		"of another name":              {"it may be an order's number", `{"order": 1767603600}`, `{"order": 1767603601}`, false},
		"without a name":               {"it may be anything", `1767603600`, `1767603601`, false},
		"a progress":                   {"3 of 5 and 4 of 5 is progress", `3 of 5`, `4 of 5`, false},
		"a percentage beside a time":   {"the percentage is progress", `09:00:00 50 %`, `09:00:01 51 %`, false},
		"hours and minutes":            {"it may be a ratio, or a verse", `12:30`, `12:31`, false},
		"a date alone":                 {"another day's data is other data", `2026-01-05: 7 orders`, `2026-01-06: 7 orders`, false},
		"a date in a longer number":    {"it is none", `12026-01-05T09:00:00`, `12026-01-06T09:00:00`, false},
		"an address of a network card": {"it is no time", `01:02:03:04:05:06`, `01:02:04:04:05:06`, false},
		"an address of the net":        {"it is no time", `10.0.0.1`, `10.0.0.2`, false},
		"a version":                    {"it is no time", `v1.2.3`, `v1.2.4`, false},
		"a time that names no time":    {"no hour has 99 minutes", `10:99:00`, `10:99:01`, false},
		"a time and nothing":           {"to be told no time is something else", `at 09:00:00`, `at `, false},
		"ends within a pattern":        {"nothing is read beyond the end", `2026-01-05T09:00:0`, `2026-01-05T09:00:1`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := withoutTimes(tc.a) == withoutTimes(tc.b); got != tc.same {
				t.Errorf("%q and %q: the same is %v (%q, %q): %s", tc.a, tc.b, got, withoutTimes(tc.a), withoutTimes(tc.b), tc.why)
			}
		})
	}
}

// A result has up to megabytes, and each is looked through once.
func BenchmarkWithoutTimes(b *testing.B) {
	for name, text := range map[string]string{
		"text": strings.Repeat("The quick brown fox jumps over the lazy dog. ", 1<<15), "digits": strings.Repeat("1234567890 12-34 ", 1<<16),
		"times": strings.Repeat("2026-01-05T09:00:00Z ok\n", 1<<15),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				withoutTimes(text)
			}
		})
	}
}
