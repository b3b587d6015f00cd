package docs

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// A tag or a version may mean something else tomorrow, a hash may not.
func TestWhatIsDownloadedIsPinnedByItsHash(t *testing.T) {
	pinned := regexp.MustCompile(`@sha256:[0-9a-f]{64}( |$)`)
	bases := 0
	for line := range strings.Lines(read(t, "Dockerfile")) {
		if base, ok := strings.CutPrefix(strings.TrimSpace(line), "FROM "); ok {
			bases++
			if !pinned.MatchString(base) {
				t.Errorf("Dockerfile takes %s: name its digest", base)
			}
		}
	}
	var lock struct {
		Packages map[string]struct{ Integrity string }
	}
	if err := json.Unmarshal([]byte(read(t, "hack/npm/package-lock.json")), &lock); err != nil {
		t.Fatal(err)
	}
	for path, p := range lock.Packages {
		if path != "" && !strings.HasPrefix(p.Integrity, "sha512-") {
			t.Errorf("package-lock.json has no hash of %s", path)
		}
	}
	if bases < 2 || len(lock.Packages) < 100 {
		t.Errorf("looked at %d bases and %d npm packages only", bases, len(lock.Packages))
	}
	// Of a module that a go.mod names, go.sum has the hash.
	unpinned := regexp.MustCompile(`\bgo (run|install) [^\n]*@`)
	for _, file := range glob(t, "Makefile", ".ci/run", "hack/*.sh", "hack/*/*.sh", "charts/*.sh") {
		if found := unpinned.FindString(read(t, file)); found != "" {
			t.Errorf("%s has %s: make it a tool of hack/tools", file, found)
		}
	}
}
