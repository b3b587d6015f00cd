package loop

import (
	"strings"
	"testing"
)

// The reason for a denial is cut where it is repeated, and says so; the answer itself stays whole.
func TestALongDenialIsCut(t *testing.T) {
	q := &Question{Asked: Asked{ID: "q", Kind: QuestionApproval, CallIDs: []string{"a", "b"}}}
	for name, c := range map[string]struct{ input, begins, ends string }{
		"short":          {"deny: not on a Friday", "not on a Friday", "not on a Friday"},
		"any other text": {strings.Repeat("🙂", 65536), "🙂🙂", "🙂\n[cut: 262144 bytes in all]"},
		"after the verb": {"approve a\ndeny b: " + strings.Repeat("because ", 8000), "because because", "\n[cut: 63999 bytes in all]"},
	} {
		t.Run(name, func(t *testing.T) {
			a, ok := answerTo(q, &Spec{ResumeInput: c.input, ResumeInputID: "q"})
			if !ok || a.Text != c.input || len(a.Denied) == 0 {
				t.Fatalf("%d calls are denied, and %d bytes of text are kept", len(a.Denied), len(a.Text))
			}
			why := a.DenyReason
			if !strings.HasPrefix(why, c.begins) || !strings.HasSuffix(why, c.ends) || jsonBytes(why) > maxReasonGiven {
				t.Errorf("the reason has %d bytes and ends with %q", len(why), why[max(0, len(why)-40):])
			}
		})
	}
}
