package transcript

import (
	"encoding/json"
	"fmt"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

// An upgrade turns an event of one schema version into the next version's.
type upgrade func(line []byte) ([]byte, error)

// schema is the event schema that this code understands.
type schema struct {
	version  int
	upgrades map[int]upgrade // by the version they start from
}

// current has no upgrades: version 1 is the first. Whoever raises loop.EventVersion adds the step from the version before
// and a directory of golden files in testdata, and leaves those of older versions as they are.
var current = schema{version: loop.EventVersion, upgrades: map[int]upgrade{}}

// decode reads one event, of this version or an older one.
func decode(line []byte) (loop.Event, error) { return current.decode(line) }

func (s schema) decode(line []byte) (loop.Event, error) {
	var e loop.Event
	err := json.Unmarshal(line, &e)
	if err == nil && e.Version == s.version {
		return e, check(&e) // nearly every event
	}
	// The fields of another version may have other types, so its number alone is read, and first.
	var head struct {
		Version *int `json:"v"`
	}
	if headErr := json.Unmarshal(line, &head); headErr != nil || head.Version == nil {
		return loop.Event{}, fmt.Errorf("%w: no event with a schema version", ErrCorrupt)
	}
	v := *head.Version
	if v > s.version {
		return loop.Event{}, fmt.Errorf("schema version %d, this operator knows up to %d: %w", v, s.version, ErrNewerVersion)
	}
	if v == s.version {
		return loop.Event{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	for ; v < s.version; v++ {
		step, ok := s.upgrades[v]
		if !ok {
			return loop.Event{}, fmt.Errorf("%w: there never was a schema version %d", ErrCorrupt, v)
		}
		if line, err = step(line); err != nil {
			return loop.Event{}, fmt.Errorf("%w: from schema version %d: %w", ErrCorrupt, v, err)
		}
	}
	e = loop.Event{}
	if err := json.Unmarshal(line, &e); err != nil {
		return loop.Event{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return e, check(&e)
}

// check makes sure that an event has the payload of its kind and no other, so that who reads it can rely on that.
func check(e *loop.Event) error {
	if e.Seq < 1 {
		return fmt.Errorf("%w: event with seq %d", ErrCorrupt, e.Seq)
	}
	known, set, own := false, 0, false
	for _, p := range payloads(e) {
		known = known || p.kind == e.Kind
		if p.set {
			set++
			own = own || p.kind == e.Kind
		}
	}
	switch {
	case e.Kind == loop.KindSuspended || e.Kind == loop.KindUnsuspended || e.Kind == loop.KindReleased:
		if set > 0 {
			return fmt.Errorf("%w: event %d of kind %s has a payload", ErrCorrupt, e.Seq, e.Kind)
		}
	case !known:
		return fmt.Errorf("%w: event %d of unknown kind %q", ErrCorrupt, e.Seq, e.Kind)
	case set != 1 || !own:
		return fmt.Errorf("%w: event %d of kind %s must have that payload and no other", ErrCorrupt, e.Seq, e.Kind)
	}
	return nil
}

type payload struct {
	kind loop.EventKind
	set  bool
}

func payloads(e *loop.Event) [12]payload {
	return [...]payload{
		{loop.KindOpened, e.Opened != nil},
		{loop.KindModelReplied, e.ModelReplied != nil},
		{loop.KindModelFailed, e.ModelFailed != nil},
		{loop.KindCallsStarted, e.CallsStarted != nil},
		{loop.KindToolsReturned, e.ToolsReturned != nil},
		{loop.KindNudged, e.Nudged != nil},
		{loop.KindAsked, e.Asked != nil},
		{loop.KindInputSeen, e.InputSeen != nil},
		{loop.KindAnswered, e.Answered != nil},
		{loop.KindCompacted, e.Compacted != nil},
		{loop.KindLimitReached, e.LimitReached != nil},
		{loop.KindFinished, e.Finished != nil},
	}
}
