package gitops

import (
	"os"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// health runs a script as Argo CD does: gopher-lua with the base and table libraries alone, the object in `obj`.
func health(t *testing.T, file string, object map[string]any) (status, message string) {
	t.Helper()
	script, err := os.ReadFile("../../../hack/gitops/" + file)
	if err != nil {
		t.Fatal(err)
	}
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	l.SetGlobal("obj", luaValue(l, object))
	if err := l.DoString(string(script)); err != nil {
		t.Fatal(err)
	}
	result, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("%s returned %s, not a table", file, l.Get(-1).Type())
	}
	return lua.LVAsString(result.RawGetString("status")), lua.LVAsString(result.RawGetString("message"))
}

func luaValue(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, value := range v {
			table.RawSetString(key, luaValue(l, value))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, value := range v {
			table.Append(luaValue(l, value))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	}
	return lua.LNil
}

func TestArgoCDSeesEveryPhase(t *testing.T) {
	for name, s := range stages {
		t.Run(name, func(t *testing.T) {
			status, message := health(t, "argocd-agenttask.lua", object(t, name).Object)
			if status != s.argo {
				t.Errorf("health is %s, want %s", status, s.argo)
			}
			if message == "" {
				t.Error("health has no message")
			}
		})
	}
}

func TestArgoCDShowsTheQuestionAndTheExitReason(t *testing.T) {
	if _, message := health(t, "argocd-agenttask.lua", object(t, "asks a question").Object); message != "Which region?" {
		t.Errorf("the message is %q, not the question", message)
	}
	if _, message := health(t, "argocd-agenttask.lua", object(t, "TokenBudgetExceeded").Object); !strings.HasPrefix(message, "TokenBudgetExceeded: ") {
		t.Errorf("the message is %q, without the exit reason", message)
	}
}

func TestArgoCDWaitsForTheOperator(t *testing.T) {
	deleted := object(t, "Completed")
	if err := unstructured.SetNestedField(deleted.Object, "2026-01-01T12:00:00Z", "metadata", "deletionTimestamp"); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*unstructured.Unstructured{
		"a task that was never seen":            fresh(t),
		"a finished task that was edited since": stale(t, "Completed"),
		"a failed task that was edited since":   stale(t, "Error"),
		"a task that is being deleted":          deleted,
	} {
		if status, _ := health(t, "argocd-agenttask.lua", o.Object); status != "Progressing" {
			t.Errorf("%s is %s, want Progressing", name, status)
		}
	}
}

// A phase that this script does not know must not pass for healthy.
func TestArgoCDTakesAnUnknownPhaseForUnknown(t *testing.T) {
	o := object(t, "Completed")
	if err := unstructured.SetNestedField(o.Object, "Dreaming", "status", "phase"); err != nil {
		t.Fatal(err)
	}
	if status, _ := health(t, "argocd-agenttask.lua", o.Object); status != "Unknown" {
		t.Errorf("health is %s, want Unknown", status)
	}
}

func TestArgoCDSeesModelsAndToolsets(t *testing.T) {
	withReady := func(ready string, generation int64) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"generation": generation},
			"status": map[string]any{
				"observedGeneration": int64(2),
				"conditions":         []any{map[string]any{"type": "Ready", "status": ready, "message": "It says why."}},
			},
		}
	}
	for _, tt := range []struct {
		name   string
		object map[string]any
		want   string
	}{
		{"ready", withReady("True", 2), "Healthy"},
		{"secret missing", withReady("False", 2), "Degraded"},
		{"not known yet", withReady("Unknown", 2), "Progressing"},
		{"edited since", withReady("True", 3), "Progressing"},
		{"never seen", map[string]any{"metadata": map[string]any{"generation": int64(1)}}, "Progressing"},
	} {
		if got, _ := health(t, "argocd-ready.lua", tt.object); got != tt.want {
			t.Errorf("%s: health is %s, want %s", tt.name, got, tt.want)
		}
	}
}
