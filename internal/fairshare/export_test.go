package fairshare

// Left counts all that is kept in memory.
func (s *Slots[K]) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used + s.held + len(s.claims) + len(s.namespaces) + len(s.models) + len(s.ready)
}
