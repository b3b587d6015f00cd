// Package docs holds what the pages say of the rest of this repository.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func glob(t *testing.T, patterns ...string) (paths []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: nothing found (%v)", pattern, err)
		}
		for _, path := range found {
			relative, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, relative)
		}
	}
	return paths
}

var namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`")

// A row of a table about a danger is worth as much as the test that holds it.
func TestEveryRowOfTheSecurityPageNamesATestThatExists(t *testing.T) {
	_, tables, found := strings.Cut(read(t, "docs/security.md"), "\n## Who may do what to whom\n")
	tables, _, ended := strings.Cut(tables, "\n## What is left to the cluster's admin\n")
	if !found || !ended {
		t.Fatal("docs/security.md has lost a section")
	}
	rows := 0
	for row := range strings.Lines(tables) {
		if !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| try |") {
			continue
		}
		rows++
		tests := namedTest.FindAllStringSubmatch(row, -1)
		if len(tests) == 0 {
			t.Errorf("no test holds %q", row)
		}
		for _, test := range tests {
			if !exists(t, test[1], test[2]) {
				t.Errorf("docs/security.md names %s of %s, which does not exist", test[2], test[1])
			}
		}
	}
	if rows < 30 {
		t.Errorf("found %d rows only", rows)
	}
}

// exists tells whether a folder has a test.
func exists(t *testing.T, folder, test string) bool {
	for _, file := range glob(t, folder+"/*_test.go") {
		if strings.Contains(read(t, file), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}

func TestLinksBetweenPagesLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s:#]+)(?:#[^)\s]*)?\)`)
	for _, page := range glob(t, "*.md", "docs/*.md", "docs/adr/*.md") {
		if page == "docs/api.md" {
			continue // generated, and its patterns look like links
		}
		for _, to := range link.FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), to[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, to[1])
			}
		}
	}
}
