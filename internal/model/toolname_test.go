package model_test

import (
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

func TestToolNamesAreMadeAcceptable(t *testing.T) {
	long := strings.Repeat("x", 64)
	cases := map[string]struct{ name, want string }{
		"as providers want it":  {"fs_read-2", "fs_read-2"},
		"other characters":      {"fs.read file", "fs_read_file"},
		"other letters":         {"größe", "gr_e"},
		"none":                  {"", "unknown"},
		"the longest":           {long, long},
		"too long":              {long + "y", long},
		"too long and unusual":  {"é" + long, "_" + long[1:]},
		"nothing of it is left": {"??", "_"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := model.AcceptableToolName(c.name); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
