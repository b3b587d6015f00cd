package model

import (
	"regexp"
	"sort"
	"strings"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// SplitThoughts tells what of a reply's texts the model says and what it only thought: servers without a parser for a model's thoughts
// leave them in the text, with marks around them. It gives the blocks of each text, in order.
//
// A signal within thoughts must never end a task, so in doubt it is a thought: what stands before a closing mark that has no opening
// one (the chat template has written that), also in the texts before; and what follows an opening mark that is never closed. Marks
// within fenced code, or right between two quotation marks, are no marks, as long as that code does not hold a closing one alone.
func SplitThoughts(texts ...string) [][]loop.Block {
	out, thoughtBefore := make([][]loop.Block, len(texts)), 0
	for i, text := range texts {
		pieces, headless := splitThoughts(text)
		for _, p := range pieces {
			out[i] = append(out[i], p.block())
		}
		if headless {
			thoughtBefore = i
		}
	}
	for _, blocks := range out[:thoughtBefore] {
		for i := range blocks {
			blocks[i].Kind = loop.BlockReasoning
		}
	}
	return out
}

// piece is a part of a text.
type piece struct {
	text    string
	thought bool
}

func (p piece) block() loop.Block {
	if p.thought {
		return loop.Block{Kind: loop.BlockReasoning, Text: p.text}
	}
	return loop.Block{Kind: loop.BlockText, Text: p.text}
}

// thoughtMark is a mark where thoughts begin or end. Family is what those have in common that belong together; one without closes any.
type thoughtMark struct {
	from, to int
	closing  bool
	family   string
}

// literalMarks are the marks that are written in one way only.
var literalMarks = []struct {
	text    string
	closing bool
	family  string
}{
	{"[THINK]", false, "think"}, {"[/THINK]", true, "think"}, // Magistral
	{"◁think▷", false, "think"}, {"◁/think▷", true, "think"}, // Kimi
	{"<|think|>", false, "think"}, {"<|/think|>", true, "think"},
	{"<|START_THINKING|>", false, "think"}, {"<|END_THINKING|>", true, "think"}, // Command A
	{"<|begin_of_thought|>", false, "thought"}, {"<|end_of_thought|>", true, "thought"}, // OpenThinker
	{"<unused94>", false, "unused"}, {"<unused95>", true, "unused"}, // MedGemma
	{"<|channel>thought", false, "channel"}, {"<channel|>", true, "channel"}, // Gemma 4
	{"[BEGIN FINAL RESPONSE]", true, ""}, // Apriel
	{"assistantfinal", true, ""},         // gpt-oss, whose special tokens were dropped
}

// tagFamilies are the names of tags around thoughts: of DeepSeek, Qwen, Seed, EXAONE and others. Models mix them up.
var tagFamilies = map[string]string{"think": "think", "thinking": "think", "thought": "thought", "thoughts": "thought", "reasoning": "reasoning"}

// thoughtMarks finds the marks of a text, in order.
func thoughtMarks(text string) (out []thoughtMark) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '<', '[', 'a', "◁"[0]:
			if m, ok := markAt(text, i); ok {
				out = append(out, m)
				i = m.to - 1
			}
		}
	}
	return out
}

func markAt(text string, at int) (thoughtMark, bool) {
	for _, l := range literalMarks {
		if strings.HasPrefix(text[at:], l.text) {
			return thoughtMark{at, at + len(l.text), l.closing, l.family}, true
		}
	}
	m := tag.FindStringSubmatch(text[at:min(len(text), at+256)])
	if m == nil {
		return thoughtMark{}, false
	}
	return thoughtMark{at, at + len(m[0]), m[1] != "", tagFamilies[strings.ToLower(m[2])]}, true
}

var tag = regexp.MustCompile(`^(?i)<(/?)(?:[a-z]{1,16}:)?(think|thinking|thoughts?|reasoning)(?:\s[^<>]*)?>`)

// answerMarks stand around the answer of models that mark that as well.
var answerMarks = strings.NewReplacer("<|START_RESPONSE|>", "", "<|END_RESPONSE|>", "", "<|begin_of_solution|>", "", "<|end_of_solution|>", "",
	"[END FINAL RESPONSE]", "")

// glued is how gpt-oss begins a thought whose special tokens were dropped.
var glued = regexp.MustCompile(`^\s*(?:analysis|commentary)[A-Z]`)

