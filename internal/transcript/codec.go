package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// The limits of a segment and of one append. The first two decide where a segment ends, which every writer must see alike
// (docs/adr/0002-large-events-close-their-segment.md): they belong to the storage format and never change.
const (
	// segmentBytes and segmentPlainBytes: a segment whose data passes one of them takes no more events. The second bounds
	// the memory that reading a segment takes when its text compresses to nearly nothing.
	segmentBytes      = 8 << 10
	segmentPlainBytes = 512 << 10

	// appendPlainBytes and appendBytes bound the events of one append. An open segment and an append of this size make an
	// object of less than 700 KiB, base64 and metadata included.
	appendPlainBytes = 1 << 20
	appendBytes      = MaxEventBytes + 1<<10
)

// closed tells whether a segment takes no more events. It depends on nothing but the segment's data.
func closed(data []byte, plain int) bool {
	return len(data) > segmentBytes || plain > segmentPlainBytes
}

// The encoder and the decoder are shared by all journals: each holds working memory of some hundred KiB per call at once.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		return must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(2),
			zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true)))
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		return must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(segmentPlainBytes+appendPlainBytes)))
	})
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // constant options: only a programming error can get here
	}
	return v
}

// batch is the events of one append, ready to be stored.
type batch struct {
	plain []byte // JSON lines
	frame []byte // plain, compressed
	last  int64  // the last event's seq
}

// encode checks the events of an append and makes one frame of them.
func encode(expectSeq int64, events []loop.Event) (*batch, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // \u003c for < would take six times the space
	for i := range events {
		e := &events[i]
		if want := expectSeq + int64(i) + 1; e.Seq != want {
			return nil, fmt.Errorf("event %d where %d is due: a journal has no gaps", e.Seq, want)
		}
		if e.Version != loop.EventVersion {
			return nil, fmt.Errorf("event %d has schema version %d, only %d is written", e.Seq, e.Version, loop.EventVersion)
		}
		if err := check(e); err != nil {
			return nil, err
		}
		before := buf.Len()
		if err := enc.Encode(e); err != nil {
			return nil, fmt.Errorf("event %d: %w", e.Seq, err)
		}
		if n := buf.Len() - before - 1; n > MaxEventBytes {
			return nil, fmt.Errorf("%w: event %d (%s) takes %d bytes as JSON, at most %d fit", ErrTooLarge, e.Seq, e.Kind, n, MaxEventBytes)
		}
	}
	b := &batch{plain: buf.Bytes(), last: expectSeq + int64(len(events))}
	if len(b.plain) > appendPlainBytes {
		return nil, fmt.Errorf("%w: events %d to %d take %d bytes as JSON, at most %d fit into one append", ErrTooLarge, expectSeq+1, b.last, len(b.plain), appendPlainBytes)
	}
	b.frame = encoder().EncodeAll(b.plain, nil)
	if len(b.frame) > appendBytes {
		return nil, fmt.Errorf("%w: events %d to %d take %d bytes compressed, at most %d fit into one append", ErrTooLarge, expectSeq+1, b.last, len(b.frame), appendBytes)
	}
	return b, nil
}

// isTail tells whether data is what this batch makes of before. It compares content, not compressed bytes, so that it does
// not rest on the encoder giving the same bytes twice.
func (b *batch) isTail(data, before []byte) bool {
	if len(data) <= len(before) || !bytes.HasPrefix(data, before) {
		return false
	}
	plain, err := decoder().DecodeAll(data[len(before):], nil)
	return err == nil && bytes.Equal(plain, b.plain)
}

// decodeSegment gives the events of a segment's data, and how long they are before compression.
func decodeSegment(data []byte) ([]loop.Event, int, error) {
	plain, err := decoder().DecodeAll(data, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	events := make([]loop.Event, 0, bytes.Count(plain, []byte{'\n'}))
	for rest := plain; len(rest) > 0; {
		line, tail, found := bytes.Cut(rest, []byte{'\n'})
		if !found {
			return nil, 0, fmt.Errorf("%w: line %d has no end", ErrCorrupt, len(events)+1)
		}
		e, err := decode(line)
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", len(events)+1, err)
		}
		events, rest = append(events, e), tail
	}
	if len(events) == 0 {
		return nil, 0, fmt.Errorf("%w: no events", ErrCorrupt)
	}
	return events, len(plain), nil
}
