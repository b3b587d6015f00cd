//go:build share

package share

// held is what etcd holds of one task, in bytes but for the number of transcripts. It counts against etcd's quota; the history
// of the last minutes comes on top until it is compacted.
type held struct{ object, transcripts, journal int64 }

// etcdOf asks etcd itself.
func (r *rig) etcdOf(name string) (h held) {
	r.Helper()
	t := r.get(name)
	_, h.object = r.etcd("agenttasks/" + namespace + "/" + t.Name)
	h.transcripts, h.journal = r.etcd("agenttranscripts/" + namespace + "/" + string(t.UID))
	return h
}

// etcd counts the keys of this project with a prefix, and the bytes of their values.
func (r *rig) etcd(prefix string) (keys, size int64) {
	r.Helper()
	stored, err := r.cluster.Stored(r.ctx, prefix)
	r.must(err)
	for _, value := range stored {
		size += int64(len(value))
	}
	return int64(len(stored)), size
}
