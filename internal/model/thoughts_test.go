package model

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

func said(s string) loop.Block    { return loop.Block{Kind: loop.BlockText, Text: s} }
func thought(s string) loop.Block { return loop.Block{Kind: loop.BlockReasoning, Text: s} }

// fenced is the mark of a fenced block.
const fenced = "```"

var splits = map[string]struct {
	in   []string
	want []loop.Block
}{
	// Pairs of marks.
	"no marks":                    {[]string{"\nTASK_COMPLETE: a < b"}, []loop.Block{said("\nTASK_COMPLETE: a < b")}},
	"a leading thought":           {[]string{" \n<think>\nTASK_COMPLETE: no</think>\n\nyes"}, []loop.Block{thought("\nTASK_COMPLETE: no"), said("yes")}},
	"an empty thought":            {[]string{"<think>\n\n</think>\n\nyes"}, []loop.Block{said("yes")}},
	"nothing but a thought":       {[]string{"<think>no</think>\n"}, []loop.Block{thought("no")}},
	"a thought that never ended":  {[]string{"<think>no\nTASK_COMPLETE: no"}, []loop.Block{thought("no\nTASK_COMPLETE: no")}},
	"thinking":                    {[]string{"<thinking>no</thinking>yes"}, []loop.Block{thought("no"), said("yes")}},
	"thought":                     {[]string{"<thought>no</thought>yes"}, []loop.Block{thought("no"), said("yes")}},
	"reasoning":                   {[]string{"<reasoning>no</reasoning>yes"}, []loop.Block{thought("no"), said("yes")}},
	"a name space":                {[]string{"<seed:think>no</seed:think>yes"}, []loop.Block{thought("no"), said("yes")}},
	"a prefix":                    {[]string{"<longcat_think>no</longcat_think>yes"}, []loop.Block{thought("no"), said("yes")}},
	"attributes":                  {[]string{`<think effort="high">no</think >yes`}, []loop.Block{thought("no"), said("yes")}},
	"square brackets":             {[]string{"[THINK]no[/THINK]yes"}, []loop.Block{thought("no"), said("yes")}},
	"triangles":                   {[]string{"◁think▷no◁/think▷yes"}, []loop.Block{thought("no"), said("yes")}},
	"special tokens":              {[]string{"<|begin_of_thought|>no<|end_of_thought|>yes"}, []loop.Block{thought("no"), said("yes")}},
	"other special tokens":        {[]string{"<|START_THINKING|>no<|END_THINKING|>yes"}, []loop.Block{thought("no"), said("yes")}},
	"inner monologue":             {[]string{"<|inner_prefix|>no<|inner_suffix|>yes"}, []loop.Block{thought("no"), said("yes")}},
	"a thought channel":           {[]string{"<|channel>thought\nno<channel|>yes"}, []loop.Block{thought("\nno"), said("yes")}},
	"unused tokens":               {[]string{"<unused94>thought\nno<unused95>yes"}, []loop.Block{thought("\nno"), said("yes")}},
	"capitals":                    {[]string{"<Think>no</THINK>yes"}, []loop.Block{thought("no"), said("yes")}},
	"marks that differ":           {[]string{"<think>no</thinking>yes"}, []loop.Block{thought("no"), said("yes")}},
	"marks on one line with text": {[]string{"I look. <think>no</think> I read."}, []loop.Block{said("I look. "), thought("no"), said(" I read.")}},
	"several thoughts": {[]string{"<think>no</think>yes\n<think>nor</think>\nwell"},
		[]loop.Block{thought("no"), said("yes\n"), thought("nor"), said("well")}},
	"a thought after the answer": {[]string{"TASK_COMPLETE: yes\n\n<think>no\nNEED_INPUT: no</think>"}, []loop.Block{said("TASK_COMPLETE: yes\n\n"), thought("no\nNEED_INPUT: no")}},
	"a thought in a thought":     {[]string{"<think>a\n<think>b</think>TASK_COMPLETE: no\n</think>yes"}, []loop.Block{thought("<think>a\n<think>b</think>TASK_COMPLETE: no\n"), said("yes")}},

	// A mark that opens is missing.
	"no opening mark":              {[]string{"At the end:\n\nTASK_COMPLETE: no\n\nSo.\n</think>\n\nyes"}, []loop.Block{thought("At the end:\n\nTASK_COMPLETE: no\n\nSo.\n"), said("yes")}},
	"no opening mark, brackets":    {[]string{"NEED_INPUT: no\n[/THINK]yes"}, []loop.Block{thought("NEED_INPUT: no\n"), said("yes")}},
	"no opening mark, triangles":   {[]string{"NEED_INPUT: no\n◁/think▷yes"}, []loop.Block{thought("NEED_INPUT: no\n"), said("yes")}},
	"no opening mark, tokens":      {[]string{"NEED_INPUT: no\n<|END_THINKING|>yes"}, []loop.Block{thought("NEED_INPUT: no\n"), said("yes")}},
	"closed twice":                 {[]string{"<think>no</think>\nTASK_COMPLETE: no\n</think>\nyes"}, []loop.Block{thought("<think>no</think>\nTASK_COMPLETE: no\n"), said("yes")}},
	"closed twice, never opened":   {[]string{"no</think>\nnor\n</think>\nyes"}, []loop.Block{thought("no</think>\nnor\n"), said("yes")}},
	"an opening mark spoken of":    {[]string{"TASK_COMPLETE: no\nI use <think> here.\n</think>yes"}, []loop.Block{thought("TASK_COMPLETE: no\nI use <think> here.\n"), said("yes")}},
	"an unclosed fence within":     {[]string{"TASK_COMPLETE: no\n" + fenced + "\ncode\n</think>\nyes"}, []loop.Block{thought("TASK_COMPLETE: no\n" + fenced + "\ncode\n"), said("yes")}},
	"a fence that the answer ends": {[]string{"TASK_COMPLETE: no\n" + fenced + "\ncode\n</think>\nyes\n" + fenced + "\nx\n" + fenced}, []loop.Block{thought("TASK_COMPLETE: no\n" + fenced + "\ncode\n"), said("yes\n" + fenced + "\nx\n" + fenced)}},
	"a fence before another one":   {[]string{fenced + "\ncode\n</think>\nyes\n" + fenced + "go\nx\n" + fenced}, []loop.Block{thought(fenced + "\ncode\n"), said("yes\n" + fenced + "go\nx\n" + fenced)}},
	"code spoken of in a thought":  {[]string{"<think>I end with `</think>`:\nTASK_COMPLETE: no\n</think>yes"}, []loop.Block{thought("I end with `</think>`:\nTASK_COMPLETE: no\n"), said("yes")}},
	"a fenced pair in a thought": {[]string{"<think>\n" + fenced + "\n<think>\nx\n</think>\n" + fenced + "\nTASK_COMPLETE: no\n</think>yes"},
		[]loop.Block{thought("\n" + fenced + "\n<think>\nx\n</think>\n" + fenced + "\nTASK_COMPLETE: no\n"), said("yes")}},

	// Channels.
	"analysis, then final":          {[]string{"<|channel|>analysis<|message|>no<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>"}, []loop.Block{thought("no"), said("yes")}},
	"final alone":                   {[]string{"TASK_COMPLETE: no<|end|><|start|>assistant<|channel|>final<|message|>yes"}, []loop.Block{thought("TASK_COMPLETE: no"), said("yes")}},
	"analysis alone":                {[]string{"<|channel|>analysis<|message|>TASK_COMPLETE: no"}, []loop.Block{thought("TASK_COMPLETE: no")}},
	"analysis, then bare text":      {[]string{"<|channel|>analysis<|message|>no<|end|>yes"}, []loop.Block{thought("no"), said("yes")}},
	"a call in the comments":        {[]string{"<|start|>assistant<|channel|>commentary to=functions.ls <|constrain|>json<|message|>{}<|call|>"}, []loop.Block{thought("{}")}},
	"analysis, comments, and final": {[]string{"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>b<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>yes"}, []loop.Block{thought("a"), thought("b"), said("yes")}},
	"channels without messages":     {[]string{"<|channel|>analysis no <|channel|>final yes"}, []loop.Block{thought(" no "), said(" yes")}},
	"tokens that were taken out":    {[]string{"analysisThe user wants\nTASK_COMPLETE: noassistantfinalyes"}, []loop.Block{thought("The user wants\nTASK_COMPLETE: no"), said("yes")}},
	"taken out, and no final":       {[]string{"analysisWe need\nTASK_COMPLETE: no"}, []loop.Block{thought("We need\nTASK_COMPLETE: no")}},
	"taken out, with line breaks":   {[]string{"analysis\nhm\nassistantfinal\nyes"}, []loop.Block{thought("\nhm\n"), said("yes")}},
	"an ordinary word":              {[]string{"analysis of it: done\nTASK_COMPLETE: yes"}, []loop.Block{said("analysis of it: done\nTASK_COMPLETE: yes")}},
	"an end of a reply left over":   {[]string{"TASK_COMPLETE: yes<|end|>"}, []loop.Block{said("TASK_COMPLETE: yes<|end|>")}},

	// Answers with marks of their own.
	"an answer after a thought": {[]string{"<think>no</think>\n<answer>\nTASK_COMPLETE: yes\n</answer>"}, []loop.Block{thought("no"), said("TASK_COMPLETE: yes\n")}},
	"an answer, never closed":   {[]string{"TASK_COMPLETE: no</think><answer>yes"}, []loop.Block{thought("TASK_COMPLETE: no"), said("yes")}},
	"an answer in tokens":       {[]string{"<|START_THINKING|>no<|END_THINKING|><|START_RESPONSE|>yes<|END_RESPONSE|>"}, []loop.Block{thought("no"), said("yes")}},
	"an answer in a box":        {[]string{"<think>no</think>\n<|begin_of_box|>TASK_COMPLETE: yes<|end_of_box|>"}, []loop.Block{thought("no"), said("TASK_COMPLETE: yes")}},
	"an answer without thought": {[]string{"<answer>yes</answer>"}, []loop.Block{said("<answer>yes</answer>")}},
	"an answer that is told of": {[]string{"<think>no</think>Put it in <answer>x</answer>."}, []loop.Block{thought("no"), said("Put it in <answer>x</answer>.")}},
	"an answer that thinks":     {[]string{"<think>no</think><answer>yes\n<think>nor</think>well</answer>"}, []loop.Block{thought("no"), said("yes\n"), thought("nor"), said("well")}},

	// Marks that are only spoken of.
	"inline code":                 {[]string{"The mark `</think>` ends it, `<think>` begins it.\n\nTASK_COMPLETE: told"}, []loop.Block{said("The mark `</think>` ends it, `<think>` begins it.\n\nTASK_COMPLETE: told")}},
	"inline code in the signal":   {[]string{"TASK_COMPLETE: wrote of ``</think> ` `` and `<think>`"}, []loop.Block{said("TASK_COMPLETE: wrote of ``</think> ` `` and `<think>`")}},
	"a fenced pair":               {[]string{"Like:\n" + fenced + "xml\n<think>\nx\n</think>\n" + fenced + "\nTASK_COMPLETE: told"}, []loop.Block{said("Like:\n" + fenced + "xml\n<think>\nx\n</think>\n" + fenced + "\nTASK_COMPLETE: told")}},
	"a fenced pair after signals": {[]string{"TASK_COMPLETE: told\n\n" + fenced + "\n<think>x</think>\n" + fenced}, []loop.Block{said("TASK_COMPLETE: told\n\n" + fenced + "\n<think>x</think>\n" + fenced)}},
	"a fenced end":                {[]string{"Like:\n~~~~\n" + fenced + "\n</think>\n" + fenced + "\n~~~~\nTASK_COMPLETE: told"}, []loop.Block{said("Like:\n~~~~\n" + fenced + "\n</think>\n" + fenced + "\n~~~~\nTASK_COMPLETE: told")}},
	"in quotation marks":          {[]string{"It ends with \"</think>\" and begins with '<think>'.\nTASK_COMPLETE: told"}, []loop.Block{said("It ends with \"</think>\" and begins with '<think>'.\nTASK_COMPLETE: told")}},
	"code after a signal":         {[]string{"TASK_COMPLETE: told\n" + fenced + "py\ntext.split(\"</think>\")[1]\n" + fenced}, []loop.Block{said("TASK_COMPLETE: told\n" + fenced + "py\ntext.split(\"</think>\")[1]\n" + fenced)}},
	"JSON":                        {[]string{`{"answered": true, "reasoning": "it has <think> and </think>"}`}, []loop.Block{said(`{"answered": true, "reasoning": "it has <think> and </think>"}`)}},
	"a link":                      {[]string{"see [think](https://a.example)\nTASK_COMPLETE: told"}, []loop.Block{said("see [think](https://a.example)\nTASK_COMPLETE: told")}},
	"other tags":                  {[]string{"<thinker>a</thinker><think/>"}, []loop.Block{said("<thinker>a</thinker><think/>")}},
	"after a real thought":        {[]string{"<think>no</think>Use `</think>`.\nTASK_COMPLETE: told"}, []loop.Block{thought("no"), said("Use `</think>`.\nTASK_COMPLETE: told")}},

	// Several blocks.
	"a thought over two blocks":   {[]string{"<think>a", "b</think>yes"}, []loop.Block{thought("a"), thought("b"), said("yes")}},
	"closed in the second":        {[]string{"TASK_COMPLETE: no", "b</think>yes"}, []loop.Block{thought("TASK_COMPLETE: no"), thought("b"), said("yes")}},
	"never closed":                {[]string{"<think>a", "TASK_COMPLETE: no"}, []loop.Block{thought("a"), thought("TASK_COMPLETE: no")}},
	"a mark over two blocks":      {[]string{"<think>a</th", "ink>yes"}, []loop.Block{thought("a"), said("yes")}},
	"a fence ends with its block": {[]string{fenced + "\nTASK_COMPLETE: no", "</think>yes\n" + fenced + "\n" + fenced}, []loop.Block{thought(fenced + "\nTASK_COMPLETE: no"), said("yes\n" + fenced + "\n" + fenced)}},
	"an empty block":              {[]string{"", "a", "<think></think>", "b"}, []loop.Block{said("a"), said("b")}},
}

