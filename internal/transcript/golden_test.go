package transcript_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript/transcripttest"
)

var update = flag.Bool("update", false, "write the golden files of the schema version that is written now")

// Each directory of testdata named v<version> holds a journal that was written with that version: as JSON lines, as the
// data of a segment, and as people read it. They load for ever. A field that is added within a version may be added to
// the files of that version; nothing in them is changed or taken away.
func TestJournalsOfEveryVersionLoad(t *testing.T) {
	if *update {
		writeGolden(t, fmt.Sprintf("testdata/v%d", loop.EventVersion))
	}
	for version := 1; version <= loop.EventVersion; version++ {
		dir := fmt.Sprintf("testdata/v%d", version)
		fromLines := decodeLines(t, read(t, dir, "events.jsonl"))
		fromSegment, _, err := transcript.DecodeSegment(read(t, dir, "events.zst"))
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		if !reflect.DeepEqual(fromLines, fromSegment) {
			t.Errorf("%s: the segment and the lines tell different things", dir)
		}
		var text bytes.Buffer
		if err := transcript.Render(&text, fromSegment); err != nil {
			t.Fatal(err)
		}
		if want := read(t, dir, "events.txt"); !bytes.Equal(text.Bytes(), want) {
			t.Errorf("%s reads\n%s\nwant\n%s", dir, &text, want)
		}
		if _, err := loop.Fold(fromSegment); err != nil {
			t.Errorf("%s does not fold: %v", dir, err)
		}
	}
}

func TestGoldenFilesAreWhatIsWrittenNow(t *testing.T) {
	dir := fmt.Sprintf("testdata/v%d", loop.EventVersion)
	if got := decodeLines(t, read(t, dir, "events.jsonl")); !reflect.DeepEqual(got, transcripttest.Samples()) {
		t.Error("the golden files lack something that transcripttest.Samples has: after adding a field, run the tests of this package with -update")
	}
}

func TestSamplesUseEveryField(t *testing.T) {
	used := map[string]bool{}
	for _, e := range transcripttest.Samples() {
		markUsed(reflect.ValueOf(e), used)
	}
	for _, f := range fields(reflect.TypeFor[loop.Event]()) {
		if !used[f.path] {
			t.Errorf("no sample sets %s, so no golden file would notice its loss", f.path)
		}
	}
}

func TestEveryKindAndFieldIsDocumented(t *testing.T) {
	doc := string(read(t, "../../docs", "transcript.md"))
	for _, e := range transcripttest.Samples() {
		if !strings.Contains(doc, "`"+string(e.Kind)+"`") {
			t.Errorf("docs/transcript.md does not tell of the kind %s", e.Kind)
		}
	}
	for _, f := range fields(reflect.TypeFor[loop.Event]()) {
		if !regexp.MustCompile("`" + regexp.QuoteMeta(f.json) + "`").MatchString(doc) {
			t.Errorf("docs/transcript.md does not tell of the field %s (%s)", f.json, f.path)
		}
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decodeLines(t *testing.T, lines []byte) []loop.Event {
	t.Helper()
	var events []loop.Event
	for line := range bytes.Lines(lines) {
		e, err := transcript.Decode(line)
		if err != nil {
			t.Fatalf("line %d: %v", len(events)+1, err)
		}
		events = append(events, e)
	}
	return events
}

func writeGolden(t *testing.T, dir string) {
	t.Helper()
	var data, lines, text []byte
	for chunk := range slices.Chunk(transcripttest.Samples(), 4) {
		frame, plain, err := transcript.Frame(chunk[0].Seq-1, chunk)
		if err != nil {
			t.Fatal(err)
		}
		data, lines = append(data, frame...), append(lines, plain...)
	}
	var out bytes.Buffer
	if err := transcript.Render(&out, transcripttest.Samples()); err != nil {
		t.Fatal(err)
	}
	text = out.Bytes()
	for name, b := range map[string][]byte{"events.zst": data, "events.jsonl": lines, "events.txt": text} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

type field struct{ path, json string }

// fields lists the fields of a type and of what it consists of, each type once.
func fields(typ reflect.Type) []field {
	var out []field
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(t.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if _, isText := reflect.New(t).Interface().(json.Marshaler); isText || seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			out = append(out, field{path: t.Name() + "." + f.Name, json: name})
			walk(f.Type)
		}
	}
	walk(typ)
	return out
}

// markUsed notes the fields that are not zero in v.
func markUsed(v reflect.Value, used map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			markUsed(v.Elem(), used)
		}
	case reflect.Slice:
		for i := range v.Len() {
			markUsed(v.Index(i), used)
		}
	case reflect.Struct:
		if _, isText := v.Interface().(json.Marshaler); isText {
			return
		}
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				used[v.Type().Name()+"."+v.Type().Field(i).Name] = true
				markUsed(v.Field(i), used)
			}
		}
	}
}
