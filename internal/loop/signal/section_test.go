package signal

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// Random documents out of lines that open, continue and close blocks. Sections must never part what belongs together.
func TestSectionsOfRandomMarkdown(t *testing.T) {
	lines := []string{
		"", "", "", "text", " text", "  text", "   text", "    text", "\ttext", "TASK_COMPLETE: a", "  NEED_INPUT: b?",
		"   TASK_COMPLETE: c", "    TASK_COMPLETE: d", "\tTASK_COMPLETE: e", "```", "```", " ```", "  ```",
		"   ```", "    ```", "````", "```go", "``` `", "~~~", "  ~~~", "- a", "-", "  - b", "- ```", "-   ```", "1. a", "1.", "10) b", "   - ~~~",
		"> a", ">", "> ```", "> - ```", "- > ```", "<div>", "</div>", "<!-- a", "-->", "<pre>", "</pre>", "  <script>", "<b>",
		"- <!--", "> <pre>", "a | b", "--- | ---", "===", "---", "# a", "[a]: b", "[a]: b '", "'", "see `x", "y`", "\r", "text\r", "```\r", "***",
		"-\t```", " \t```", "```\t", "*", "+ a", "\\", "[a](b \"", "\")", "<a b='", "'>", "![x", "](y)",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var text strings.Builder
		for range 3 + random.IntN(15) {
			text.WriteString(lines[random.IntN(len(lines))])
			text.WriteByte('\n')
		}
		checkSections(t, text.String())
		if left := Scan([]string{Strip(text.String())}); left.Kind != None {
			t.Errorf("what Strip leaves of %q signals %+v", text.String(), left)
		}
		if t.Failed() {
			return
		}
	}
}