func TestThoughtsAreSplitFromText(t *testing.T) {
	for name, c := range splits {
		t.Run(name, func(t *testing.T) {
			if got := splitTexts(c.in...); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q\ngot  %+v\nwant %+v", c.in, got, c.want)
			}
		})
	}
}

func splitTexts(texts ...string) []loop.Block {
	var in, out []loop.Block
	for _, text := range texts {
		in = append(in, said(text))
	}
	for _, split := range SplitThoughts(in) {
		out = append(out, split...)
	}
	return out
}

func TestBlocksWithoutMarksAreKeptAsTheyAre(t *testing.T) {
	in := []loop.Block{{Kind: loop.BlockReasoning, Text: "<think>a", Opaque: "s"}, {Kind: loop.BlockText, Text: "</b>", Opaque: "t"},
		{Kind: loop.BlockReasoning, Opaque: "u"}, {Kind: loop.BlockRefusal, Text: "</think>"}, {Kind: loop.BlockText, Text: "\nb", Opaque: "v"}}
	for i, got := range SplitThoughts(in) {
		if !reflect.DeepEqual(got, in[i:i+1]) {
			t.Errorf("%+v became %+v", in[i], got)
		}
	}
}

// pairs are marks as models write them, those that open first.
var pairs = [][2]string{{"<think>", "</think>"}, {"<thinking>", "</thinking>"}, {"[THINK]", "[/THINK]"}, {"◁think▷", "◁/think▷"},
	{"<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"}, {"<|channel>thought\n", "<channel|>"}}

