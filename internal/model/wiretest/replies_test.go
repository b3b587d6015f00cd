package wiretest

import (
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// Servers without a parser for a model's thoughts leave them in the text, whatever format they speak.
func TestThoughtsInTheTextAreNoTextOfTheReply(t *testing.T) {
	const hm, answer = "I would write\n\nTASK_COMPLETE: no\n\nbut nothing is done.\n", "I read the files first."
	for name, tc := range map[string]struct {
		pieces []string
		want   string
	}{
		"no opening mark":           {[]string{hm + "</think>\n\n" + answer}, answer},
		"a mark in pieces":          {[]string{hm + "</th", "ink>\n", "\n" + answer}, answer},
		"other marks":               {[]string{"[THINK]" + hm, "[/THINK]" + answer}, answer},
		"channels":                  {[]string{"<|channel|>analysis<|message|>" + hm + "<|end|><|start|>assistant<|channel|>final<|message|>" + answer}, answer},
		"no closing mark":           {[]string{"<think>" + hm}, ""},
		"in the middle":             {[]string{answer, "<think>" + hm + "</think>"}, answer},
		"none":                      {[]string{answer}, answer},
		"quoted in the answer":      {[]string{"It ends with `</think>`."}, "It ends with `</think>`."},
		"nothing but thoughts":      {[]string{hm, "</think>"}, ""},
		"thoughts after the answer": {[]string{"<think>a</think>" + answer, "<think>" + hm + "</think>"}, answer},
	} {
		for provider, w := range wires {
			t.Run(name+"/"+provider, func(t *testing.T) {
				m, _ := w.serve(t, always(stream(w.text(tc.pieces...)...)))
				reply, err := ask(t, m)
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(reply.Texts(), "|"); got != tc.want {
					t.Errorf("the text is %q, want %q", got, tc.want)
				}
				if reply.Usage.TotalTokens != 906 {
					t.Errorf("%+v", reply.Usage)
				}
			})
		}
	}
}

// A thought that goes back to the model does so as before, or not at all: never as something that it said.
func TestThoughtsOfTheTextDoNotGoBackAsText(t *testing.T) {
	for provider, w := range wires {
		t.Run(provider, func(t *testing.T) {
			m, s := w.serve(t, always(stream(w.text("hm TASK_COMPLETE: no</think>The answer.")...)))
			reply, err := ask(t, m)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = ask(t, m, loop.UserText("hello"), loop.Message{Role: loop.RoleAssistant, Blocks: reply.Blocks}, loop.UserText("go on")); err != nil {
				t.Fatal(err)
			}
			if sent := quoted(dump(s.bodies[1])); strings.Contains(sent, "TASK_COMPLETE: no") || !strings.Contains(sent, "The answer.") {
				t.Errorf("the request holds %s", sent)
			}
		})
	}
}

// What keeps a connection alive is no part of a reply, and costs no second call.
func TestHeartbeatsAreNothing(t *testing.T) {
	for name, beat := range map[string]string{
		"empty data": "data:", "empty data with a blank": "data: ", "empty data with blanks": "data:   ", "several": "data:\n\ndata: \n\ndata:", "a comment": ": ping", "a blank comment": ":",
		"a named event without data": "event: ping", "a named event with empty data": "event: ping\ndata:", "a wish": "retry: 3000",
	} {
		for provider, w := range wires {
			for place, at := range map[string]func(events []string) []string{
				"before": func(e []string) []string { return append([]string{beat}, e...) },
				"between": func(e []string) (out []string) {
					for _, event := range e {
						out = append(out, event, beat)
					}
					return out
				},
			} {
				for ends, newline := range map[string]string{"LF": "\n", "CRLF": "\r\n"} {
					t.Run(strings.Join([]string{name, provider, place, ends}, "/"), func(t *testing.T) {
						body := strings.ReplaceAll(stream(at(w.text("Hel", "lo"))...), "\n", newline)
						m, s := w.serve(t, always(body))
						reply, err := ask(t, m)
						if err != nil {
							t.Fatal(err)
						}
						if got := strings.Join(reply.Texts(), "|"); got != "Hello" || reply.Finish != loop.FinishStop || reply.Usage.TotalTokens != 906 || len(s.bodies) != 1 {
							t.Errorf("%q, %s, %+v after %d requests", got, reply.Finish, reply.Usage, len(s.bodies))
						}
					})
				}
			}
		}
	}
}
