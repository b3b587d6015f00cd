package transcript_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"k8s.io/utils/ptr"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript"
	"github.com/agentloop-dev/agenttask-operator/internal/transcript/transcripttest"
)

func compress(t testing.TB, plain string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll([]byte(plain), nil)
}

func TestDamageIsAnErrorThatNamesTheSegment(t *testing.T) {
	const line = `{"v":1,"seq":3,"time":"2026-03-04T05:06:07Z","kind":"Suspended"}` + "\n"
	data := func(plain string) func(*v1alpha1.AgentTranscriptSegment) {
		return func(s *v1alpha1.AgentTranscriptSegment) { s.Data, s.LastSeq = compress(t, plain), 3 }
	}
	type seg = *v1alpha1.AgentTranscriptSegment
	for name, tc := range map[string]struct {
		why    string
		damage func(s seg)
		want   error
	}{
		"no zstd":       {"somebody edited it", func(s seg) { s.Data = []byte("hello") }, transcript.ErrCorrupt},
		"cut off":       {"a lost tail must not look like a shorter journal", func(s seg) { s.Data = s.Data[:len(s.Data)-1] }, transcript.ErrCorrupt},
		"bit flipped":   {"frames carry a checksum", func(s seg) { s.Data[len(s.Data)/2] ^= 4 }, transcript.ErrCorrupt},
		"empty":         {"a segment is created with its first event", func(s seg) { s.Data = nil }, transcript.ErrCorrupt},
		"bomb":          {"a few bytes that decompress to gigabytes must not kill the operator", data(strings.Repeat("\x00", 16<<20)), transcript.ErrCorrupt},
		"half a line":   {"an append is whole lines", data(strings.TrimSuffix(line, "\n")), transcript.ErrCorrupt},
		"empty line":    {"it is no event", data(line + "\n"), transcript.ErrCorrupt},
		"no JSON":       {"it is no event", data("hello\n"), transcript.ErrCorrupt},
		"no version":    {"nothing tells how to read it", data(strings.Replace(line, `"v":1,`, ``, 1)), transcript.ErrCorrupt},
		"version 0":     {"there never was one", data(strings.Replace(line, `"v":1,`, `"v":0,`, 1)), transcript.ErrCorrupt},
		"newer version": {"its meaning is not known here", data(strings.Replace(line, `"v":1,`, `"v":2,"who":{},`, 1)), transcript.ErrNewerVersion},
		"newer fields":  {"a field that changed its type needs a new version, and that is said", data(strings.Replace(line, `"v":1,"seq":3`, `"v":2,"seq":"3"`, 1)), transcript.ErrNewerVersion},
		"unknown kind":  {"skipping it would fold to another state", data(strings.Replace(line, "Suspended", "Danced", 1)), transcript.ErrCorrupt},
		"no payload":    {"a nil payload would panic later", data(strings.Replace(line, "Suspended", "Asked", 1)), transcript.ErrCorrupt},
		"gap inside": {"an event is missing", func(s seg) {
			s.LastSeq, s.Data = 5, compress(t, line+strings.Replace(line, `"seq":3`, `"seq":5`, 1))
		}, transcript.ErrCorrupt},
		"first seq":      {"it does not follow the segment before", func(s seg) { s.FirstSeq = 4 }, transcript.ErrCorrupt},
		"last seq":       {"events at the end are missing", func(s seg) { s.LastSeq = 9 }, transcript.ErrCorrupt},
		"another task's": {"journals do not mix", func(s seg) { s.TaskUID = "other" }, transcript.ErrCorrupt},
		"another index":  {"segments were swapped", func(s seg) { s.Index = ptr.To[int32](7) }, transcript.ErrCorrupt},
		"no index":       {"it must not panic", func(s seg) { s.Index = nil }, transcript.ErrCorrupt},
		"newer encoding": {"only a newer operator writes it", func(s seg) { s.Encoding = "brotli/cbor" }, transcript.ErrNewerVersion},
		"gap to previous": {"the first events of the segment are missing", func(s seg) {
			s.FirstSeq, s.LastSeq, s.Data = 4, 4, compress(t, strings.Replace(line, `"seq":3`, `"seq":4`, 1))
		}, transcript.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.why)
			c := fakeClient(t)
			j, _ := load(t, c)
			appendTo(t, j, twoLarge(1)...)
			appendTo(t, j, event(3))
			s := get(t, c, segment1)
			tc.damage(&s.Segment)
			if err := c.Update(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			_, _, err := transcript.Load(t.Context(), transcript.NewKubernetes(c), ref)
			if !errors.Is(err, tc.want) {
				t.Fatalf("want %q, got %v", tc.want, err)
			}
			if !strings.Contains(err.Error(), segment1) {
				t.Errorf("the error does not name the segment: %v", err)
			}
		})
	}
}