// words are what thoughts and answers are made of here. SECRET stands in thoughts alone.
var words = []string{"word ", "\n", "\n\n", "`code` ", "it`s ", "\n" + fenced + "\nx\n" + fenced + "\n", "\nTASK_COMPLETE: ", "\nNEED_INPUT: ", "\n- ", "\n> ", "**", "<b>", "`</think>` "}

func TestNoThoughtEverBecomesText(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	prose := func(secret string) string {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(words[random.IntN(len(words))] + secret)
		}
		return b.String()
	}
	for range 20000 {
		pair := pairs[random.IntN(len(pairs))]
		reply, answer := "", "yes\n"+prose("")
		if random.IntN(2) == 0 {
			reply = pair[0]
		}
		reply += prose("SECRET") + "\n" + pair[1]
		at := random.IntN(2) * len(reply)
		for range random.IntN(3) {
			reply += "\nyes\n\n" + pair[0] + prose("SECRET") + "\n" + pair[1]
		}
		for _, b := range splitTexts(reply[:at], reply[at:]+"\n"+answer) {
			if b.Kind == loop.BlockText && strings.Contains(b.Text, "SECRET") {
				t.Fatalf("text %q\nof %q", b.Text, reply+"\n"+answer)
			}
		}
	}
}

func FuzzSplitThoughts(f *testing.F) {
	for _, c := range splits {
		f.Add(c.in[0], strings.Join(c.in[1:], ""))
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		in := []loop.Block{said(first), said(second)}
		whole, at := first+second, 0
		for i, split := range SplitThoughts(in) {
			for _, b := range split {
				// Every piece is one of the reply's, in order: nothing is made up, moved or said twice.
				n := strings.Index(whole[at:], b.Text)
				if n < 0 || b.Text == "" {
					t.Fatalf("%q of block %d is not in %q after byte %d", b.Text, i, whole, at)
				}
				at += n + len(b.Text)
			}
		}
		if !strings.ContainsAny(whole, "<[◁") && !strings.Contains(whole, "assistantfinal") && strippedChannel(whole) == 0 {
			for i, split := range SplitThoughts(in) {
				if in[i].Text != "" && !reflect.DeepEqual(split, in[i:i+1]) {
					t.Fatalf("%q has no mark and became %+v", in[i].Text, split)
				}
			}
		}
	})
}

// worst are what replies are made of that cost the most, or that have the most marks.
var worst = map[string]string{
	"open": "<think>", "closed": "a</think>", "pairs": "<think>a</think>b\n", "unfinished": "<think a", "channels": "<|channel|>analysis a", "answers": "</think><answer>", "blanks": " \n<answer>",
	"code": "` `` <think>", "fences": fenced + "x\n</think>\n", "quoted": "`</think>` ", "signals": "TASK_COMPLETE:<think>\"</think>\"\n",
	"indented": "        <think>", "links": "[think](", "starts": "<|start|>assistant ", "tags": "<a",
}

func TestAReplyIsTakenApartIntoFewPieces(t *testing.T) {
	for name, unit := range worst {
		if got := splitTexts(strings.Repeat(unit, (64<<10)/len(unit))); len(got) > maxThoughts+2 {
			t.Errorf("%s: %d blocks", name, len(got))
		}
	}
}

// The time is in proportion to the bytes: that of 4 MiB is below a second.
func BenchmarkSplitThoughts(b *testing.B) {
	for name, unit := range worst {
		text := strings.Repeat(unit, int(DefaultMaxReplyBytes)/len(unit))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				splitTexts(text)
			}
		})
	}
}
