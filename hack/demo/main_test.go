package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWithoutKubectlItIsSaidWhereOneIs(t *testing.T) {
	empty, full := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "kubectl"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, assets, want string }{
		{full, empty, ""},
		{empty, full, `export PATH="` + full + `:$PATH"`},
		{empty, empty, `export PATH="$(hack/controlplane/ensure.sh kubectl):$PATH"`},
	} {
		t.Setenv("PATH", tt.path)
		if got := kubectlHint(tt.assets); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("got %q, want it to say %q", got, tt.want)
		}
	}
}
