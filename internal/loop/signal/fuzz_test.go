package signal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzScan(f *testing.F) {
	for _, c := range adversarial {
		if len(c.text) < 1<<10 {
			f.Add(c.text)
		}
	}
	f.Add(markdown()[:2<<10] + "TASK_COMPLETE: done")
	f.Fuzz(func(t *testing.T, text string) {
		got := Scan([]string{text})
		if again := Scan([]string{text}); again != got {
			t.Errorf("Scan gives %+v, then %+v", got, again)
		}
		if got.Kind != None && !mentionsToken(text) {
			t.Errorf("%+v without a token", got)
		}
		if got.Kind == None && got.Payload != "" {
			t.Errorf("payload %q without a signal", got.Payload)
		}
		checkPayload(t, text, got)
		checkSections(t, text)
		if left := Scan([]string{Strip(text)}); left.Kind != None {
			t.Errorf("Strip leaves %q, which signals %+v", Strip(text), left)
		}
		for _, mark := range []string{"`", "~"} {
			fence := strings.Repeat(mark, max(3, longestRun(text, mark[0])+1))
			if s := Scan([]string{fence + "\n" + text + "\n" + fence}); s.Kind != None {
				t.Errorf("fenced by %q it signals %+v", fence, s)
			}
		}
	})
}

// checkPayload tests that no line of a payload is made up. Only marks of emphasis may be missing.
func checkPayload(t *testing.T, text string, got Signal) {
	plain := strings.NewReplacer("*", "", "_", "")
	source := plain.Replace(text)
	for line := range strings.SplitSeq(got.Payload, "\n") {
		if !strings.Contains(source, plain.Replace(line)) {
			t.Errorf("payload line %q is not in the text", line)
		}
	}
}

// checkSections tests that to parse a text in sections finds the same lines as to parse it whole.
func checkSections(t *testing.T, text string) {
	type line struct {
		Kind  Kind
		Start int
	}
	source := normalizeLineEnds(strings.TrimPrefix(text, byteOrderMark))
	var all []tokenLine
	var inParts, inWhole []line
	for _, s := range sections(source) {
		if s.deep {
			return
		}
		for _, token := range parse([]byte(source[s.start:s.end]), s.tokens).tokens {
			inParts = append(inParts, line{token.kind, s.start + token.start})
		}
		for _, token := range s.tokens {
			all = append(all, token.shifted(s.start))
		}
	}
	for _, token := range parse([]byte(source), all).tokens {
		inWhole = append(inWhole, line{token.kind, token.start})
	}
	if diff := cmp.Diff(inWhole, inParts); diff != "" {
		t.Errorf("sections of %q (-whole +parts):\n%s", text, diff)
	}
}

func longestRun(text string, c byte) int {
	longest := 0
	for i := 0; i < len(text); i++ {
		n := runLength(text[i:], c)
		longest = max(longest, n)
		i += n
	}
	return longest
}
