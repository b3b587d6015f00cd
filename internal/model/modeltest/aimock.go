package modeltest

import (
	"os"
	"path/filepath"
	"testing"
)

// Aimock starts aimock, an independently written server of several APIs, in strict mode with the fixtures of a JSON text. It
// takes no other key than CanaryKey. The result is its URL.
func Aimock(t testing.TB, fixtures string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fixtures.json")
	if err := os.WriteFile(file, []byte(fixtures), 0o600); err != nil {
		t.Fatal(err)
	}
	return "http://" + StartNode(t, NodeServer{
		Script: "@copilotkit/aimock/dist/cli.js",
		Args:   []string{"--port", "$PORT", "--fixtures", file, "--strict"},
		Env:    []string{"AIMOCK_API_KEYS=" + CanaryKey},
	})
}
