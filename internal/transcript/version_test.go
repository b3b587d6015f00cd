package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// The steps are tried with versions that exist only here.
func TestOlderVersionsAreUpgradedStepByStep(t *testing.T) {
	rename := func(from, to, next string) upgrade {
		return func(line []byte) ([]byte, error) {
			line = bytes.Replace(line, []byte(from), []byte(to), 1)
			return bytes.Replace(line, []byte(`"v":`), []byte(`"v":`+next+`,"was":`), 1), nil
		}
	}
	s := schema{version: 7, upgrades: map[int]upgrade{
		5: rename(`"prod"`, `"poke"`, "6"),
		6: rename(`"poke"`, `"nudged"`, "7"),
		3: func([]byte) ([]byte, error) { return nil, fmt.Errorf("no text") },
		2: func([]byte) ([]byte, error) { return []byte("{"), nil },
	}}
	const format = `{"v":%d,"seq":1,"time":"2026-03-04T05:06:07Z","kind":"Nudged","%s":{"text":"go on"}}`
	for name, tc := range map[string]struct {
		why     string
		version int
		field   string
		want    error
	}{
		"this version":       {"no step", 7, "nudged", nil},
		"one older":          {"one step", 6, "poke", nil},
		"two older":          {"all steps, in order", 5, "prod", nil},
		"step is missing":    {"a hole in the table must not be jumped", 4, "prod", ErrCorrupt},
		"step fails":         {"the event is not what its version says", 3, "prod", ErrCorrupt},
		"step gives no JSON": {"the result is checked like any line", 2, "prod", ErrCorrupt},
		"newer":              {"it cannot be known", 8, "nudged", ErrNewerVersion},
		"negative":           {"it never was", -1, "nudged", ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.why)
			e, err := s.decode(fmt.Appendf(nil, format, tc.version, tc.field))
			if tc.want != nil {
				if !errors.Is(err, tc.want) {
					t.Errorf("want %q, got %v", tc.want, err)
				}
				return
			}
			if err != nil || e.Nudged.Text != "go on" {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
}

func TestAnEventCountsFromOne(t *testing.T) {
	for seq, want := range map[int]error{-1: ErrCorrupt, 0: ErrCorrupt, 1: nil} {
		line := fmt.Appendf(nil, `{"v":1,"seq":%d,"time":"2026-03-04T05:06:07Z","kind":"Suspended"}`, seq)
		if _, err := decode(line); !errors.Is(err, want) {
			t.Errorf("seq %d: want %v, got %v", seq, want, err)
		}
	}
}

func TestEveryOlderVersionHasAnUpgrade(t *testing.T) {
	for v := 1; v < current.version; v++ {
		if current.upgrades[v] == nil {
			t.Errorf("journals of schema version %d do not load any more", v)
		}
	}
}
