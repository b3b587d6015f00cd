package signal

import (
	"strings"
	"testing"
)

// markdown returns some 64 KiB of what agents ordinarily write.
func markdown() string {
	const part = "## Step\n\n" +
		"I looked at the controller and found that the reconcile loop requeues on every status\n" +
		"write, so I changed the *predicate* to ignore `status` updates and added a test for it.\n\n" +
		"- read `internal/controller/task.go`\n" +
		"- changed the predicate, see [the docs](https://example.com/x)\n" +
		"- added a test\n  with two cases\n\n" +
		"```go\nfunc main() {\n\tif err := run(); err != nil {\n\t\tos.Exit(1)\n\t}\n\n\tfmt.Println(\"ok\")\n}\n```\n\n" +
		"1. First, run the tests:\n   ```sh\n   make test\n\n   make lint\n   ```\n2. Then, deploy.\n\n" +
		"| file | lines |\n|------|-------|\n| a.go | 10 |\n\n" +
		"> The manual says that this is fine,\n> and I believe it.\n\n" +
		"<details>\n<summary>Log</summary>\n\n    indented code\n\n</details>\n\n"
	return strings.Repeat(part, (64<<10)/len(part))
}

func BenchmarkScan(b *testing.B) {
	for name, text := range map[string]string{
		"Signal":      markdown() + "TASK_COMPLETE: changed the `predicate` and *tested* it\n",
		"NoToken":     markdown(),
		"TokenInCode": "```\nTASK_COMPLETE: x\n```\n\n" + markdown(),
		// After an HTML comment all is parsed: this is the parser's own speed.
		"ParseAll": "<!-- note -->\n\n" + markdown() + "TASK_COMPLETE: done\n",
	} {
		b.Run(name, func(b *testing.B) {
			blocks := []string{text}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				Scan(blocks)
			}
		})
	}
}
