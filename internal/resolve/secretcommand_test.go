package resolve

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

// The command is at the end of a message, so that it can be taken from there and run.
func TestTheCommandThatAllowsASecretAddsAHost(t *testing.T) {
	const hosts = "api.openai.com,*.corp.example"
	secret := keySecret()
	secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: hosts}
	r := newRig(t, interceptor.Funcs{}, secret)
	var w *Waiting
	if err := (user{address: "https://api.example.com/v1", auth: auth}).resolve(r)["AgentModel"]; !errors.As(err, &w) {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(w.Message, "run: ")

	// A kubectl that notes its arguments, and knows the annotation.
	bin := t.TempDir()
	calls := filepath.Join(bin, "calls")
	fake := "#!/bin/sh\nprintf '%s\\n' \"$@\" >>'" + calls + "'\n[ \"$1\" != get ] || printf %s '" + hosts + "'\n"
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", command)
	shell.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	if out, err := shell.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%s: %s, %v", command, out, err)
	}
	got, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	const path = `{.metadata.annotations.agentloop\.dev/allowed-hosts}`
	want := []string{
		"get", "secret", "s", "-n", "ns", "-o", "jsonpath=" + path,
		"annotate", "secret", "s", "-n", "ns", "--overwrite", "agentloop.dev/allowed-hosts=" + hosts + ",api.example.com",
	}
	if diff := cmp.Diff(want, strings.Fields(string(got))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := at(t, path, secret); got != hosts {
		t.Errorf("kubectl's path finds %q", got)
	}
}

// at is what kubectl prints of an object for a JSONPath.
func at(t *testing.T, path string, object any) string {
	t.Helper()
	query := jsonpath.New("")
	if err := query.Parse(path); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := query.Execute(&out, fields); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