// A retry must not take damage for its own append.
func TestDamageIsNoLostAnswer(t *testing.T) {
	c := fakeClient(t)
	j, _ := load(t, c)
	appendTo(t, j, event(1))
	s := get(t, c, segment0)
	s.Segment.Data = append(s.Segment.Data, "garbage"...)
	if err := c.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(t.Context(), 1, []loop.Event{event(2)}); !errors.Is(err, transcript.ErrConflict) {
		t.Errorf("want a conflict, got %v", err)
	}
}

func FuzzDecodeSegment(f *testing.F) {
	golden, err := os.ReadFile("testdata/v1/events.zst")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(golden[:len(golden)/2])
	f.Add([]byte{})
	f.Add(compress(f, "{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, plain, err := transcript.DecodeSegment(data)
		if err == nil && (len(events) == 0 || plain == 0) {
			t.Error("neither events nor an error")
		}
	})
}

// What can be read can be written, and reads the same again; and it can be rendered.
func FuzzDecodeEvent(f *testing.F) {
	golden, err := os.ReadFile("testdata/v1/events.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(golden) {
		f.Add(bytes.TrimSuffix(line, []byte("\n")))
	}
	f.Add([]byte(`{"v":1,"seq":1,"kind":"Asked","asked":null}`))
	f.Add([]byte(`{"v":99}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := transcript.Decode(line)
		if err != nil {
			return
		}
		_, plain, err := transcript.Frame(e.Seq-1, []loop.Event{e})
		if err != nil {
			if errors.Is(err, transcript.ErrTooLarge) {
				return
			}
			t.Fatalf("read but not written: %v", err)
		}
		again, err := transcript.Decode(bytes.TrimSuffix(plain, []byte("\n")))
		if err != nil {
			t.Fatalf("written but not read: %v", err)
		}
		_, twice, err := transcript.Frame(e.Seq-1, []loop.Event{again})
		if err != nil || !bytes.Equal(plain, twice) {
			t.Errorf("%v: %s became %s", err, plain, twice)
		}
		var out bytes.Buffer
		if err := transcript.Render(&out, []loop.Event{e}); err != nil || bytes.ContainsAny(out.Bytes(), "\x1b\r\x07") {
			t.Errorf("%v: rendered as %q", err, out.String())
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for name, size := range map[string]int{"2KB": 2 << 10, "20KB": 20 << 10} {
		b.Run(name, func(b *testing.B) { benchmarkAppend(b, size) })
	}
}

// benchmarkAppend measures what an append costs before it reaches the API server, as prose with some noise in it.
func benchmarkAppend(b *testing.B, size int) {
	text := transcripttest.Text(size)
	events := make([]loop.Event, 1)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	stored := 0
	for b.Loop() {
		events[0] = textEvent(1, text)
		frame, _, err := transcript.Frame(0, events)
		if err != nil {
			b.Fatal(err)
		}
		stored = len(frame)
	}
	b.ReportMetric(float64(stored), "stored-B/op")
}

func BenchmarkLoad(b *testing.B) {
	frame, _, err := transcript.Frame(0, []loop.Event{textEvent(1, transcripttest.Text(20<<10))})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(20 << 10)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := transcript.DecodeSegment(frame); err != nil {
			b.Fatal(err)
		}
	}
}
