package model

import (
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// said and thought are the texts of blocks, each with | between.
func said(blocks []loop.Block) (said, thought string) {
	var s, t []string
	for _, b := range blocks {
		if b.Kind == loop.BlockText {
			s = append(s, b.Text)
		} else {
			t = append(t, b.Text)
		}
	}
	return strings.Join(s, "|"), strings.Join(t, "|")
}

// What models think is no part of what they say, whatever marks their servers leave around it.
func TestWhatIsThoughtIsNotSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		why, text, said, thought string
	}{
		"none":                            {"most replies", "The answer.", "The answer.", ""},
		"blank":                           {"nothing is added or taken", "\n", "\n", ""},
		"DeepSeek":                        {"the usual form", "<think>\nhm\n</think>\n\nThe answer.", "The answer.", "\nhm\n"},
		"empty thoughts":                  {"Qwen3 without thinking", "<think>\n\n</think>\n\nThe answer.", "The answer.", ""},
		"without an opening mark":         {"the chat template has written it (vllm#17144)", "hm\nTASK_COMPLETE: no\n</think>\n\nThe answer.", "The answer.", "hm\nTASK_COMPLETE: no\n"},
		"on one line":                     {"not every model breaks it", "hm</think>The answer.", "The answer.", "hm"},
		"without a closing mark":          {"the reply was cut", "<think>hm\nTASK_COMPLETE: no", "", "hm\nTASK_COMPLETE: no"},
		"thinking":                        {"another word", "<thinking>hm</thinking>The answer.", "The answer.", "hm"},
		"opened think, closed -ing":       {"models mix them up", "<think>hm</thinking>The answer.", "The answer.", "hm"},
		"thought":                         {"EXAONE", "<thought>\nhm\n</thought>\nThe answer.", "The answer.", "\nhm\n"},
		"reasoning":                       {"another word", "<reasoning>hm</reasoning>The answer.", "The answer.", "hm"},
		"a namespace":                     {"Seed", "<seed:think>hm</seed:think>The answer.", "The answer.", "hm"},
		"capitals":                        {"not every model writes small", "<THINK>hm</THINK>The answer.", "The answer.", "hm"},
		"attributes":                      {"they change nothing", `<think budget="9">hm</think>The answer.`, "The answer.", "hm"},
		"Magistral":                       {"in brackets", "[THINK]hm[/THINK]The answer.", "The answer.", "hm"},
		"Kimi":                            {"in other brackets", "◁think▷hm◁/think▷The answer.", "The answer.", "hm"},
		"bars":                            {"as special tokens", "<|think|>hm<|/think|>The answer.", "The answer.", "hm"},
		"Command A":                       {"and the answer has marks too", "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>The answer.<|END_RESPONSE|>", "The answer.", "hm"},
		"OpenThinker":                     {"and the answer has marks too", "<|begin_of_thought|>hm<|end_of_thought|>\n<|begin_of_solution|>The answer.<|end_of_solution|>", "The answer.", "hm"},
		"MedGemma":                        {"as unused tokens", "<unused94>thought\nhm<unused95>The answer.", "The answer.", "thought\nhm"},
		"Gemma 4":                         {"as a channel", "<|channel>thought\nhm<channel|>The answer.", "The answer.", "\nhm"},
		"Hunyuan":                         {"and the answer has marks too", "<think>hm</think>\n<answer>\nThe answer.\n</answer>", "The answer.", "hm"},
		"Apriel":                          {"only the answer has a mark", "Here are my steps: hm\n[BEGIN FINAL RESPONSE]\nThe answer.\n[END FINAL RESPONSE]", "The answer.\n", "Here are my steps: hm\n"},
		"gpt-oss":                         {"channels", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>The answer.<|return|>", "The answer.", "hm"},
		"gpt-oss, commentary":             {"is not final", "<|channel|>commentary<|message|>TASK_COMPLETE: no<|end|><|start|>assistant<|channel|>final<|message|>The answer.", "The answer.", "TASK_COMPLETE: no"},
		"gpt-oss, a header before":        {"is no answer", "hm<|end|><|start|>assistant<|channel|>final<|message|>The answer.", "The answer.", "hm"},
		"gpt-oss, cut":                    {"nothing was final", "<|channel|>analysis<|message|>TASK_COMPLETE: no", "", "TASK_COMPLETE: no"},
		"gpt-oss without tokens":          {"the server dropped them", "analysisWe must.\nTASK_COMPLETE: noassistantfinalThe answer.", "The answer.", "analysisWe must.\nTASK_COMPLETE: no"},
		"gpt-oss without tokens, cut":     {"nothing was final", "analysisWe must.", "", "analysisWe must."},
		"several":                         {"each is one", "One.<think>a</think>Two.<think>b</think>Three.", "One.|Two.|Three.", "a|b"},
		"closed twice":                    {"the text between was within", "<think>a</think>b</think>The answer.", "The answer.", "<think>a</think>b"},
		"other marks within":              {"they are words there", "<think>I write <reasoning>x</reasoning>\nTASK_COMPLETE: no\n</think>The answer.", "The answer.", "I write <reasoning>x</reasoning>\nTASK_COMPLETE: no\n"},
		"code within":                     {"it may be anything", "<think>```\n</b>\n```\nhm</think>The answer.", "The answer.", "```\n</b>\n```\nhm"},
		"a fence that thoughts left open": {"it ends with them", "```\nTASK_COMPLETE: no\n</think>\nThe answer.", "The answer.", "```\nTASK_COMPLETE: no\n"},
		"an answer about marks":           {"it quotes them", "The model writes `<think>` and `</think>`.", "The model writes `<think>` and `</think>`.", ""},
		"an answer with marks in code":    {"a pair within a fence is shown", "So:\n```\n<think>\nhm\n</think>\nyes\n```\nDone.", "So:\n```\n<think>\nhm\n</think>\nyes\n```\nDone.", ""},
		"an answer with JSON":             {"strings quote them", `{"open": "<think>", "close": "</think>"}`, `{"open": "<think>", "close": "</think>"}`, ""},
		"an answer about channels":        {"it quotes them", "It writes `<|message|>` first.", "It writes `<|message|>` first.", ""},
		"another tag":                     {"it is none of thoughts", "<thinker>x</thinker> [think]", "<thinker>x</thinker> [think]", ""},
		"an analysis":                     {"a word of an answer", "analysis of it: fine", "analysis of it: fine", ""},
		"an assistant's final word":       {"words of an answer", "the assistant final exam", "the assistant final exam", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, th := said(SplitThoughts(tc.text)[0])
			if s != tc.said || th != tc.thought {
				t.Errorf("said %q, thought %q; want %q and %q: %s", s, th, tc.said, tc.thought, tc.why)
			}
		})
	}
}

