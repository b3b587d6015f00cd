package transcript

import "github.com/agentloop-dev/agenttask-operator/internal/loop"

// What the external tests look into.
var (
	Decode        = decode
	DecodeSegment = decodeSegment
	Closed        = closed
)

// Frame gives the compressed and the plain form of an append.
func Frame(expectSeq int64, events []loop.Event) (frame, plain []byte, err error) {
	b, err := encode(expectSeq, events)
	if err != nil {
		return nil, nil, err
	}
	return b.frame, b.plain, nil
}

// HeldBytes tells how much data of its last segment a journal of the Kubernetes store holds.
func HeldBytes(j Journal) int {
	k := j.(*kubernetesJournal)
	if k.segment == nil {
		return 0
	}
	return len(k.segment.Segment.Data)
}
