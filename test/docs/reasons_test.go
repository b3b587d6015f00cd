package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// constants are the values of the string constants of a type in a folder's files.
func constants(t *testing.T, folder, typeName string) (out []string) {
	t.Helper()
	each(t, folder, func(n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return
		}
		if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != typeName {
			return
		}
		for _, v := range spec.Values {
			if text, ok := literal(v); ok {
				out = append(out, text)
			}
		}
	})
	if len(out) == 0 {
		t.Fatalf("%s has no constants of type %s", folder, typeName)
	}
	slices.Sort(out)
	return out
}

// each walks the files of a folder that are no tests.
func each(t *testing.T, folder string, visit func(ast.Node)) {
	t.Helper()
	for _, path := range glob(t, folder+"/*.go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, read(t, path), 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			visit(n)
			return true
		})
	}
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// An exit reason is in nine places. A new one is not done before it is in all of them.
func TestEveryExitReasonIsInEveryTable(t *testing.T) {
	reasons := constants(t, "api/v1alpha1", "LoopExitReason")
	if loop := constants(t, "internal/loop", "ExitReason"); !slices.Equal(reasons, loop) {
		t.Errorf("the API has %q, the loop %q", reasons, loop)
	}
	comment := read(t, "docs/api.md")
	for _, reason := range reasons {
		r := v1alpha1.LoopExitReason(reason)
		if !strings.Contains(comment, reason+":") {
			t.Errorf("the comment of status.exitReason does not tell of %s", reason)
		}
		if r.SharedName() == "" || r.Phase() == v1alpha1.PhaseRunning {
			t.Errorf("%s has the shared name %q and phase %s", reason, r.SharedName(), r.Phase())
		}
		for page, as := range map[string]string{
			"README.md": "| `" + reason + "` |", "docs/design.md": "`" + reason + "`", "docs/observability.md": "`" + r.SharedName() + "`",
		} {
			if !strings.Contains(read(t, page), as) {
				t.Errorf("%s does not have %s", page, as)
			}
		}
		if r.Phase() == v1alpha1.PhaseNeedsInput { // a pause, not an end
			continue
		}
		if !strings.Contains(read(t, "hack/gitops/phases/main.go"), "loop.Exit"+reason) {
			t.Errorf("hack/gitops does not try %s", reason)
		}
		if !strings.Contains(read(t, "internal/telemetry/genai.go"), "v1alpha1.Exit"+reason+":") {
			t.Errorf("internal/telemetry has no agent finish reason for %s", reason)
		}
	}
}

// The table of packages names every package, and what it imports of ours, no less and no more.
func TestTheTableOfPackagesIsTrue(t *testing.T) {
	const module = "github.com/agentloop-dev/agenttask-operator/"
	named := regexp.MustCompile("`([a-z0-9/-]+)`")
	rows := map[string]string{}
	for row := range strings.Lines(read(t, "CONTRIBUTING.md")) {
		if cells := strings.Split(row, "|"); len(cells) == 5 {
			if folder := named.FindStringSubmatch(cells[1]); folder != nil {
				rows[folder[1]] = cells[3]
			}
		}
	}
	imports := map[string]map[string]bool{}
	for _, pattern := range []string{"api/*", "internal/*", "internal/*/*", "pkg/*", "cmd/*", "config/*"} {
		for _, path := range glob(t, pattern+"/*.go") {
			folder := filepath.ToSlash(filepath.Dir(path))
			if imports[folder] == nil {
				imports[folder] = map[string]bool{}
			}
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, read(t, path), parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range file.Imports {
				if text, _ := literal(in.Path); strings.HasPrefix(text, module) {
					imports[folder][strings.TrimPrefix(text, module)] = true
				}
			}
		}
	}
	for folder, uses := range imports {
		cell, ok := rows[folder]
		if !ok {
			t.Errorf("CONTRIBUTING.md does not tell of %s", folder)
			continue
		}
		told := map[string]bool{}
		for _, m := range named.FindAllStringSubmatch(cell, -1) {
			told[m[1]] = true
		}
		for used := range uses {
			if !told[used] && !strings.Contains(cell, "any of the above") {
				t.Errorf("%s imports %s, which CONTRIBUTING.md does not tell", folder, used)
			}
		}
		for name := range told {
			if !uses[name] {
				t.Errorf("CONTRIBUTING.md tells that %s imports %s, which it does not", folder, name)
			}
		}
	}
}

// Who reads a reason in a condition finds what to do about it.
func TestEveryReasonThatATaskCanWaitForIsDocumented(t *testing.T) {
	page := read(t, "docs/observability.md")
	reasons := constants(t, "internal/loop", "Cause")
	each(t, "internal/controller", func(n ast.Node) {
		pair, ok := n.(*ast.KeyValueExpr)
		if key, is := nameOf(pair, ok); !is || key != "Reason" {
			return
		}
		if text, ok := literal(pair.Value); ok && text != "" {
			reasons = append(reasons, text)
		}
	})
	slices.Sort(reasons)
	for _, reason := range slices.Compact(reasons) {
		if !strings.Contains(page, "`"+reason+"`") {
			t.Errorf("docs/observability.md does not tell of %s", reason)
		}
	}
}

func nameOf(pair *ast.KeyValueExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	key, is := pair.Key.(*ast.Ident)
	if !is {
		return "", false
	}
	return key.Name, true
}