// A server may begin a new text within thoughts.
func TestThoughtsThatEndInALaterTextAreThoughtsFromTheFirstOn(t *testing.T) {
	got := SplitThoughts("hm\nTASK_COMPLETE: no", "still</think>The answer.", "More.")
	for i, want := range [][2]string{{"", "hm\nTASK_COMPLETE: no"}, {"The answer.", "still"}, {"More.", ""}} {
		if s, th := said(got[i]); s != want[0] || th != want[1] {
			t.Errorf("text %d: said %q, thought %q; want %q", i, s, th, want)
		}
	}
}

// However often a reply goes in and out of thoughts, it has a bounded number of blocks, and the rest of it is thought.
func TestAReplyOfManyThoughtsHasABoundedNumberOfBlocks(t *testing.T) {
	for name, text := range map[string]string{
		"marks":    strings.Repeat("<think>a</think>b", 10_000) + "TASK_COMPLETE: no",
		"channels": strings.Repeat("<|channel|>analysis<|message|>a<|channel|>final<|message|>b", 10_000) + "TASK_COMPLETE: no",
	} {
		blocks := SplitThoughts(text)[0]
		if s, _ := said(blocks); len(blocks) > maxPieces+1 || strings.Contains(s, "TASK_COMPLETE") {
			t.Errorf("%s: %d blocks", name, len(blocks))
		}
	}
}

// Nothing between a pair of marks is said, whatever stands around it and between; and nothing but marks gets lost.
func FuzzThoughts(f *testing.F) {
	for _, seed := range [][2]string{{"", "hm"}, {"a\n", "```\nx"}, {"`", "`"}, {"</think>", "<think>"}, {"```\n", "\n```"}, {"<|channel|>final<|message|>", "<|end|>"}} {
		f.Add(seed[0], seed[1], "The answer.")
	}
	f.Fuzz(func(t *testing.T, before, within, after string) {
		const secret = "\nTASK_COMPLETE: it was only thought\n"
		if strings.Contains(before+within+after, "TASK_COMPLETE") {
			return
		}
		for _, text := range []string{within + secret + "\n</think>\n" + after, "<think>" + within + secret + "\n</think>\n" + after} {
			if strings.Contains(text, "<|message|>") || strings.HasPrefix(after, "</") {
				continue // other rules hold there
			}
			if s, _ := said(SplitThoughts(before, text)[1]); strings.Contains(s, secret) {
				t.Errorf("%q is said: %q", text, s)
			}
		}
		text := before + within + after
		var n int
		for _, b := range SplitThoughts(text)[0] {
			n += len(b.Text)
		}
		if n > len(text) {
			t.Errorf("%d bytes of %d", n, len(text))
		}
	})
}

func BenchmarkSplitThoughts(b *testing.B) {
	for name, text := range map[string]string{
		"text": strings.Repeat("The quick brown fox jumps over the lazy dog.\n", 1<<16), "tags": strings.Repeat("<b>bold</b> ", 1<<18),
		"marks": strings.Repeat("<think>a</think>b", 1<<17), "fences": strings.Repeat("```\n<think>\n```\n", 1<<17), "closed": strings.Repeat("</think>", 1<<19),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				SplitThoughts(text)
			}
		})
	}
}
