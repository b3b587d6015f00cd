package signal

import (
	"bytes"
	"slices"
	"sort"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// blockParser finds a document's blocks and leaves their text alone.
var blockParser = parser.NewParser(
	parser.WithBlockParsers(parser.DefaultBlockParsers()...),
	parser.WithParagraphTransformers(append(parser.DefaultParagraphTransformers(),
		util.Prioritized(extension.NewTableParagraphTransformer(), 200))...),
)

// inlineParser reads the lines of one paragraph for what hides text: code, tags, links. Emphasis hides nothing.
var inlineParser = parser.NewParser(
	parser.WithBlockParsers(util.Prioritized(parser.NewParagraphParser(), 100)),
	parser.WithInlineParsers(
		util.Prioritized(parser.NewCodeSpanParser(), 100),
		util.Prioritized(parser.NewLinkParser(), 200),
		util.Prioritized(parser.NewAutoLinkParser(), 300),
		util.Prioritized(parser.NewRawHTMLParser(), 400),
	),
)

// maxLinks bounds the links of a paragraph that is looked at. The time for links that never end grows with the square
// of their number, and no honest reply puts as many before a signal.
const maxLinks = 500

// parsed is what a section's structure says about its token lines.
type parsed struct {
	tokens []tokenLine // those that are lines of plain text, in order
	fences []int       // offsets of opening code fences, in order
}

// parse sorts out which of the token lines in source are plain text. Offsets are relative to source.
func parse(source []byte, tokens []tokenLine) parsed {
	var p parsed
	visible := make([]bool, len(tokens))
	document := blockParser.Parse(text.NewReader(source))
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n.Kind() {
		case ast.KindFencedCodeBlock:
			p.fences = append(p.fences, n.Pos())
		case ast.KindParagraph, ast.KindTextBlock:
			markVisible(source, n, tokens, visible)
		default:
			return ast.WalkContinue, nil
		}
		return ast.WalkSkipChildren, nil
	})
	for i, t := range tokens {
		if visible[i] {
			p.tokens = append(p.tokens, t)
		}
	}
	slices.Sort(p.fences)
	return p
}

// markVisible marks those token lines that are plain text of a paragraph. Within a list item or a quote only a line
// that stands at column 0 counts: it continues the paragraph merely because no blank line parts them.
func markVisible(source []byte, paragraph ast.Node, tokens []tokenLine, visible []bool) {
	lines := paragraph.Lines()
	if lines.Len() == 0 {
		return
	}
	topLevel := paragraph.Parent().Kind() == ast.KindDocument
	start, stop := lines.At(0).Start, lines.At(lines.Len()-1).Stop
	first, end := between(tokens, start, stop)
	if first == end {
		return
	}
	counts := func(t tokenLine) bool { return topLevel || t.mark == t.start }
	if !bytes.ContainsAny(source[start:tokens[end-1].mark], "`<[") {
		for i := first; i < end; i++ {
			visible[i] = visible[i] || counts(tokens[i])
		}
		return
	}
	if bytes.Count(source[start:stop], []byte("](")) > maxLinks {
		return
	}
	inline := inlineParser.Parse(text.NewBlockReader(source, lines))
	_ = ast.Walk(inline, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.CodeSpan, *ast.Image, *ast.RawHTML, *ast.AutoLink:
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			first, end := between(tokens, n.Segment.Start, n.Segment.Stop)
			for i := first; i < end && entering; i++ {
				visible[i] = visible[i] || counts(tokens[i])
			}
		}
		return ast.WalkContinue, nil
	})
}

// between returns the range of token lines whose text starts in [start, stop).
func between(tokens []tokenLine, start, stop int) (int, int) {
	at := func(offset int) int {
		return sort.Search(len(tokens), func(i int) bool { return tokens[i].mark >= offset })
	}
	return at(start), at(stop)
}
