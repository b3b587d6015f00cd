package gitops

import (
	"os"
	"strings"
	"testing"
)

// People copy from the page, so what it shows must be what was tested.
func TestDocsShowTheTestedRecipes(t *testing.T) {
	page, err := os.ReadFile("../../../docs/gitops.md")
	if err != nil {
		t.Fatal(err)
	}
	// The page indents a recipe to where it belongs in its manifest.
	var flat strings.Builder
	for line := range strings.Lines(string(page)) {
		flat.WriteString(strings.TrimLeft(line, " "))
	}
	for _, file := range []string{"argocd-agenttask.lua", "argocd-ready.lua", "flux-health-check-exprs.yaml"} {
		recipe, err := os.ReadFile("../../../hack/gitops/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for line := range strings.Lines(string(recipe)) {
			want.WriteString(strings.TrimLeft(line, " "))
		}
		if !strings.Contains(flat.String(), want.String()) {
			t.Errorf("docs/gitops.md does not show hack/gitops/%s as it is", file)
		}
	}
}
