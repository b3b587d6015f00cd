package envtest

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/harness"
)

// recipe writes the EncryptionConfiguration of docs/security.md to a file, with a key.
func recipe(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\napiVersion: apiserver.config.k8s.io/v1\n")
	text, _, found := strings.Cut(rest, "```")
	key := make([]byte, 32)
	rand.Read(key)
	filled := strings.Replace(text, "KEY", base64.StdEncoding.EncodeToString(key), 1)
	if !found || filled == text {
		t.Fatal("docs/security.md has no EncryptionConfiguration with a KEY to fill in")
	}
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: apiserver.config.k8s.io/v1\n"+filled), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// pair is a task and a segment of a journal.
func pair(name string) map[string]client.Object {
	meta, index := metav1.ObjectMeta{Namespace: "default", Name: name}, int32(0)
	return map[string]client.Object{
		"agenttasks": &v1alpha1.AgentTask{ObjectMeta: meta, Spec: v1alpha1.AgentTaskSpec{Prompt: "Do " + name}},
		"agenttranscripts": &v1alpha1.AgentTranscript{ObjectMeta: meta, Segment: v1alpha1.AgentTranscriptSegment{
			TaskName: name, TaskUID: name, Index: &index, FirstSeq: 1, LastSeq: 1, Encoding: "zstd/jsonl", Data: []byte(name),
		}},
	}
}

// The recipe of docs/security.md: what is written from then on is encrypted in etcd, and what is older once it is written again as it is.
func TestTheRecipeEncryptsTasksAndTranscriptsAtRest(t *testing.T) {
	c := harness.Start(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	older, newer := pair("older"), pair("newer")
	must(c.Create(t.Context(), slices.Collect(maps.Values(older))...))
	must(c.RestartAPIServer(t.Context(), 0, "--encryption-provider-config="+recipe(t)))
	must(c.Create(t.Context(), slices.Collect(maps.Values(newer))...))
	for kind, object := range older {
		beginsWith := func(name, want string) {
			t.Helper()
			stored, err := c.Stored(t.Context(), kind+"/default/"+name)
			must(err)
			for key, value := range stored {
				if !bytes.HasPrefix(value, []byte(want)) {
					t.Errorf("%s is stored as %q, and does not begin with %q", key, value, want)
				}
			}
			if len(stored) != 1 {
				t.Errorf("etcd holds %d of %s", len(stored), name)
			}
		}
		const clear, encrypted = `{"apiVersion":"agentloop.dev`, "k8s:enc:secretbox:v1:key1:"
		beginsWith("older", clear)
		beginsWith("newer", encrypted)
		must(c.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		must(c.Client.Update(t.Context(), object))
		beginsWith("older", encrypted)
		must(c.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}
}
