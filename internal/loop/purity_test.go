package loop_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The loop knows no Kubernetes, no provider and no tool protocol: it can be tested and read without them.
func TestPurity(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".", "./signal", "./eval").CombinedOutput() // looptest is for tests alone
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	forbidden := []string{"k8s.io/", "sigs.k8s.io/", "github.com/openai/", "github.com/anthropics/", "google.golang.org/genai", "github.com/modelcontextprotocol/", "net/http"}
	own := []string{"github.com/agentloop-dev/agenttask-operator/internal/", "github.com/agentloop-dev/agenttask-operator/api/"}
	for _, dep := range strings.Fields(string(out)) {
		for _, f := range forbidden {
			if strings.HasPrefix(dep, f) {
				t.Errorf("the loop depends on %s", dep)
			}
		}
		for _, o := range own {
			if strings.HasPrefix(dep, o) && !strings.HasPrefix(dep, own[0]+"loop") {
				t.Errorf("the loop depends on %s", dep)
			}
		}
	}
}
