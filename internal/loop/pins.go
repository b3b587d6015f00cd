package loop

import "maps"

// MaxTools is the most tools of its toolsets that a task may have. Their names and digests fit one event beside the longest prompt.
const MaxTools = 1000

// Pins are what a task has agreed to: what each toolset offered it when the task saw that toolset first.
type Pins struct {
	// Toolsets are the names of those that were seen, be it without any tool.
	Toolsets map[string]bool
	// Digests are those of their tools, by the name that the model knows.
	Digests map[string]string
	// Unnamed: some of Digests come from a journal that does not name toolsets. Which were seen, only the names of their tools tell.
	Unnamed bool
}

// see adds what an opening notes. What was agreed to first stays. The maps are made anew: others may hold the former ones.
func (p *Pins) see(o *Opened) {
	if len(o.Toolsets)+len(o.ToolDigests) == 0 {
		return
	}
	p.Unnamed = p.Unnamed || len(o.Toolsets) == 0
	toolsets, digests := map[string]bool{}, map[string]string{}
	for _, name := range o.Toolsets {
		toolsets[name] = true
	}
	maps.Copy(toolsets, p.Toolsets)
	maps.Copy(digests, o.ToolDigests)
	maps.Copy(digests, p.Digests)
	p.Toolsets, p.Digests = toolsets, digests
}

// unseen tells whether the task has not seen one of these toolsets.
func (p *Pins) unseen(toolsets []string) bool {
	for _, name := range toolsets {
		if !p.Toolsets[name] {
			return true
		}
	}
	return false
}

// Pin records toolsets that the task sees for the first time, with the digests of their tools, so that they are in the journal before
// the first request that offers them. There is nothing to record of those that it has seen.
func (e *Engine) Pin(s *State, sp *Spec, toolsets []string, digests map[string]string) (Step, error) {
	r := e.record(s, sp)
	if s.End == nil && s.Pins.unseen(toolsets) {
		r.add(Event{Opened: &Opened{Holder: s.Holder, Toolsets: toolsets, ToolDigests: digests}})
	}
	return r.settle()
}

// pinsOnly tells an opening by which a holder adds pins from one by which it takes the journal over.
func (s *State) pinsOnly(o *Opened) bool {
	return s.Started() && !s.Released && o.Holder == s.Holder && len(o.Toolsets) > 0
}