// splitThoughts splits one text. Headless: it begins within thoughts.
func splitThoughts(text string) (pieces []piece, headless bool) {
	fences := closedFences(text)
	if pieces = splitChannels(text, fences); pieces != nil {
		return pieces, false
	}
	var c cutter
	marks := thoughtMarks(text)
	if len(marks) == 0 && !glued.MatchString(text) {
		return []piece{{text: text}}, false
	}
	c.thinking = glued.MatchString(text)
	shown := -1 // the fence in which an opening mark is shown as code
	for _, m := range marks {
		at := fences.at(m.from)
		switch {
		case quoted(text, m.from, m.to):
			continue
		case !m.closing && !c.thinking && at >= 0 && strings.TrimSpace(text[:m.from]) != "":
			shown = at
			continue
		case m.closing && !c.thinking && at >= 0 && at == shown:
			continue
		case m.closing && !c.thinking:
			headless = true
			c.pieces, c.from, c.thinking = nil, 0, true
		case m.closing && c.family != "" && m.family != "" && m.family != c.family: // within thoughts, other marks are words
			continue
		case !m.closing && c.thinking:
			continue
		}
		c.cut(text, m.from, m.to)
		if c.family = m.family; len(c.pieces) > maxPieces {
			break
		}
	}
	c.cut(text, len(text), len(text))
	return c.answer(), headless
}

// quoted tells whether text shows a mark rather than uses it.
func quoted(text string, from, to int) bool {
	return from > 0 && to < len(text) && text[from-1] == text[to] && strings.IndexByte("`\"'", text[to]) >= 0
}

// cutter cuts a text at marks, after each of which it is the other of thought and said.
type cutter struct {
	pieces   []piece
	from     int
	thinking bool
	family   string // of the mark that opened the thoughts
}

// maxPieces bounds the pieces of a text. The rest of one that has more is thought.
const maxPieces = 200

// cut ends a piece at a mark.
func (c *cutter) cut(text string, at, next int) {
	if len(c.pieces) == maxPieces {
		at, next = len(text), len(text)
	}
	p := piece{text: text[c.from:at], thought: c.thinking || len(c.pieces) == maxPieces}
	if !p.thought && len(c.pieces) > 0 {
		p.text = strings.TrimLeft(p.text, "\r\n")
	}
	if strings.TrimSpace(p.text) != "" {
		c.pieces = append(c.pieces, p)
	}
	c.from, c.thinking = next, !c.thinking
}

// answer takes the marks around an answer out of what is said.
func (c *cutter) answer() []piece {
	for i := range c.pieces {
		if p := &c.pieces[i]; !p.thought {
			p.text = strings.TrimLeft(answerMarks.Replace(p.text), "\r\n")
			if trimmed := strings.TrimSpace(p.text); i > 0 && strings.HasPrefix(trimmed, "<answer>") && strings.HasSuffix(trimmed, "</answer>") { // Hunyuan
				p.text = strings.TrimSpace(trimmed[len("<answer>") : len(trimmed)-len("</answer>")])
			}
		}
	}
	return c.pieces
}

// channelMark is a special token of gpt-oss, or the header of a message in one of its channels.
var channelMark = regexp.MustCompile(`(?:<\|start\|>[^<]{0,200})?(?:<\|channel\|>\s*([a-z]+)[^<]{0,200})?(?:<\|constrain\|>[^<]{0,200})?<\|message\|>|<\|(?:start|end|return|call|channel)\|>`)

// splitChannels splits a text of gpt-oss: only what is in its channel final is said. It is nil for other texts.
func splitChannels(text string, fences fencesOf) (pieces []piece) {
	if !strings.Contains(text, "<|message|>") {
		return nil
	}
	from, thought, found := 0, true, false
	add := func(to int) {
		if len(pieces) == maxPieces {
			to, thought = len(text), true
		}
		if t := text[from:to]; strings.TrimSpace(t) != "" {
			pieces = append(pieces, piece{t, thought})
		}
		from = to
	}
	for _, m := range channelMark.FindAllStringSubmatchIndex(text, -1) {
		if from == len(text) || quoted(text, m[0], m[1]) || fences.at(m[0]) >= 0 {
			continue
		}
		add(m[0])
		from, thought, found = max(from, m[1]), m[2] < 0 || text[m[2]:m[3]] != "final", true
	}
	if !found {
		return nil
	}
	add(len(text))
	return pieces
}

// fencesOf are the fenced code blocks of a text that are closed, as pairs of where each begins and ends.
type fencesOf [][2]int

// at is the number of the fence around a place, -1 for none.
func (f fencesOf) at(place int) int {
	i := sort.Search(len(f), func(i int) bool { return place < f[i][1] })
	if i < len(f) && f[i][0] <= place {
		return i
	}
	return -1
}

func closedFences(text string) (out fencesOf) {
	open, mark := -1, ""
	for at := 0; at < len(text); {
		end := len(text)
		if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
			end = at + n + 1
		}
		line := strings.TrimLeft(text[at:end], " ")
		run := len(line) - len(strings.TrimLeft(line, "`"))
		if run == 0 {
			run = len(line) - len(strings.TrimLeft(line, "~"))
		}
		switch rest := strings.TrimSpace(line[run:]); {
		case run < 3:
		case open < 0:
			open, mark = at, line[:run]
		case rest == "" && strings.HasPrefix(line[:run], mark):
			out = append(out, [2]int{open, end})
			open = -1
		}
		at = end
	}
	return out
}
