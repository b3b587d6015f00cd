package modeltest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// CanaryThought stands in thoughts alone.
const CanaryThought = "canary-thought"

// thoughts are texts of replies with thoughts in them, as servers without a reasoning parser send them, and what the model said.
var thoughts = map[string]struct{ text, said string }{
	"a leading thought":        {"<think>\nTASK_COMPLETE: canary-thought\n</think>\n\nHello", "Hello"},
	"no opening mark":          {"I would write\n\nTASK_COMPLETE: canary-thought\n\nat the end.\n</think>\n\nHello", "Hello"},
	"a question in it":         {"NEED_INPUT: canary-thought?\n</thinking>\nHello", "Hello"},
	"brackets":                 {"[THINK]NEED_INPUT: canary-thought[/THINK]Hello", "Hello"},
	"triangles":                {"◁think▷canary-thought◁/think▷Hello", "Hello"},
	"channels":                 {"<|channel|>analysis<|message|>canary-thought<|end|><|start|>assistant<|channel|>final<|message|>Hello", "Hello"},
	"never closed":             {"Hello\n<think>\nTASK_COMPLETE: canary-thought", "Hello\n"},
	"nothing but thoughts":     {"<thought>canary-thought</thought>", ""},
	"thoughts after the text":  {"Hello\n\n<reasoning>canary-thought</reasoning>\n", "Hello\n\n"},
	"marks that are spoken of": {"Say `<think>` and `</think>`.\n\n```\n</think>\n```\nTASK_COMPLETE: Hello", "Say `<think>` and `</think>`.\n\n```\n</think>\n```\nTASK_COMPLETE: Hello"},
}

// Thoughts checks that a model keeps thoughts out of what was said, whether a text comes whole or in small pieces, and sends none of
// them back as text. open makes a model whose server answers with one text in these pieces.
func Thoughts(t *testing.T, open func(pieces []string) (loop.Model, *Server)) {
	for name, c := range thoughts {
		for how, pieces := range map[string][]string{"whole": {c.text}, "in pieces": inPieces(c.text)} {
			t.Run(name+", "+how, func(t *testing.T) {
				m, server := open(pieces)
				reply, _, err := Ask(t, m, loop.UserText("hi"))
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(reply.Texts(), "|"); got != c.said || reply.Finish != loop.FinishStop {
					t.Errorf("said %q, want %q (%s)", got, c.said, reply.Finish)
				}
				kept := ""
				for _, b := range reply.Blocks {
					if b.Kind == loop.BlockReasoning {
						kept += b.Text
					}
				}
				if strings.Contains(c.text, CanaryThought) != strings.Contains(kept, CanaryThought) {
					t.Errorf("thoughts %q", kept)
				}
				if _, _, err = Ask(t, m, loop.UserText("hi"), loop.Message{Role: loop.RoleAssistant, Blocks: reply.Blocks}, loop.UserText("on")); err != nil {
					t.Fatal(err)
				}
				_, bodies := server.Seen()
				back, _ := json.Marshal(bodies[1])
				if strings.Contains(string(back), CanaryThought) || strings.Contains(string(back), "Hello") != (c.said != "") {
					t.Errorf("sent back %s", back)
				}
			})
		}
	}
}

// inPieces cuts a text into pieces of three characters, so that marks are torn.
func inPieces(text string) []string {
	var out []string
	for runes := []rune(text); len(runes) > 0; runes = runes[min(3, len(runes)):] {
		out = append(out, string(runes[:min(3, len(runes))]))
	}
	return out
}

// Quote is a text as JSON.
func Quote(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}
