package signal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// adversarial holds texts of one block that look like a signal and are none, or the other way round.
var adversarial = []struct {
	name, text string
	want       Signal
	why        string
}{
	// Where the line stands.
	{"mid-word", "xTASK_COMPLETE: a", Signal{}, "the line starts with something else"},
	{"bullet-like emphasis", "* TASK_COMPLETE: a", Signal{}, "a star and a space make a list item"},
	{"under a paragraph", "text\nTASK_COMPLETE: a", complete("a"), "lines count, not paragraphs"},
	{"four spaces under a paragraph", "text\n    TASK_COMPLETE: a", Signal{}, "more than three spaces"},
	{"tab", "\tTASK_COMPLETE: a", Signal{}, "a tab makes code"},
	{"tab under a paragraph", "text\n\tTASK_COMPLETE: a", Signal{}, "a tab is no space"},
	{"space and tab", " \tTASK_COMPLETE: a", Signal{}, "the tab reaches the fourth column"},
	{"escaped", "\\TASK_COMPLETE: a", Signal{}, "the line starts with a backslash"},
	{"after a thematic break", "***\nTASK_COMPLETE: a", complete("a"), "a break is no container"},
	{"definition-like colon", "TASK_COMPLETE : a", Signal{}, "the colon belongs to the token"},
	{"full-width colon", "TASK_COMPLETE： a", Signal{}, "the token is exact"},
	{"no space after the colon", "TASK_COMPLETE:a", complete("a"), "the token ends with the colon"},

	// Code.
	{"inline code over lines", "see `x\nTASK_COMPLETE: a\ny`", Signal{}, "the line is within inline code"},
	{"double ticks over lines", "see ``x ` \nTASK_COMPLETE: a\ny``", Signal{}, "one tick does not close two"},
	{"unclosed tick", "see `x\nTASK_COMPLETE: a", complete("a"), "a tick that nothing closes is text"},
	{"tick closed after a blank line", "see `x\nTASK_COMPLETE: a\n\ny`", complete("a"), "code ends with its paragraph"},
	{"escaped tick", "see \\`x\nTASK_COMPLETE: a`", complete("a`"), "an escaped tick opens nothing"},
	{"second line in code of the first", "TASK_COMPLETE: ran `a\nTASK_COMPLETE: b` too",
		complete("ran `a\nTASK_COMPLETE: b` too"), "the second token is code, so it is payload"},
	{"lazy line in inline code", "- see `x\nTASK_COMPLETE: a`", Signal{}, "code spans lazy lines"},
	{"fence of five", "`````\n````\nTASK_COMPLETE: a\n````\n`````", Signal{}, "the shorter fence is text"},
	{"tildes do not close ticks", "```\n~~~\nTASK_COMPLETE: a\n```", Signal{}, "fences close with their own mark"},
	{"closing fence with info", "```\n``` x\nTASK_COMPLETE: a", Signal{}, "a closing fence has no info"},
	{"closing fence too deep", "```\n    ```\nTASK_COMPLETE: a", Signal{}, "four spaces close nothing"},
	{"fence with tick in its info", "``` `x\nTASK_COMPLETE: a", complete("a"), "this is no fence"},
	{"two ticks are no fence", "``\nTASK_COMPLETE: a", complete("a"), "a fence has three"},
	{"fence in nested list", "- a\n  - b\n    ```\n    TASK_COMPLETE: x\n    ```\n", Signal{}, "fenced in a list"},
	{"unindented line ends a fence in a list", "- a\n  ```\n  code\nTASK_COMPLETE: x", complete("x"),
		"the fence ends with its item"},
	{"dedented fence", "- a\n  ```\n```\nTASK_COMPLETE: x\n```", Signal{}, "the second fence opens a new block"},
	{"fence in a quote", "> ```\n> TASK_COMPLETE: x\n> ```", Signal{}, "fenced in a quote"},
	{"line after a fence in a quote", "> ```\nTASK_COMPLETE: x", complete("x"), "the fence ends with its quote"},
	{"blank lines in a fence", "```\n\nTASK_COMPLETE: x\n\n```", Signal{}, "a fence holds blank lines"},
	{"unclosed fence far above", "```\ncode\n\ntext\n\nmore\n\nTASK_COMPLETE: x", Signal{}, "it runs to the end"},
	{"list with open fence far above", "1. a\n   ```\n   b\n\ntext\n\nTASK_COMPLETE: x", complete("x"),
		"the fence ends with its item"},

	// HTML.
	{"comment over lines", "<!--\nTASK_COMPLETE: a\n-->", Signal{}, "nobody sees a comment"},
	{"comment over blank lines", "<!--\n\nTASK_COMPLETE: a\n\n-->", Signal{}, "a comment block holds blank lines"},
	{"unclosed comment", "<!-- a\n\nTASK_COMPLETE: a", Signal{}, "it runs to the end"},
	{"comment in a paragraph", "text <!--\nTASK_COMPLETE: a\n-->", Signal{}, "inline HTML hides the line"},
	{"attribute over lines", "text <a title=\"\nTASK_COMPLETE: a\">b</a>", Signal{}, "within a tag"},
	{"details", "<details>\nTASK_COMPLETE: a\n</details>", Signal{}, "an HTML block ends with a blank line"},
	{"details with blank line", "<details>\n\nTASK_COMPLETE: a\n\n</details>", complete("a"),
		"after the blank line it is Markdown again"},
	{"pre over blank lines", "<pre>\n\nTASK_COMPLETE: a\n\n</pre>", Signal{}, "only the end tag ends it"},
	{"script", "<script>\n\nTASK_COMPLETE: a\n</script>", Signal{}, "only the end tag ends it"},
	{"processing instruction", "<?x\n\nTASK_COMPLETE: a\n?>", Signal{}, "an HTML block"},
	{"CDATA", "<![CDATA[\n\nTASK_COMPLETE: a\n]]>", Signal{}, "an HTML block"},
	{"fence within HTML", "<div>\n```\n</div>\n\nTASK_COMPLETE: a", complete("a"), "the ticks are HTML text"},

	// Links.
	{"link title", "[a](b \"\nTASK_COMPLETE: x\n\")", Signal{}, "a title is not text"},
	{"link text", "[a\nTASK_COMPLETE: x](b)", complete("x](b)"), "the text of a link is seen as a line"},
	{"image text", "![a\nTASK_COMPLETE: x](b)", Signal{}, "the text of an image is not seen"},
	{"reference definition", "[a]: b\n\"\nTASK_COMPLETE: x\n\"", Signal{}, "a title is not text"},
	{"after a reference definition", "[a]: b\nTASK_COMPLETE: x", complete("x"), "the line is no part of it"},

	// Quotes, lists, headings, tables.
	{"lazy under a quote", "> a\nTASK_COMPLETE: x", complete("x"), "at column 0 it counts"},
	{"lazy under a nested list", "- a\n  - b\nTASK_COMPLETE: x", complete("x"), "at column 0 it counts"},
	{"indented under a list", "- a\n TASK_COMPLETE: x", Signal{}, "only column 0 leaves a list"},
	{"second line of an item", "- a\n  TASK_COMPLETE: x", Signal{}, "within the item"},
	{"paragraph of an item", "- a\n\n  TASK_COMPLETE: x", Signal{}, "within the item"},
	{"task list", "- [x] TASK_COMPLETE: x", Signal{}, "a list item"},
	{"setext heading", "TASK_COMPLETE: x\n===", Signal{}, "a heading"},
	{"setext heading of dashes", "TASK_COMPLETE: x\n---", Signal{}, "a heading"},
	{"setext heading of two lines", "a\nTASK_COMPLETE: x\n===", Signal{}, "a heading"},
	{"under a heading", "# Done\nTASK_COMPLETE: x", complete("x"), "a heading has one line"},
	{"no heading under a lazy line", "> a\nTASK_COMPLETE: x\n===", complete("x\n==="), "the bar is text there"},
	{"table header", "TASK_COMPLETE: x | a\n--- | ---", Signal{}, "a table's header"},
	{"table row", "a | b\n--- | ---\nTASK_COMPLETE: x | y", Signal{}, "a table's row"},
	{"line under a table", "a | b\n--- | ---\nc | d\nTASK_COMPLETE: x", Signal{}, "a row without bars"},
	{"blank line under a table", "a | b\n--- | ---\nc | d\n\nTASK_COMPLETE: x", complete("x"), "the table has ended"},

	// Emphasis.
	{"italic line", "*TASK_COMPLETE: x*", complete("x"), "emphasis around the line"},
	{"bold underscores", "__TASK_COMPLETE: x__", complete("x"), "emphasis around the line"},
	{"bold italic", "***TASK_COMPLETE:*** x", complete("x"), "emphasis around the token"},
	{"mixed marks", "**_TASK_COMPLETE:_ x**", complete("x"), "one around the token, one around the line"},
	{"bold in payload", "**TASK_COMPLETE:** use **bold**", complete("use **bold**"), "those are the payload's own"},
	{"bold within bold", "**TASK_COMPLETE: use **bold** now**", complete("use **bold** now"), "the last run closes"},
	{"italic around bold", "*TASK_COMPLETE: use **bold***", complete("use **bold**"), "one star of three closes"},
	{"names with underscores", "_TASK_COMPLETE: wrote a_b_", complete("wrote a_b"), "marks in a word close nothing"},
	{"product with star", "*TASK_COMPLETE: 2 * 3*", complete("2 * 3"), "marks amid space close nothing"},
	{"bold over lines", "**TASK_COMPLETE: a\nb**", complete("a\nb"), "emphasis spans lines"},
	{"bold first part", "**TASK_COMPLETE: a** and b", complete("a and b"), "the marks are not text"},
	{"unclosed bold", "**TASK_COMPLETE: a", complete("a"), "a reply cut short still says it"},
	{"colon outside of bold", "**TASK_COMPLETE**: a", Signal{}, "the colon belongs to the token"},
	{"four stars", "****TASK_COMPLETE: a****", Signal{}, "decoration rather than emphasis"},
	{"bold question without text", "**NEED_INPUT:**", Signal{}, "marks are no text"},
	{"bold question with space only", "**NEED_INPUT: **", Signal{}, "marks are no text"},
	{"struck out", "~~TASK_COMPLETE: a~~", Signal{}, "that is no emphasis"},

	// Payload.
	{"until a fence", "TASK_COMPLETE: a\n```\ncode\n```", complete("a"), "a fence ends the payload"},
	{"fence only", "NEED_INPUT:\n```\ncode\n```", Signal{}, "a fence is no payload"},
	{"until a fence in a list", "TASK_COMPLETE: a\n- b\n- ```\n  code\n  ```", complete("a\n- b"),
		"a fence ends the payload"},
	{"deep ticks are text", "TASK_COMPLETE: a\n    ```\nb", complete("a\n    ```\nb"), "no fence at four spaces"},
	{"list", "TASK_COMPLETE: did\n- a\n  - b\n\nBye", complete("did\n- a\n  - b"), "lines count, not paragraphs"},
	{"blank line first", "TASK_COMPLETE:\n\nnot this", complete(""), "the payload ends at a blank line"},
	{"line of white space", "TASK_COMPLETE: a\n \t\nb", complete("a"), "that is a blank line"},
	{"line of wide space", "NEED_INPUT:\u00a0\u3000\n\u2003\nb", Signal{}, "wide space is no text either"},
	{"question on the next line", "NEED_INPUT:\n\twhich?", question("which?"), "indent is no text"},
	{"question ends a summary", "TASK_COMPLETE: a\nNEED_INPUT:", complete("a"), "an empty question still ends it"},
	{"completion ends a question", "NEED_INPUT:\nTASK_COMPLETE: a", complete("a"), "the question has no text"},
	{"example as payload", "TASK_COMPLETE: a\n- NEED_INPUT: b", complete("a\n- NEED_INPUT: b"), "an item is no signal"},
	{"token twice in a line", "TASK_COMPLETE: TASK_COMPLETE: a", complete("TASK_COMPLETE: a"), "only the start counts"},

	// Bytes.
	{"byte order mark", "\ufeffTASK_COMPLETE: a", complete("a"), "it is no text at the start"},
	{"byte order mark in a later line", "a\n\ufeffTASK_COMPLETE: b", Signal{}, "there it is"},
	{"zero-width space", "\u200bTASK_COMPLETE: a", Signal{}, "the line starts with something else"},
	{"no-break space", "\u00a0TASK_COMPLETE: a", Signal{}, "only plain spaces indent"},
	{"line separator", "a\u2028TASK_COMPLETE: b", Signal{}, "Markdown knows no such line end"},
	{"next line", "a\u0085TASK_COMPLETE: b", Signal{}, "Markdown knows no such line end"},
	{"form feed", "a\fTASK_COMPLETE: b", Signal{}, "no line end"},
	{"carriage returns", "a\rTASK_COMPLETE: b\rc\r\rd", complete("b\nc"), "each is a line end"},
	{"carriage return in a fence", "```\rTASK_COMPLETE: b\r```", Signal{}, "each is a line end"},
	{"nul before", "\x00TASK_COMPLETE: a", Signal{}, "the line starts with something else"},
	{"nul within", "TASK_\x00COMPLETE: a", Signal{}, "the token is exact"},
	{"nul in payload", "TASK_COMPLETE: a\x00b", complete("a\x00b"), "the payload is passed on as it is"},
	{"invalid text", "\xff\xfe\nTASK_COMPLETE: \xc3(", complete("\xc3("), "the payload is passed on as it is"},
	{"other alphabet", "ТASK_COMPLETE: a", Signal{}, "the first letter is Cyrillic"},
	{"in a fence after HTML that looks like one", "<div>\n```\n</div>\n\ntext\n\n```\n\nTASK_COMPLETE: a\n\n```", Signal{}, "the first fence is HTML, the second opens"},
	{"of many lines after a fence", "```\ncode\n```\nTASK_COMPLETE: a\nb", complete("a\nb"), "a fence that is closed ends no payload"},

	// Size.
	{"long line", strings.Repeat("word ", 1<<16) + "\nTASK_COMPLETE: a", complete("a"), "length does not matter"},
	{"deep nesting", "text\n\n" + strings.Repeat("> ", 1<<14) + "a\nTASK_COMPLETE: a", Signal{}, "too deep to be honest"},
	{"deep nesting elsewhere", strings.Repeat("- ", 1<<14) + "a\n\ntext\n\nTASK_COMPLETE: a", complete("a"),
		"it does not reach so far"},
	{"very many links", strings.Repeat("[a](b) ", 1<<10) + "\nTASK_COMPLETE: a", Signal{}, "too many to be honest"},
}

func complete(summary string) Signal { return Signal{Kind: Complete, Payload: summary} }
func question(text string) Signal    { return Signal{Kind: NeedInput, Payload: text} }

func TestAdversarial(t *testing.T) {
	for _, c := range adversarial {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Scan([]string{c.text})); diff != "" {
				t.Errorf("%s, but Scan(%.200q) (-want +got):\n%s", c.why, c.text, diff)
			}
		})
	}
}
