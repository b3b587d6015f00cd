package controller

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop/looptest"
	"github.com/agentloop-dev/agenttask-operator/internal/model/egress"
)

// The API server refuses these, but not in objects that are older than the rule.
func TestAToolsetWithAMistakeIsInvalidAndNotAway(t *testing.T) {
	tests := map[string]struct {
		reason string
		spec   v1alpha1.AgentToolsetSpec
		want   string
	}{
		"Allow":         {"an allow that matches nothing would leave the task without tools", v1alpha1.AgentToolsetSpec{Allow: []string{"get_["}}, `spec.allow: glob "get_["`},
		"Deny":          {"a deny that matches nothing would let tools through", v1alpha1.AgentToolsetSpec{Deny: []string{"[]"}}, `spec.deny: glob "[]"`},
		"ApprovalTools": {"and so would this let calls run", v1alpha1.AgentToolsetSpec{ApprovalTools: []string{"[a"}}, `spec.approvalTools: glob "[a"`},
		"Credentials":   {"a URL is no place for a password", v1alpha1.AgentToolsetSpec{URL: "https://me:secret@t/mcp"}, "the URL must not carry credentials: use credentialsRef or headers"},
		"MissingSecret": {"a mistake is told before the Secret is looked for", v1alpha1.AgentToolsetSpec{Allow: []string{"["}, CredentialsRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"}}, `glob "["`},
		"Transport":     {"nothing that is spoken", v1alpha1.AgentToolsetSpec{Transport: "stdio"}, "write StreamableHTTP or SSE"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := NewModels(nil, nil, &egress.Guard{}, types.NamespacedName{}, looptest.NewClock())
			set := &v1alpha1.AgentToolset{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "ops", UID: "1", Generation: 1}, Spec: tc.spec}
			if set.Spec.URL == "" {
				set.Spec.URL = "https://tools.example.com/mcp"
			}
			_, _, err := m.toolset(t.Context(), set)
			var w *Waiting
			if !errors.As(err, &w) || w.Reason != "ToolsetInvalid" || !strings.Contains(w.Message, `AgentToolset "ops" cannot be used: `) || !strings.Contains(w.Message, tc.want) {
				t.Errorf("%s: got %#v, want it to wait with ToolsetInvalid and to say %q", tc.reason, err, tc.want)
			}
		})
	}
}
